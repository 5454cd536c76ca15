"""Locks of streams: only one process runs a stream. A node takes and frees each of them by itself.

It is the lock of the checkpoint that every driver of Millrace takes, so a stream's checkpoint is safe from drivers of
other pipelines and homes as well. A checkpoint that is not on this machine's file systems has its lock in a folder that
all nodes share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millrace.run_folder.discovery import driver_of
from millrace.run_folder.lock import CHECKPOINT, AppLock, holders
from millrace.runtime.jvm_lock import JvmLock


class StreamLocks:
    """The locks that this process holds, by folder; for any thread.

    Args:
        jvm_lock: Makes the JVM's half of a lock, from a session and the lock file.
    """

    def __init__(self, jvm_lock: Callable[[Any, Path], Any] = JvmLock) -> None:
        self._jvm_lock = jvm_lock
        self._held: dict[Path, tuple[AppLock, Any]] = {}
        self._mutex = threading.Lock()

    def take(self, spark: Any, folder: Path) -> bool:
        """Lock a folder and return True, or return False if another process holds it.

        Raises:
            OSError: If the folder cannot be written.
        """
        with self._mutex:
            if folder in self._held:
                return True
            lock = AppLock(folder, CHECKPOINT)
            if not lock.try_acquire():
                return False
            jvm_lock = self._jvm_lock(spark, lock.path)
            if not jvm_lock.try_acquire():
                jvm_lock.release()
                lock.release()
                return False
            self._held[folder] = lock, jvm_lock
            return True

    def free(self, folder: Path) -> None:
        """Free a folder after its query has ended."""
        with self._mutex:
            if folder in self._held:
                lock, jvm_lock = self._held.pop(folder)
                jvm_lock.release()
                lock.release()

    def holder(self, folder: Path) -> str | None:
        """Return which other process holds a folder; None if none does."""
        with self._mutex:  # to look, the file is opened and closed, which would free a lock of this process
            pids = () if folder in self._held else holders(folder, CHECKPOINT)
        return _named(pids[0]) if pids else None


def _named(pid: int) -> str:
    driver = driver_of(pid)
    return f"process {pid}" if driver is None else f"{driver.pipeline}/{driver.app} (pid {pid})"
