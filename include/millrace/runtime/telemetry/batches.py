"""One generation of an app, and a query's progress event as a row of telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from millrace.model.telemetry import BatchMetrics, OperatorBatch
from millrace.runtime.telemetry import lineage
from millrace.runtime.telemetry.sources.api import Position

FOREACH_BATCH = "ForeachBatchSink"


@dataclass(frozen=True)
class AppIdentity:
    """One generation of one app, as its telemetry names it.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        generation: Start number of the driver, >= 1.
        version: The Deployment version it runs, >= 1.
        slots: Tasks that can run at once, >= 1.
        epoch: Checkpoint epoch, >= 0.
    """

    pipeline: str
    app: str
    generation: int
    version: int
    slots: int
    epoch: int = 0


def query_name(progress: Mapping[str, Any]) -> str:
    """Return the query's name, or its id if it has no name."""
    return str(progress.get("name") or progress["id"])


def ended(progress: Mapping[str, Any]) -> datetime:
    """Return when the batch ended (UTC): its trigger's start plus its duration."""
    started = datetime.fromisoformat(progress["timestamp"])
    return started.astimezone(UTC) + timedelta(milliseconds=durations_ms(progress).get("triggerExecution", 0))


def durations_ms(progress: Mapping[str, Any]) -> dict[str, int]:
    """Return Spark's durations by phase."""
    return {str(k): int(v) for k, v in progress.get("durationMs", {}).items()}


def has_foreach_batch(progress: Mapping[str, Any]) -> bool:
    """Return whether the sink is the user's function."""
    return str(progress.get("sink", {}).get("description", "")).startswith(FOREACH_BATCH)


def repeats(progress: Mapping[str, Any], position: Position) -> float:
    """Return how often the batch was computed, >= 1.

    Each action in ``foreachBatch`` counts its rows again. An action that stops early, such as ``limit``, counts some.
    """
    counted = int(progress.get("numInputRows", 0))
    return max(1.0, counted / position.read) if position.read else 1.0


LAG_PARTITIONS = 8
"""Source partitions whose lag a row contains, those with the largest lag: a topic may have a thousand."""


def batch_metrics(
    progress: Mapping[str, Any],
    identity: AppIdentity,
    position: Position,
    operators: tuple[OperatorBatch, ...],
    host_cpu_other: float | None,
) -> BatchMetrics:
    """Return the batch as a row of ``telemetry/batches``; values that Spark does not report are None."""
    state = progress.get("stateOperators", [])
    rows_in = int(progress.get("numInputRows", 0)) if position.read is None else position.read
    rows_out = int(progress.get("sink", {}).get("numOutputRows", -1))
    return BatchMetrics(
        pipeline=identity.pipeline,
        app=identity.app,
        query=query_name(progress),
        time=ended(progress),
        generation=identity.generation,
        epoch=identity.epoch,
        batch_id=int(progress["batchId"]),
        slots=identity.slots,
        rows_in=rows_in,
        rows_out=None if rows_out < 0 else rows_out,
        durations_ms=durations_ms(progress),
        backlog_rows=position.backlog,
        source_end=position.end,
        state_rows=sum(int(s.get("numRowsTotal", 0)) for s in state),
        state_bytes=sum(int(s.get("memoryUsedBytes", 0)) for s in state),
        host_cpu_other=host_cpu_other,
        operators=operators,
        arrival_basis=position.basis,
        lag=dict(sorted(position.lag.items(), key=lambda part: -part[1])[:LAG_PARTITIONS]),
        sources=lineage.sources(progress.get("sources", ()), rows_in),
        sink=lineage.sink(str(progress.get("sink", {}).get("description", ""))),
    )


def marker(
    last: BatchMetrics, time: datetime, slots: int, durations_ms: Mapping[str, int], position: Position
) -> BatchMetrics:
    """Return a row for a time at which no batch ended.

    Args:
        last: The query's last batch.
        time: The present (UTC).
        slots: Tasks that can run at once, >= 1.
        durations_ms: How long a batch has been running, or nothing.
        position: Present position in the query's sources.
    """
    return BatchMetrics(
        pipeline=last.pipeline,
        app=last.app,
        query=last.query,
        time=time,
        generation=last.generation,
        epoch=last.epoch,
        batch_id=last.batch_id,
        slots=slots,
        rows_in=0,
        durations_ms=durations_ms,
        backlog_rows=position.backlog,
        source_end=position.end,
        state_rows=last.state_rows,
        state_bytes=last.state_bytes,
        arrival_basis=position.basis,
        running_tasks=last.running_tasks,
        trigger_s=last.trigger_s,
        sources=dict.fromkeys(last.sources, 0),
        sink=last.sink,
        limits=last.limits,
    )
