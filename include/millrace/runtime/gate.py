"""The gate in ``DataStreamWriter.start``: behind it, only one driver per app and per checkpoint runs queries.

A successor waits for the lock of its app. It does not wait for a driver of another home or spec that holds the
checkpoint: the query fails to start.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.driver_records import DriverState, app_dir
from millrace.run_folder.generation import newest
from millrace.run_folder.lock import AppLock
from millrace.runtime.checkpoint_locks import CheckpointLocks
from millrace.runtime.journal import Journal
from millrace.runtime.jvm_lock import JvmLock
from millrace.runtime.stop import running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S = 0.01
SUBMITTED = ("spark.sql.", "spark.databricks.")
"""Prefixes of the settings from spark-submit that a script cannot override."""
KEPT_ENDED = 8
"""Ended queries that the driver remembers, the newest, if they were not started again."""


class Closed(SystemExit):
    """The driver may start no query: its script ends quietly (``except Exception`` does not catch SystemExit)."""


class Gate:
    """Lets the script's queries start once this driver alone holds its app.

    Args:
        arguments: The driver's arguments.
        journal: The driver's record.
        warm_up: Called with the first query's DataFrame while another driver still holds the app.
        listen: Called with a session before the first query of its application starts.

    Attributes:
        queries: The newest run of each of the script's queries. A script may run one query a thousand times, or a
            thousand queries in turn, so only the newest ended queries are kept, preferably those that failed.
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
        self._context: Any = None
        self._folder = app_dir(arguments.run_dir, arguments.pipeline, arguments.app)
        self._lock = AppLock(self._folder)
        self._jvm_lock: JvmLock | None = None
        self._checkpoints = CheckpointLocks()
        self._opening = threading.Lock()
        self._starting = threading.Lock()
        self._passed = self._open = self._shut = False
        self.queries: list[Any] = []

    def install(self) -> None:
        """Wrap ``start`` and ``toTable`` of every streaming writer."""
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        for name in ("start", "toTable"):
            setattr(DataStreamWriter, name, self._wrapped(getattr(DataStreamWriter, name)))

    def shut(self) -> bool:
        """Let no more queries start; return whether any ever started."""
        with self._starting:
            self._shut = True
            return self._open

    def release(self) -> None:
        """Give the app to the next driver: the script has ended, and a shut gate starts nothing."""
        self.shut()
        self._checkpoints.release()
        if self._jvm_lock is not None:
            self._jvm_lock.release()
        self._lock.release()

    def _wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def start(writer: Any, *args: Any, **options: Any) -> Any:
            _restore_settings(writer._spark)
            with self._opening:
                self._listen_once(writer._spark)
                if not self._passed:
                    self._pass(writer._df, writer._spark)
                    self._passed = True
            with self._starting:
                if self._shut:
                    raise Closed(0)
                checkpoint = self._checkpoints.take(writer, options)
                self._open = True
                query = original(writer, *args, **options)
                self._remember(query)
                self._checkpoints.started(checkpoint, query)
            return query

        return start

    def _listen_once(self, spark: SparkSession) -> None:
        if spark.sparkContext is not self._context:
            self._context = spark.sparkContext
            self._listen(spark)

    def _remember(self, query: Any) -> None:
        """Remember a started query in place of its earlier run."""
        others = [known for known in self.queries if running(known) or not same_query(known, query)]
        ended = [known for known in others if not running(known)]
        kept = sorted(ended, key=lambda known: known.exception() is not None)[-KEPT_ENDED:]
        self.queries[:] = [*(known for known in others if known not in ended or known in kept), query]

    def _pass(self, frame: DataFrame, spark: SparkSession) -> None:
        """Wait for the app's lock; end quietly if the driver was superseded in the meantime."""
        jvm_lock = self._jvm_lock = self._jvm_lock or JvmLock(spark, self._lock.path)

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
            self._journal.advanced()  # waiting for another driver is not a hang
            if time.monotonic() > give_up:
                self._journal.move(DriverState.STOPPED, f"waited {limit_s:g} s for the app's lock")
                raise Closed(0)
            time.sleep(POLL_S)


def same_query(a: Any, b: Any) -> bool:
    """Return whether two runs belong to the same query: same checkpoint or same name."""
    return bool(a.id == b.id or (a.name is not None and a.name == b.name))


def _restore_settings(spark: SparkSession) -> None:
    """Restore what spark-submit set: a script's ``.config()`` overwrites it in the shared session."""
    for key, value in spark.sparkContext.getConf().getAll():
        if key.startswith(SUBMITTED) and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
