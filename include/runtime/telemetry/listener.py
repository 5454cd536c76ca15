"""Turns Spark's query events into rows of telemetry, in the driver, without touching the user's query."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from include.model.telemetry import BatchMetrics
from include.runtime.identity import AppIdentity
from include.runtime.offsets import descriptions, newest
from include.runtime.telemetry import progress as events
from include.runtime.telemetry.host import HostCpu
from include.runtime.telemetry.operators import operators
from include.runtime.telemetry.plan import Executions, Plan
from include.runtime.telemetry.positions import Positions
from include.runtime.telemetry.stages import StageReader
from include.runtime.telemetry.writer import Entry, Writer

LOG = logging.getLogger(__name__)
SAMPLE_AGE_S = 0.2


@dataclass
class _Run:
    """What is kept of one run of a query."""

    stages: StageReader
    positions: Positions = field(default_factory=Positions)
    executions: Executions | None = None
    last: BatchMetrics | None = None
    sources: tuple[Mapping[str, Any], ...] = ()
    marked_at: float = float("-inf")


class TelemetryListener(StreamingQueryListener):  # type: ignore[misc]
    """Measures every committed batch of every query of the session.

    Nothing here may raise into Spark: what cannot be measured is null, and said once.

    Args:
        spark: The session.
        identity: The app.
        writer: Takes the rows.
        host: Processor time of the host.
    """

    def __init__(self, spark: SparkSession, identity: AppIdentity, writer: Writer, host: HostCpu) -> None:
        self._spark, self._identity, self._writer, self._host = spark, identity, writer, host
        self._runs: dict[str, _Run] = {}
        self._told: set[str] = set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Note the run."""
        self._guarded("a query's start", lambda: self._run(str(event.id), str(event.runId)))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Measure a committed batch."""
        self._guarded("a batch", lambda: self._measure(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Say that nothing arrived, at most once a commit's interval."""
        self._guarded("an idle query", lambda: self._idle(str(event.id), str(event.runId)))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget the run."""
        self._runs.pop(str(event.runId), None)

    def _measure(self, progress: Any) -> None:
        run = self._run(str(progress.id), str(progress.runId))
        batch_id = int(progress.batchId)
        plan = self._plan(run, batch_id)  # first: the next batch replaces it
        facts: dict[str, Any] = json.loads(progress.json)
        position = run.positions.of(facts["sources"])
        stages = self._optional("stages", lambda: run.stages.read(batch_id)) or ()
        self._host.sample(SAMPLE_AGE_S)
        end = events.ended(facts).timestamp()
        started = end - events.durations_ms(facts).get("triggerExecution", 0) / 1000.0
        repeats = events.repeats(facts, position)
        found = self._optional(
            "operators",
            lambda: operators(plan, stages, self._identity.slots, repeats, events.has_foreach_batch(facts)),
        )
        row = events.batch(facts, self._identity, position, found or (), self._host.other_ratio(started, end))
        run.last, run.sources, run.marked_at = row, tuple(facts["sources"]), time.monotonic()
        self._writer.add(Entry(row, str(progress.id), batch_id))

    def _idle(self, query_id: str, run_id: str) -> None:
        run = self._run(query_id, run_id)
        if run.last is None:
            self._resume(run, query_id)
        if run.last is None or time.monotonic() - run.marked_at < self._writer.interval_s:
            return
        position = run.positions.of([{**s, "startOffset": None} for s in run.sources])
        if position.end is None:
            return
        now = datetime.now(UTC)
        marker = replace(
            run.last,
            time=now,
            rows_in=0,
            rows_out=None,
            durations_ms={},
            backlog_rows=position.backlog,
            source_end=position.end,
            host_cpu_other=None,
            operators=(),
        )
        run.marked_at = time.monotonic()
        self._writer.add(Entry(marker, f"{query_id}/idle", int(now.timestamp() * 1000)))

    def _resume(self, run: _Run, query_id: str) -> None:
        """Take a query's place from its log: one that starts on a silent source has no batch that tells it."""
        query = self._spark._jsparkSession.streams().get(query_id)
        if query is None:
            return
        number, ends = newest(query.streamingQuery())
        if number < 0:
            return
        named = zip(descriptions(query.streamingQuery()), ends, strict=True)
        run.sources = tuple({"description": source, "endOffset": end} for source, end in named)
        facts = {"id": query_id, "name": query.name(), "batchId": number, "timestamp": datetime.now(UTC).isoformat()}
        run.last = events.batch(facts, self._identity, run.positions.of(run.sources), (), None)

    def _run(self, query_id: str, run_id: str) -> _Run:
        if run_id not in self._runs:
            self._runs[run_id] = _Run(StageReader(self._spark.sparkContext, run_id))
        run = self._runs[run_id]
        if run.executions is None:
            query = self._spark._jsparkSession.streams().get(query_id)
            if query is not None and str(query.runId().toString()) == run_id:
                run.executions = Executions(query.streamingQuery())
        return run

    def _plan(self, run: _Run, batch_id: int) -> Plan | None:
        executions = run.executions
        return None if executions is None else self._optional("plan", lambda: executions.plan(batch_id))

    def _optional(self, what: str, measure: Any) -> Any:
        try:
            return measure()
        except Exception as error:
            self._tell(what, error)
            return None

    def _guarded(self, what: str, work: Any) -> None:
        try:
            work()
        except Exception as error:
            self._tell(what, error)

    def _tell(self, what: str, error: Exception) -> None:
        if what not in self._told:
            self._told.add(what)
            LOG.warning("Telemetry could not measure %s, the stream goes on: %s", what, error)
