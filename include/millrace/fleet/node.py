"""A node of a fleet: one driver that runs the streams assigned to it, each as a query with its own checkpoint.

One thread decides. What may take long (the user's function, the start and the end of a query) runs in a thread of its
own and reports back with a call that the deciding thread makes. So a stream that hangs delays no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from millrace.fleet.assignment import Assignment
from millrace.fleet.queries import POLL_S, Blocked, NodeSettings, StreamQueries, Unwanted, progress_of
from millrace.fleet.status import StreamStatus
from millrace.fleet.streams import Phase, Stream, Streams
from millrace.fleet.user_function import StreamFunction
from millrace.model.errors import MillraceError
from millrace.model.failure import reason
from millrace.runtime.gate import Closed

LOG = logging.getLogger(__name__)
READ_S, REPORT_S = 0.3, 1.0
"""Time between two reads of the Deployments, and least time between two reports, seconds."""
MODE = "spark.scheduler.mode"
ENDED = "the query ended by itself; give it a trigger that continues, such as processingTime"
HEARTBEAT = "millrace-node"


class Node:
    """Runs streams until it is told to stop.

    Args:
        spark: A session.
        function: The user's function.
        settings: The node's settings.
        assigned: Returns the streams that the node has to run.
        report: Takes the version of their assignment and the state of the streams, whenever these have changed.
        others: Returns the phases of another node's streams, by its app and the version that it must have read. A
            stream that is assigned to another node runs on here until that node waits for it.
        heartbeat: A query that ends only when the driver is asked to stop; the node ends with it.
    """

    def __init__(
        self,
        spark: Any,
        function: StreamFunction,
        settings: NodeSettings,
        assigned: Callable[[], Assignment],
        report: Callable[[int, tuple[StreamStatus, ...]], None] = lambda version, streams: None,
        others: Callable[[str, int], Mapping[str, Phase]] = lambda app, version: {},
        heartbeat: Any = None,
    ) -> None:
        self._settings, self._read, self._report, self._others = settings, assigned, report, others
        self._queries, self._streams = StreamQueries(spark, function, settings), Streams(settings.most_starts)
        self._heartbeat, self._heartbeat_id = heartbeat, "" if heartbeat is None else str(heartbeat.id)
        self._outcomes: SimpleQueue[Callable[[float], None]] = SimpleQueue()
        self._halt = threading.Event()
        self._assignment, self._kept = Assignment(), frozenset[str]()
        self._reported: tuple[int, tuple[tuple[Stream, bool], ...]] | None = None
        self._read_s = self._reported_s = float("-inf")
        if spark.sparkContext.getConf().get(MODE, "FIFO") != "FAIR":
            LOG.warning("Set %s to FAIR, or a large batch of one stream delays the others of this node.", MODE)

    def run(self) -> None:
        """Run the streams until :meth:`stop` is called, then end them at a batch boundary."""
        while not self._halt.wait(POLL_S):
            self._step(time.monotonic())
        self._queries.end_all(self._settings.stop_deadline_s)

    def stop(self) -> None:
        """End the node soon; any thread may call this."""
        self._halt.set()

    def _step(self, now: float) -> None:
        if now - self._read_s >= READ_S:
            self._assignment, self._read_s = self._read(), now
            self._kept = self._kept_streams()
        while not self._outcomes.empty():
            self._outcomes.get()(now)
        self._observe(now)
        plan = self._streams.plan(self._assignment.streams | self._kept, now)
        for name in plan.stops:
            self._spawn(self._end, name)
        for name in plan.starts:
            self._spawn(self._start, name)
        for stream in self._streams:
            if stream.phase is Phase.BLOCKED:
                self._look_at_lock(stream.name, now)
        for name in self._queries.streams - {stream.name for stream in self._streams}:
            self._queries.forget(name)
        self._tell(now)

    def _kept_streams(self) -> frozenset[str]:
        """Return the streams of other nodes that run on here, because their nodes cannot take them yet."""
        kept: set[str] = set()
        for app, streams in self._streams.leaving(self._assignment.elsewhere).items():
            try:
                there = self._others(app, self._assignment.version)
            except MillraceError as error:
                LOG.warning("Streams that move to %s run on here: %s", app, error)
                there = {}
            kept |= {name for name in streams if self._streams.stays(name, there.get(name))}
        return frozenset(kept)

    def _spawn(self, act: Callable[[str], None], name: str) -> None:
        threading.Thread(target=act, args=(name,), name=f"millrace-{name}", daemon=True).start()

    def _start(self, name: str) -> None:
        """Start a stream, in a thread of its own."""
        try:
            query = self._queries.start(name, self._streams.wanted)
        except Closed:
            self.stop()
        except Unwanted:
            self._outcomes.put(partial(self._streams.ended, name))
        except Blocked as outcome:
            self._outcomes.put(partial(self._streams.blocked, name, str(outcome)))
        except BaseException as error:
            self._outcomes.put(partial(self._failed, name, reason(error)))
        else:
            self._outcomes.put(partial(self._started, name, query))

    def _end(self, name: str) -> None:
        """End a stream, in a thread of its own."""
        self._queries.end(name, self._settings.stop_deadline_s)
        self._outcomes.put(partial(self._ended, name))

    def _look_at_lock(self, name: str, now: float) -> None:
        try:
            holder = self._queries.holder(name)
        except OSError as error:  # such as a stale file handle of a network drive
            self._failed(name, reason(error), now)
            return
        if holder is None:
            self._streams.unblocked(name, now)
            self._spawn(self._start, name)
        else:
            self._streams.blocked(name, holder, now)

    def _observe(self, now: float) -> None:
        for name, query, over in self._queries.observe():
            stream = self._streams[name]
            if over and stream.phase is not Phase.STOPPING:
                if self._heartbeat is not None and not self._heartbeat.isActive:
                    break  # the driver was asked to stop, and ends its queries
                error = query.exception()
                self._failed(name, ENDED if error is None else reason(error), now)
            elif not over and (stream.phase is Phase.STARTING or stream.failures):
                ready, healthy = progress_of(query)
                if healthy:
                    self._streams.healthy(name)
                if ready:
                    self._streams.ready(name, now)
        if self._heartbeat_id not in self._queries.active():
            self.stop()

    def _started(self, name: str, query: Any, now: float) -> None:
        self._queries.started(name, query)
        self._streams.started(name, now)

    def _failed(self, name: str, error: str, now: float) -> None:
        self._queries.forget(name)
        self._streams.failed(name, error, now)
        LOG.warning("Stream %s failed: %s", name, error)

    def _ended(self, name: str, now: float) -> None:
        self._queries.forget(name)
        self._streams.ended(name, now)

    def _tell(self, now: float) -> None:
        streams = tuple((stream, self._streams.wanted(stream.name)) for stream in self._streams)
        report = self._assignment.version, streams
        if report == self._reported or now - self._reported_s < REPORT_S:
            return
        self._reported, self._reported_s = report, now
        start, sinks = datetime.now(UTC) - timedelta(seconds=now), self._queries.sinks
        try:
            self._report(report[0], tuple(_status(s, sinks.get(s.name), start, wanted=wanted) for s, wanted in streams))
        except MillraceError as error:
            LOG.warning("The state of the streams cannot be written yet; they continue: %s", error)
            self._reported = None


def _status(stream: Stream, sink: str | None, start: datetime, *, wanted: bool) -> StreamStatus:
    """Return a stream's state for others.

    Args:
        stream: The stream.
        sink: Name of its sink; None if that is not known.
        start: When the node's clock was 0 (UTC).
        wanted: Whether the node has to run it.
    """
    retry_at = start + timedelta(seconds=stream.retry_at) if stream.phase is Phase.FAILED else None
    since = start + timedelta(seconds=stream.since)
    return StreamStatus(
        stream=stream.name,
        phase=stream.phase,
        since=since,
        failures=stream.failures,
        error=stream.error,
        retry_at=retry_at,
        holder=stream.holder,
        sink=sink,
        abandoned=not wanted and not stream.live,
    )


def keep_ready(spark: Any, folder: Path) -> Any:
    """Start a query that never gets a row: with it, a node without streams holds its app and counts as ready.

    Args:
        spark: A session.
        folder: An empty folder for its source and its checkpoint.
    """
    source = folder / "source"
    source.mkdir(parents=True, exist_ok=True)
    writer = spark.newSession().readStream.text(str(source)).writeStream.format("noop").queryName(HEARTBEAT)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="10 seconds").start()
