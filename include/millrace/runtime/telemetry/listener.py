"""Turns Spark's query events into rows of telemetry in the driver, without touching the user's query."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from millrace.model.arrival import ArrivalBasis
from millrace.model.telemetry import RUNNING, BatchMetrics
from millrace.runtime.arrival_watch import ArrivalWatch
from millrace.runtime.query_events import running_query
from millrace.runtime.telemetry import batches
from millrace.runtime.telemetry.batch_limits import limits_in_force
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.execution import ExecutedPlan, Executions, StageReader
from millrace.runtime.telemetry.fragments import with_end
from millrace.runtime.telemetry.host import HostCpu
from millrace.runtime.telemetry.operators import operators
from millrace.runtime.telemetry.partitions import PartitionSampler
from millrace.runtime.telemetry.positions import Positions
from millrace.runtime.telemetry.query_log import committed_batch, newest_batch, sources_after
from millrace.runtime.telemetry.running_batch import has_risen, is_overdue, rate_since
from millrace.runtime.telemetry.sink import sink_name
from millrace.runtime.telemetry.sources.api import UNKNOWN, Position, Source
from millrace.runtime.telemetry.sources.kinds import spark_sources
from millrace.runtime.telemetry.writer import Entry, Writer
from millrace.runtime.triggers import interval_s, is_real_time, runs_batch

LOG = logging.getLogger(__name__)
T = TypeVar("T")
SAMPLE_AGE_S = 0.2
LOOK_S = 1.0
"""Time between two checks of the sources while the agent acts on arrivals."""
QUERIES_COUNTED = 1000
"""Queries whose sources' counts are kept for their next run."""


@dataclass
class _Run:
    """What is kept of one run of a query."""

    stages: StageReader
    query: Any = None
    positions: Positions | None = None
    executions: Executions | None = None
    last: BatchMetrics | None = None
    sources: tuple[Mapping[str, Any], ...] = ()
    marked_at: float = float("-inf")
    active_at: float | None = None
    looked_at: float = float("-inf")
    watched_at: float = float("-inf")
    rate: float | None = None
    trigger_s: float | None = None
    sink: str | None = None
    limits: Mapping[str, int] | None = None


