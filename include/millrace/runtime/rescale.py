"""Changes the number of state partitions of stopped queries. The change can be undone until a driver has committed.

Spark rewrites the state of a checkpoint in place and cannot undo that, so a copy is made first. Undoing copies it back
instead of renaming it: if a rename is not atomic, a kill in the middle of it would leave neither folder complete.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millrace.model.failure import reason
from millrace.run_folder.driver_records import QueryCheckpoint
from millrace.run_folder.rescale_record import Phase, Rescale, copy_of, read, write
from millrace.runtime.checkpoints import STATE_STORE
from millrace.runtime.spark_versions import RESCALE, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_SINK = re.compile(r"DeltaSink\[(.*)\]")
"""How Spark describes a Delta table as a sink."""
ALREADY = "SHUFFLE_PARTITIONS_ALREADY_MATCH"
"""Spark's error for a checkpoint that already has the number."""
COMMITS = "commits"


class Folders:
    """Copies and deletes folders on any of Hadoop's file systems.

    Args:
        spark: A session.
    """

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._hadoop, self._conf = context._jvm.org.apache.hadoop.fs, context._jsc.hadoopConfiguration()

    def copy(self, source: str, target: str) -> None:
        """Replace a folder, whatever it contains, with a copy of another.

        Raises:
            OSError: If the copy is not as large as the original.
            Py4JJavaError: If a folder cannot be read or written.
        """
        (from_files, from_path), (to_files, to_path) = self._place(source), self._place(target)
        to_files.delete(to_path, True)
        copied = self._hadoop.FileUtil.copy(from_files, from_path, to_files, to_path, False, True, self._conf)
        wanted, there = self._bytes(source), self._bytes(target)
        if not copied or wanted != there:
            raise OSError(f"{target} has {there} of the {wanted} bytes of {source}")

    def delete(self, folder: str) -> None:
        """Delete a folder if it is there."""
        files, path = self._place(folder)
        files.delete(path, True)

    def exists(self, folder: str) -> bool:
        """Return whether a folder exists."""
        files, path = self._place(folder)
        return bool(files.exists(path))

    def newest(self, folder: str) -> int:
        """Return the highest number used as a file name in a folder; -1 if there is none."""
        files, path = self._place(folder)
        names = [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _bytes(self, folder: str) -> int:
        files, path = self._place(folder)
        return int(files.getContentSummary(path).getLength())

    def _place(self, folder: str) -> tuple[Any, Any]:
        path = self._hadoop.Path(folder)
        return path.getFileSystem(self._conf), path


def change(spark: SparkSession, folder: Path) -> Rescale:
    """Rescale an app's checkpoints and return the outcome. If one of them fails, all are restored.

    Args:
        spark: A session that reads the checkpoints. No driver of the app may run.
        folder: The app's folder under the run folder, with a change that has not started.
    """
    folders, task = Folders(spark), _task(folder)
    there = tuple(c for c in task.checkpoints if folders.exists(c.folder))  # a deleted one starts from scratch
    try:
        for checkpoint in there:
            folders.copy(checkpoint.folder, copy_of(checkpoint.folder))
        task = write(folder, replace(task, checkpoints=there, phase=Phase.CHANGING))
        for checkpoint in there:
            _rescale(spark, checkpoint, task.partitions)
    except Exception as error:
        traceback.print_exception(error)
        return _restored(folders, folder, task, reason(error))
    return write(folder, replace(task, phase=Phase.CHANGED))


def undo(spark: SparkSession, folder: Path) -> Rescale:
    """Undo a change that was interrupted or whose driver failed, and return the outcome.

    If a query has committed a batch since, or a Delta table has accepted one, the change stays: its results are
    visible. Safe to repeat.
    """
    folders, task = Folders(spark), _task(folder)
    if task.phase in (Phase.UNDONE, Phase.KEPT):
        return _cleaned(folders, folder, task)
    if task.phase is Phase.CHANGED and any(_is_out(spark, folders, checkpoint) for checkpoint in task.checkpoints):
        return _cleaned(folders, folder, write(folder, replace(task, phase=Phase.KEPT)))
    return _restored(folders, folder, task, task.error or "it was interrupted")


def clean(spark: SparkSession, folder: Path) -> Rescale:
    """Delete the copies if they are no longer needed."""
    return _cleaned(Folders(spark), folder, _task(folder))


def _task(folder: Path) -> Rescale:
    task = read(folder)
    if task is None:
        raise FileNotFoundError(f"{folder} has no state rescaling task")
    return task


def _rescale(spark: SparkSession, checkpoint: QueryCheckpoint, partitions: int) -> None:
    require("another number of state partitions", spark.version, RESCALE)
    spark.conf.set(STATE_STORE, checkpoint.provider)
    spark.streams  # noqa: B018 - creates the coordinator to which tasks report state
    try:
        spark._streamingCheckpointManager.repartition(checkpoint.folder, partitions)
    except Exception as error:
        if ALREADY not in str(error):
            raise


def _is_out(spark: SparkSession, folders: Folders, checkpoint: QueryCheckpoint) -> bool:
    """Return whether a query has a batch after that of the rescale, which follows the copy's last batch.

    A driver may die after its Delta table has accepted a batch and before the query has committed it. If the copy were
    restored then, the next batches would reuse numbers that the table knows, and the table would skip their rows.
    """
    copied = folders.newest(f"{copy_of(checkpoint.folder)}/{COMMITS}")
    return max(folders.newest(f"{checkpoint.folder}/{COMMITS}"), _taken(spark, checkpoint)) > copied + 1


def _taken(spark: SparkSession, checkpoint: QueryCheckpoint) -> int:
    """Return the number of a query's last batch in its Delta table; -1 if there is none or no Delta sink."""
    table = DELTA_SINK.fullmatch(checkpoint.sink)
    if table is None:
        return -1
    query = json.loads(spark.read.text(f"{checkpoint.folder}/metadata").collect()[0][0])["id"]
    delta: Any = spark.sparkContext._jvm.org.apache.spark.sql.delta
    log = delta.DeltaLog.forTable(spark._jsparkSession, table[1])
    number = log.unsafeVolatileSnapshot().transactions().get(query)
    return int(number.get()) if number.isDefined() else -1


def _restored(folders: Folders, folder: Path, task: Rescale, error: str) -> Rescale:
    if task.phase in (Phase.CHANGING, Phase.CHANGED):
        task = write(folder, replace(task, phase=Phase.CHANGING, error=error))
        for checkpoint in task.checkpoints:
            folders.copy(copy_of(checkpoint.folder), checkpoint.folder)
    return _cleaned(folders, folder, write(folder, replace(task, phase=Phase.UNDONE, error=error)))


def _cleaned(folders: Folders, folder: Path, task: Rescale) -> Rescale:
    if task.phase in (Phase.UNDONE, Phase.KEPT):
        _delete_copies(folders, task.checkpoints)
        task = write(folder, replace(task, copies=False))
    return task


def _delete_copies(folders: Folders, checkpoints: Iterable[QueryCheckpoint]) -> None:
    for checkpoint in checkpoints:
        folders.delete(copy_of(checkpoint.folder))
