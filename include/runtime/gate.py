"""The gate in ``DataStreamWriter.start``: behind it at most one driver of an app runs its queries.

An app's lock has two halves, one held by the Python driver and one by its JVM; the kernel frees each with its process.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from include.run_folder.arguments import DriverArguments
from include.run_folder.driver_records import DriverState, app_dir
from include.run_folder.generation import newest
from include.run_folder.lock import JVM_BYTE, AppLock
from include.runtime.journal import Journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.01
SUBMITTED = ("spark.sql.", "spark.databricks.")
"""Settings that a script cannot take back from spark-submit."""


class JvmLock:
    """A lock on one byte of the app's lock file, held by the driver's JVM.

    Args:
        spark: The session whose JVM takes it.
        path: The lock file.
    """

    def __init__(self, spark: SparkSession, path: Path) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._channel = jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
        # A killed Python driver takes its references with it; the engine may still be at work and must keep the lock.
        jvm.java.lang.System.getProperties().put(f"millrace.lock.{path}", self._channel)
        self._held = False

    def try_acquire(self) -> bool:
        """Take the lock if no other JVM holds it and say whether it is held now."""
        self._held = self._held or self._channel.tryLock(JVM_BYTE, 1, False) is not None
        return self._held

    def release(self) -> None:
        """Free the lock before the JVM's death."""
        self._channel.close()


class Closed(SystemExit):
    """The driver may start no query: its script ends quietly (as SystemExit, which no ``except Exception`` catches)."""


class Gate:
    """Lets the script's queries start once this driver alone holds its app.

    Args:
        arguments: The driver's arguments.
        journal: The driver's record.
        warm_up: Called with the first query's DataFrame while another driver still holds the app.
        listen: Called with each session before its first query starts.
    """

    def __init__(
        self,
        arguments: DriverArguments,
        journal: Journal,
        warm_up: Callable[[DataFrame], None],
        listen: Callable[[SparkSession], None],
    ) -> None:
        self._arguments = arguments
        self._journal = journal
        self._warm_up, self._listen = warm_up, listen
        self._sessions: list[SparkSession] = []
        self._folder = app_dir(arguments.run_dir, arguments.pipeline, arguments.app)
        self._lock = AppLock(self._folder)
        self._jvm_lock: JvmLock | None = None
        self._opening = threading.Lock()
        self._starting = threading.Lock()
        self._open = self._shut = False
        self.queries: list[Any] = []

    def install(self) -> None:
        """Wrap ``start`` and ``toTable`` of every streaming writer."""
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        for name in ("start", "toTable"):
            setattr(DataStreamWriter, name, self._wrapped(getattr(DataStreamWriter, name)))

    def shut(self) -> bool:
        """Let no further query start; return whether one ever started."""
        with self._starting:
            self._shut = True
            return self._open

    def release(self) -> None:
        """Give the app to the next driver: the script has ended, and a shut gate starts nothing any more."""
        self.shut()
        if self._jvm_lock is not None:
            self._jvm_lock.release()
        self._lock.release()

    def _wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def start(writer: Any, *args: Any, **options: Any) -> Any:
            _restore_settings(writer._spark)
            with self._opening:
                self._listen_once(writer._spark)
                if not self._open:
                    self._pass(writer._df, writer._spark)
            with self._starting:
                if self._shut:
                    raise Closed(0)
                self._open = True
                query = original(writer, *args, **options)
                self.queries.append(query)
            return query

        return start

    def _listen_once(self, spark: SparkSession) -> None:
        if not any(spark is session for session in self._sessions):
            self._sessions.append(spark)
            self._listen(spark)

    def _pass(self, frame: DataFrame, spark: SparkSession) -> None:
        """Wait for the app's lock; end quietly if the driver was superseded meanwhile."""
        jvm_lock = self._jvm_lock = JvmLock(spark, self._lock.path)

        def acquired() -> bool:
            return self._lock.try_acquire() and jvm_lock.try_acquire()

        if not acquired():
            self._warm_up(frame)
            self._await(acquired)
        if newest(self._folder) > self._arguments.generation:
            self._journal.move(DriverState.STOPPED, "superseded by a later generation")
            raise Closed(0)
        self._journal.move(DriverState.RUNNING)

    def _await(self, acquired: Callable[[], bool]) -> None:
        self._journal.move(DriverState.WAITING)
        limit_s = self._arguments.ready_deadline_s + self._arguments.stop_deadline_s
        give_up = time.monotonic() + limit_s
        while not acquired():
            if self._shut:
                raise Closed(0)
            self._journal.advanced()  # it waits for another driver, not for itself
            if time.monotonic() > give_up:
                self._journal.move(DriverState.STOPPED, f"waited {limit_s:g} s for the lock of the app")
                raise Closed(0)
            time.sleep(POLL_S)


def _restore_settings(spark: SparkSession) -> None:
    """Set again what spark-submit was given: a script's ``.config()`` overwrites it in the shared session."""
    for key, value in spark.sparkContext.getConf().getAll():
        if key.startswith(SUBMITTED) and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
