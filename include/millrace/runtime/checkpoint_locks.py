"""One driver per checkpoint: a lock in the checkpoint's folder, which drivers of other homes and specs see too.

Checkpoints outside the file systems of this machine are not locked. A failure to lock stops no query.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.model.errors import MillraceError
from millrace.run_folder.discovery import driver_of
from millrace.run_folder.lock import CHECKPOINT, AppLock, holders, is_ours
from millrace.runtime.jvm_lock import JvmLock
from millrace.runtime.stop import running
from millrace.runtime.writers import local_folder, writer_option

LOG = logging.getLogger(__name__)
OPTION = "checkpointLocation"
ROOT = "spark.sql.streaming.checkpointLocation"
"""Setting: folder under which named queries have their checkpoints by default."""


@dataclass
class _Held:
    """Both halves of a checkpoint's lock, and the query that runs on it; None until it has started."""

    lock: AppLock
    jvm_lock: JvmLock
    query: Any = None

    def release(self) -> None:
        self.jvm_lock.release()
        self.lock.release()


class CheckpointLocks:
    """Locks on this driver's checkpoints, until their queries end, the driver releases them, or it dies."""

    def __init__(self) -> None:
        self._held: dict[Path, _Held] = {}

    def take(self, writer: Any, options: Mapping[str, Any]) -> Path | None:
        """Lock the checkpoint of a query that is about to start and return its folder; None if it has no lock.

        Args:
            writer: The query's DataStreamWriter.
            options: Keyword arguments of ``start`` or ``toTable``.

        Raises:
            MillraceError: If another driver holds it; the message names that driver.
        """
        try:
            folder = checkpoint_folder(writer, options)
            if folder is not None and folder not in self._held and is_ours(folder, CHECKPOINT):
                return None  # the script took it before, and frees it by itself, as a node of a fleet does
            held = folder is None or folder in self._held or self._taken(writer._spark, folder)
        except Exception as error:
            LOG.warning("The checkpoint is not locked: %s", error)
            return None
        if folder is not None and not held:
            remedy = f"{_holder(folder)} uses it: stop that process, or give this query another {OPTION}."
            raise MillraceError("checkpoint", str(folder), "a checkpoint that no other driver uses", remedy)
        return folder

    def started(self, folder: Path | None, query: Any) -> None:
        """Keep the lock for the query that started on the checkpoint, and free the locks of ended queries."""
        if folder is not None:
            self._held[folder].query = query
        for ended in [path for path, held in self._held.items() if held.query is None or not running(held.query)]:
            self._held.pop(ended).release()

    def release(self) -> None:
        """Free all locks before the process ends."""
        for held in self._held.values():
            held.release()
        self._held.clear()

    def _taken(self, spark: Any, folder: Path) -> bool:
        lock = AppLock(folder, CHECKPOINT)
        if not lock.try_acquire():
            return False
        jvm_lock = JvmLock(spark, lock.path)
        if not jvm_lock.try_acquire():
            jvm_lock.release()
            lock.release()
            return False
        self._held[folder] = _Held(lock, jvm_lock)
        return True


def checkpoint_folder(writer: Any, options: Mapping[str, Any]) -> Path | None:
    """Return the folder of a query's checkpoint; None if it is temporary or not on this machine."""
    spark, given = writer._spark, {key.lower(): value for key, value in options.items()}
    location = given.get(OPTION.lower()) or writer_option(writer, OPTION)
    if location is None:
        root, name = spark.conf.get(ROOT, None), given.get("queryname") or writer_option(writer, "queryName")
        if root is None or name is None:
            return None  # a temporary checkpoint
        location = f"{root}/{name}"
    return local_folder(spark, str(location))


def _holder(folder: Path) -> str:
    """Return which process holds a checkpoint, with what a person needs to find it."""
    pid = next(iter(holders(folder, CHECKPOINT)), None)
    if pid is None:
        return "Another process"
    driver = driver_of(pid)
    if driver is None:
        return f"Process {pid}"
    return f"The driver of {driver.pipeline}/{driver.app} (pid {pid}, run folder {driver.run_dir})"
