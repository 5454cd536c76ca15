"""The JVM's half of a lock: a query commits from the JVM and from Python, and either may outlive the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from millrace.run_folder.lock import JVM_BYTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JvmLock:
    """A lock on one byte of a lock file, held by the driver's JVM.

    Args:
        spark: The session whose JVM takes the lock.
        path: The lock file.
    """

    def __init__(self, spark: SparkSession, path: Path) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._kept, self._name = jvm.java.lang.System.getProperties(), f"millrace.lock.{path}"
        self._channel = jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
        # A killed Python driver takes its references with it. The JVM may still be working and must keep the lock.
        self._kept.put(self._name, self._channel)
        self._held = False

    def try_acquire(self) -> bool:
        """Take the lock if no other JVM holds it; return whether this JVM holds it."""
        self._held = self._held or self._channel.tryLock(JVM_BYTE, 1, False) is not None
        return self._held

    def release(self) -> None:
        """Free the lock before the JVM ends."""
        self._channel.close()
        self._kept.remove(self._name)
