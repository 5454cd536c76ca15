"""The queries of a node's streams: their sessions, checkpoints, locks and sinks, until they end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.fleet.locks import StreamLocks
from millrace.fleet.names import folder_of
from millrace.fleet.user_function import Prepared, StreamFunction, prepare
from millrace.model.errors import MillraceError
from millrace.model.failure import reason
from millrace.runtime.stop import NOTHING_TO_DO, end_at_boundary, running
from millrace.runtime.writers import local_folder

LOG = logging.getLogger(__name__)
POLL_S = 0.1
POOL = "spark.scheduler.pool"


@dataclass(frozen=True)
class NodeSettings:
    """Settings of a node.

    Attributes:
        checkpoints: Folder or URI with one checkpoint per stream.
        locks: Folder that all nodes share, for the locks of checkpoints that are not on this machine's file systems.
        options: Passed to the user's function.
        stop_deadline_s: Time until a stream that reaches no batch boundary is stopped in its batch, seconds.
        most_starts: Streams that may start at once, >= 1.
    """

    checkpoints: str
    locks: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    stop_deadline_s: float = 30.0
    most_starts: int = 4


class Blocked(Exception):  # noqa: N818 - an outcome: try again later
    """Another process holds the lock of a stream's checkpoint; the text names it."""


class Unwanted(Exception):  # noqa: N818 - an outcome: nothing to start any more
    """A stream was assigned elsewhere before it had started."""


@dataclass
class _Run:
    """What is kept of a stream from its preparation to the end of its query."""

    prepared: Prepared
    query: Any = None
    query_id: str = ""


class StreamQueries:
    """The queries of one node's streams. :meth:`start` and :meth:`end` may take long, so each call has its own thread.

    Args:
        spark: A session; each stream gets a session of its own.
        function: The user's function.
        settings: The node's settings.
    """

    def __init__(self, spark: Any, function: StreamFunction, settings: NodeSettings) -> None:
        self._spark, self._function, self._settings = spark, function, settings
        self._locks, self._mutex = StreamLocks(), threading.Lock()
        self._sessions: dict[str, Any] = {}
        self._runs: dict[str, _Run] = {}
        self._sinks: dict[str, str] = {}
        self._active = spark._jsparkSession.sharedState().activeStreamingQueries()
        self._folder = local_folder(spark, settings.checkpoints)

    @property
    def streams(self) -> set[str]:
        """Streams that are prepared or have a query."""
        return set(list(self._runs))

    @property
    def sinks(self) -> Mapping[str, str]:
        """Sink of each of them whose writer shows it, by stream."""
        return {stream: sink for sink, stream in list(self._sinks.items())}

    def start(self, name: str, wanted: Callable[[str], bool]) -> Any:
        """Start a stream and return its query.

        Raises:
            Blocked: If another process holds its lock. What the user's function returned is kept for the next call.
            Unwanted: If it is not wanted any more.
            Exception: If the user's function fails, or Spark refuses the query.
        """
        session = self._session(name)
        session.sparkContext.setLocalProperty(POOL, name)  # the query's thread inherits it
        if name not in self._runs:
            checkpoint = f"{self._settings.checkpoints}/{folder_of(name)}"
            self._keep(name, prepare(self._function, session, name, self._settings.options, checkpoint))
        if not wanted(name):
            raise Unwanted
        if not self._locks.take(session, self._lock(name)):
            raise Blocked(self.holder(name) or "another process")
        return self._runs[name].prepared.writer.start()

    def started(self, name: str, query: Any) -> None:
        """Keep the query of a stream."""
        self._runs[name].query, self._runs[name].query_id = query, str(query.id)

    def end(self, name: str, deadline_s: float) -> None:
        """End a query after its running batch, or in it at the deadline: Spark repeats that batch."""
        query = self._runs[name].query
        try:
            if not end_at_boundary([query], deadline_s):
                LOG.warning("Stream %s was stopped in a batch, which will be repeated.", name)
        except Exception as error:
            LOG.warning("Stream %s ends without a batch boundary: %s", name, error)
        while running(query):
            try:
                query.stop()
            except Exception as error:  # it takes longer than spark.sql.streaming.stopTimeout
                LOG.warning("Stream %s still runs: %s", name, reason(error))
            time.sleep(POLL_S)

    def end_all(self, deadline_s: float) -> None:
        """End all queries like :meth:`end`, and free their locks."""
        end_at_boundary([run.query for run in self._runs.values() if run.query is not None], deadline_s)
        for name in self.streams:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Free the lock and the sink of a stream whose query has ended, or never started."""
        with self._mutex:
            self._runs.pop(name, None)
            for sink in [sink for sink, owner in self._sinks.items() if owner == name]:
                del self._sinks[sink]
        self._locks.free(self._lock(name))

    def holder(self, name: str) -> str | None:
        """Return which other process holds the lock of a stream; None if none does."""
        return self._locks.holder(self._lock(name))

    def observe(self) -> Iterator[tuple[str, Any, bool]]:
        """Yield each stream with its query, and whether the query has ended."""
        active = self.active()
        for name, run in list(self._runs.items()):
            if run.query is not None:
                yield name, run.query, run.query_id not in active and not running(run.query)

    def active(self) -> str:
        """Return the ids of all running queries of the driver as one text: one call, whatever their number."""
        return str(self._active.keySet().toString())

    def _session(self, name: str) -> Any:
        """Return the session of a stream, which it keeps: other streams do not see its views and settings."""
        with self._mutex:
            if name not in self._sessions:
                self._sessions[name] = self._spark.newSession()
            return self._sessions[name]

    def _keep(self, name: str, prepared: Prepared) -> None:
        """Keep a prepared stream, unless another stream of this node has its sink."""
        with self._mutex:
            owner = name if prepared.sink is None else self._sinks.setdefault(prepared.sink, name)
            if owner != name:
                remedy = "Give each stream a sink of its own, for example with the stream's name in its path."
                raise MillraceError("sink", prepared.sink, f"a sink that stream {owner} does not write to", remedy)
            self._runs[name] = _Run(prepared)

    def _lock(self, name: str) -> Path:
        """Return the folder of a stream's lock."""
        if self._folder is not None:
            return self._folder / folder_of(name)
        return self._settings.locks / folder_of(f"{self._settings.checkpoints}/{name}")


def progress_of(query: Any) -> tuple[bool, bool]:
    """Return whether a query's first trigger has ended, and whether it has processed a batch since its start."""
    progress = query.lastProgress
    batch = progress is not None and "addBatch" in progress["durationMs"]
    return batch or progress is not None or query.status["message"] == NOTHING_TO_DO, batch
