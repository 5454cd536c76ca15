"""One driver a checkpoint: a lock in the checkpoint's own folder, which drivers of other homes and specs see too.

Checkpoints elsewhere than on a file system of this machine have none: what cannot be locked stops no query.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from millrace.model.errors import MillraceError
from millrace.run_folder.arguments import recognise
from millrace.run_folder.lock import CHECKPOINT, AppLock, holders
from millrace.runtime.jvm_lock import JvmLock
from millrace.runtime.stop import running

LOG = logging.getLogger(__name__)
OPTION = "checkpointLocation"
ROOT = "spark.sql.streaming.checkpointLocation"
"""Setting below which named queries have their checkpoints by default."""


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
    """The checkpoints that this driver has for itself, until their queries end, it releases them, or it dies."""

    def __init__(self) -> None:
        self._held: dict[Path, _Held] = {}

    def take(self, writer: Any, options: Mapping[str, Any]) -> Path | None:
        """Lock the checkpoint of a query that is about to start, and return its folder; None if it has no lock.

        Args:
            writer: Its DataStreamWriter.
            options: What ``start`` or ``toTable`` was given by name.

        Raises:
            MillraceError: If another driver has it; the message says who.
        """
        try:
            folder = checkpoint_folder(writer, options)
            held = folder is None or folder in self._held or self._taken(writer._spark, folder)
        except Exception as error:
            LOG.warning("The checkpoint is not locked: %s", error)
            return None
        if folder is not None and not held:
            remedy = f"{_holder(folder)} has it: stop that one, or give this query another {OPTION}."
            raise MillraceError("checkpoint", str(folder), "a checkpoint that no other driver has", remedy)
        return folder

    def started(self, folder: Path | None, query: Any) -> None:
        """Keep a checkpoint for the query that started on it, and free those whose queries have ended."""
        if folder is not None:
            self._held[folder].query = query
        for ended in [path for path, held in self._held.items() if held.query is None or not running(held.query)]:
            self._held.pop(ended).release()

    def release(self) -> None:
        """Free all of them before the process's death."""
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
    """Return where a query is going to have its checkpoint; None where that is no folder of this machine.

    Internal to Spark, and held by a test: a writer's own options are readable from within only.
    """
    spark, given = writer._spark, {key.lower(): value for key, value in options.items()}
    location = given.get(OPTION.lower()) or _option(writer, OPTION)
    if location is None:
        root, name = spark.conf.get(ROOT, None), given.get("queryname") or _option(writer, "queryName")
        if root is None or name is None:
            return None  # a temporary one
        location = f"{root}/{name}"
    context = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(str(location))
    whole = path.getFileSystem(context._jsc.hadoopConfiguration()).makeQualified(path).toUri()
    return Path(whole.getPath()) if whole.getScheme() == "file" else None


def _option(writer: Any, key: str) -> str | None:
    field = writer._jwrite.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    value = field.get(writer._jwrite).get(key)
    return str(value.get()) if value.isDefined() else None


def _holder(folder: Path) -> str:
    """Return who has a checkpoint, as a person can find it."""
    pid = next(iter(holders(folder, CHECKPOINT)), None)
    with suppress(psutil.Error):
        driver = recognise(psutil.Process(pid).cmdline()) if pid else None
        if driver is not None:
            return f"The driver of {driver.pipeline}/{driver.app} (pid {pid}, run folder {driver.run_dir})"
    return f"Process {pid}" if pid else "Another process"