class TelemetryListener(StreamingQueryListener):  # type: ignore[misc]
    """Measures every committed batch of every query of the application.

    Nothing here may raise into Spark. A value that cannot be measured is null and logged once.

    Attributes:
        identity: The app as the next batches report it.

    Args:
        spark: The session.
        identity: The app.
        writer: Takes the rows.
        host: CPU time of the host.
        sampler: Measures state partitions; None for an app without executors, which has nowhere to move them.
        watch: Passes on arrivals while batches run.
    """

    def __init__(
        self,
        spark: SparkSession,
        identity: AppIdentity,
        writer: Writer,
        host: HostCpu,
        sampler: PartitionSampler | None = None,
        watch: ArrivalWatch | None = None,
    ) -> None:
        self._spark, self.identity, self._writer, self._host = spark, identity, writer, host
        self._sampler, self._watch = sampler, watch or ArrivalWatch()
        self._runs: dict[str, _Run] = {}
        self._reported: set[str] = set()
        self._kept: dict[str, dict[Any, Any]] = {}
        self._mutex = threading.RLock()  # Spark calls from its threads, the writer from its own

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Record the run."""
        self._guarded("a query's start", lambda: self._run(str(event.id), str(event.runId)))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Measure a committed batch."""
        self._guarded("a batch", lambda: self._measure(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Record that nothing arrived, at most once per commit interval."""
        self._guarded("an idle query", lambda: self._idle(str(event.id), str(event.runId)))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget the run."""
        with self._mutex:
            self._runs.pop(str(event.runId), None)
        self._watch.forget(str(event.runId))
        if self._sampler is not None:
            self._sampler.forget(str(event.runId))

    def tick(self) -> None:
        """Record arrivals while a batch runs, if the rate has risen or the batch is overdue.

        Otherwise a rise would show only when the batch ends, which takes longer the more has arrived. A running batch
        is checked at most once per commit interval.
        """
        for run_id, run in list(self._runs.items()):
            self._guarded("a running batch", partial(self._running, run))
            self._guarded("arrival", partial(self._arrival, run_id, run))

    def _measure(self, progress: Any) -> None:
        run = self._run(str(progress.id), str(progress.runId))
        batch_id = int(progress.batchId)
        plan = self._plan(run, batch_id)  # first, because the next batch replaces it
        facts: dict[str, Any] = json.loads(progress.json)
        position = self._positions(run).of(facts["sources"])
        stages = self._guarded("stages", lambda: run.stages.read(batch_id)) or ()
        plan = None if plan is None else with_end(plan, stages)
        self._host.sample(SAMPLE_AGE_S)
        end = batches.ended(facts).timestamp()
        started = end - batches.durations_ms(facts).get("triggerExecution", 0) / 1000.0
        repeats = batches.repeats(facts, position)
        ran = self._guarded(
            "operators",
            lambda: operators(plan, stages, self.identity.slots, repeats, batches.has_foreach_batch(facts)),
        )
        row = batches.batch_metrics(facts, self.identity, position, ran or (), self._host.other_ratio(started, end))
        gc_s = sum(stage.gc_ms for stage in stages) / 1000.0 if stages else None
        sink, limits = self._sink(run) or row.sink, self._limits(run)
        row = replace(row, trigger_s=self._trigger_s(run), sink=sink, limits=limits, gc_s=gc_s)
        if is_real_time(run.query):
            row = replace(row, running_tasks=sum(stage.tasks for stage in stages))
        run.rate = None if run.last is None else rate_since(run.last, row.source_end, row.time)
        run.last, run.sources, run.marked_at = row, tuple(facts["sources"]), time.monotonic()
        run.active_at = None
        self._watch.runs(str(progress.runId), None)
        self._watch.reached(str(progress.runId), row.source_end, run.marked_at)
        self._writer.add(Entry(row, str(progress.id), batch_id))
        sampler = self._sampler
        if sampler is not None and run.query is not None:
            self._guarded("partitions", lambda: sampler.offer(run.query, facts, self.identity, plan, stages))

    def _idle(self, query_id: str, run_id: str) -> None:
        run = self._run(query_id, run_id)
        if run.last is None:
            self._resume(run)
        if run.last is None or time.monotonic() - run.marked_at < self._writer.interval_s:
            return
        position = self._positions(run).at_rest(run.sources)
        if position.basis is not None:
            self._mark(run, run.last, query_id, position, {}, datetime.now(UTC))

    def _running(self, run: _Run) -> None:
        now = time.monotonic()
        if run.query is None or not runs_batch(run.query):
            run.active_at = None
            return
        run.active_at = now if run.active_at is None else run.active_at
        ran_s, rested_s = now - run.active_at, now - max(run.marked_at, run.looked_at)
        if min(ran_s, rested_s) < self._writer.interval_s or is_real_time(run.query):
            return
        run.looked_at = now  # not once per second: a check lists the checkpoint's log and reads the source's
        newest = newest_batch(run.query)
        if run.last is None and newest > committed_batch(run.query):
            self._resume(run)
        if run.last is None or newest != run.last.batch_id + 1:
            return  # the event of the last batch is still to come
        position, moment = self._positions(run).at_rest(run.sources), datetime.now(UTC)
        if position.basis is not ArrivalBasis.COUNTED:
            if run.last.durations_ms:
                return  # other sources report arrivals when a batch is planned
            position = UNKNOWN  # a run's first batch is reported anyway: nothing else shows that the query works
        rate = rate_since(run.last, position.end, moment)
        risen = has_risen(rate, run.rate)
        overdue = is_overdue(ran_s, max(run.last.duration_s, self._writer.interval_s))
        # a batch that has just ended gets its own row, which may be older
        if (risen or overdue) and committed_batch(run.query) == run.last.batch_id:
            run.rate = rate if risen else run.rate
            self._mark(run, run.last, _id(run.query), position, {RUNNING: round(1000 * ran_s)}, moment)

    def _arrival(self, run_id: str, run: _Run) -> None:
        """Pass on the rows in a run's sources, once per second while the agent acts on arrivals."""
        self._watch.runs(run_id, run.active_at)
        now = time.monotonic()
        if not self._watch.armed or run.query is None or run.last is None or now - run.watched_at < LOOK_S:
            return
        run.watched_at = now
        position = self._positions(run).at_rest(run.sources)
        if position.basis is ArrivalBasis.COUNTED:
            self._watch.reached(run_id, position.end, time.monotonic())

    def _mark(
        self,
        run: _Run,
        last: BatchMetrics,
        query_id: str,
        position: Position,
        durations_ms: Mapping[str, int],
        now: datetime,
    ) -> None:
        """Write a marker: a row for a time at which no batch ended."""
        marker = batches.marker(last, now, self.identity.slots, durations_ms, position)
        run.marked_at = time.monotonic()
        self._writer.add(Entry(marker, f"{query_id}/idle", self._writer.number(now)))

    def _resume(self, run: _Run) -> None:
        """Take a query's position from its logs: before a run's first batch ends, there is no event to read it from.

        Before the first batch of all, the position is that before batch 0: it is numbered -1 and ends nowhere.
        """
        if run.query is None:
            return
        number = committed_batch(run.query)
        run.sources = tuple(sources_after(run.query, number))
        now = datetime.now(UTC).isoformat()
        facts = {
            "id": _id(run.query),
            "name": run.query.name(),
            "batchId": number,
            "timestamp": now,
            "sources": run.sources,
        }
        row = batches.batch_metrics(facts, self.identity, UNKNOWN, (), None)
        run.last = replace(row, trigger_s=self._trigger_s(run), sink=self._sink(run), limits=self._limits(run))

    def _run(self, query_id: str, run_id: str) -> _Run:
        if run_id not in self._runs:
            self._runs[run_id] = _Run(StageReader(self._spark.sparkContext, run_id))
        run = self._runs[run_id]
        if run.executions is None:
            query = running_query(self._spark, query_id)
            if query is not None and str(query.runId().toString()) == run_id:
                run.query, run.executions = query, Executions(query)
        return run

    def _positions(self, run: _Run) -> Positions:
        """Return the positions of a run's sources, which exist once it has planned a batch or found none to plan."""
        if run.positions is None:
            query, gateway, every_s = run.query, self._spark.sparkContext._gateway, self._writer.interval_s
            sources: list[Source] | None = None
            if query is not None:
                sources = self._guarded("sources", lambda: spark_sources(query, gateway, every_s, self._kept_of(query)))
            run.positions = Positions.following(sources or ())
        return run.positions

    def _trigger_s(self, run: _Run) -> float | None:
        if run.trigger_s is None and run.query is not None:
            run.trigger_s = self._guarded("triggers", lambda: interval_s(run.query))
        return run.trigger_s

    def _sink(self, run: _Run) -> str:
        """Return the name of a run's sink, which is looked up once because it does not change."""
        if run.sink is None and run.query is not None:
            gateway = self._spark.sparkContext._gateway
            run.sink = self._guarded("the sink", lambda: sink_name(run.query, gateway)) or ""
        return run.sink or ""

    def _limits(self, run: _Run) -> Mapping[str, int]:
        """Return the limits of a run's sources, which do not change while it runs."""
        if run.limits is None and run.query is not None:
            gateway = self._spark.sparkContext._gateway
            run.limits = self._guarded("limits of batches", lambda: limits_in_force(run.query, gateway)) or {}
        return run.limits or {}

    def _kept_of(self, query: Any) -> dict[Any, Any]:
        """Return what a query's sources keep over all its runs; only the newest queries are kept."""
        kept = self._kept.setdefault(_id(query), {})
        while len(self._kept) > QUERIES_COUNTED:
            del self._kept[next(iter(self._kept))]
        return kept

    def _plan(self, run: _Run, batch_id: int) -> ExecutedPlan | None:
        executions = run.executions
        return None if executions is None else self._guarded("plan", lambda: executions.plan(batch_id))

    def _guarded(self, what: str, measure: Callable[[], T]) -> T | None:
        try:
            with self._mutex:
                return measure()
        except Exception as error:
            if what not in self._reported:
                self._reported.add(what)
                LOG.warning("Telemetry could not measure %s; the stream continues: %s", what, error)
            return None


def _id(query: Any) -> str:
    """Return a query's id, which all its runs have in common."""
    return str(query.id().toString())
