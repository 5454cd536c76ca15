"""Two executors more, and two fewer, under hot partitions: how soon load is even again, and batch times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.measure import around
from benchmarks.elastic.methods import Method
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.elastic.placement import FEW, MANY, SKIPPED_BATCHES, WARM_BATCHES
from benchmarks.placement.skew import by_load, judged, placing, skewed
from millrace.model.deployment import PLACEMENT
from millrace.model.spec_sections import Slots
from millrace.optimizers.albic.cluster import cluster as cluster_of
from millrace.optimizers.albic.options import PlacementOptions

HALF = MANY // 2
"""Slots of two executors."""
BALANCED = 1.25
"""Up to this ratio to the bound, the time of the stateful stages counts as even. The bound assumes divisible tasks,
which real tasks are not. On eight cores the best placement takes 1.14 to 1.21 times the bound here."""
MOST_EVALUATIONS = 12
MEASURED_BATCHES = 8


@dataclass(frozen=True)
class ResizeRun:
    """Results of a change of executors.

    Attributes:
        longest_ratio: Longest batch around the change divided by the one before it.
        batch_s: Median batch time afterwards, seconds.
        evaluations: Evaluations of settled telemetry until load was even; None without a controller.
    """

    longest_ratio: float
    batch_s: float
    evaluations: int | None = None


def run_resize(cluster: Cluster, name: str, method: Method, period_s: float) -> tuple[ResizeRun, ResizeRun]:
    """Return the results of two executors more, and then of two fewer.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        method: The placement method.
        period_s: Seconds between two evaluations, if there are any.
    """
    with skewed(cluster, name, method) as pipeline:
        if not by_load(method):
            _have_executors(pipeline, HALF)
            pipeline.await_batches(WARM_BATCHES, datetime.now(UTC))
            return _left_to_spark(pipeline, MANY), _left_to_spark(pipeline, HALF)
        pipeline.resize_and_record(HALF)
        pipeline.await_batches(WARM_BATCHES, datetime.now(UTC))
        return _changed(pipeline, MANY, period_s), _changed(pipeline, HALF, period_s)


def _changed(pipeline: Pipeline, slots: int, period_s: float) -> ResizeRun:
    fixed = Slots(min=slots, max=slots, start=slots)
    sized = replace(pipeline, spec=placing(pipeline.spec, period_s).model_copy(update={"slots": fixed}))
    begun = datetime.now(UTC)
    with sized.controlled("live"):
        evaluations = evaluations_to_balance(sized, begun, slots)
    return replace(_judged_since(sized, begun), evaluations=evaluations)


def _left_to_spark(pipeline: Pipeline, slots: int) -> ResizeRun:
    begun = datetime.now(UTC)
    _have_executors(pipeline, slots)
    pipeline.await_batches(SKIPPED_BATCHES, datetime.now(UTC))
    return _judged_since(pipeline, begun)


def _have_executors(pipeline: Pipeline, slots: int) -> None:
    executors = slots // FEW
    (pipeline.home.root / "executors").write_text(str(executors), encoding="utf-8")
    wait_until(lambda: len(pipeline.cluster.executors.alive()) == executors, f"{executors} executors")


def _judged_since(pipeline: Pipeline, begun: datetime) -> ResizeRun:
    """Return the results of the batches around and after a change."""
    ended = datetime.now(UTC)
    longest, before = around(pipeline.intervals(), (begun.timestamp(), ended.timestamp())) or (0.0, 1.0)
    after = pipeline.await_batches(MEASURED_BATCHES, ended)
    return ResizeRun(longest / before, median(batch.duration_s for batch in after))


def evaluations_to_balance(pipeline: Pipeline, since: datetime, slots: int) -> int:
    """Wait until a controller finds load even, and return the number of evaluations, at most a dozen.

    Args:
        pipeline: A pipeline under control.
        since: Earlier evaluations do not count.
        slots: Slots over which load must be even.
    """
    found: list[int] = []

    def even() -> bool:
        found[:] = [number for number, balanced in enumerate(_balanced(pipeline, since, slots), 1) if balanced][:1]
        return bool(found) or len(judged(pipeline, since)) >= MOST_EVALUATIONS

    # most evaluations are still settling at first
    wait_until(even, "an even load", 2 * MOST_EVALUATIONS * pipeline.spec.period_s, READ_S)
    return found[0] if found else MOST_EVALUATIONS


def _balanced(pipeline: Pipeline, since: datetime, slots: int) -> list[bool]:
    """Return, per evaluation since a time, whether it found load even on all slots and planned no move."""
    told = []
    for decision in judged(pipeline, since):
        groups = None if decision.signals is None else decision.signals.partition_loads
        current = pipeline.latest().apps[pipeline.spec.app]
        size = current.executor
        if groups is None or size is None or current.slots != slots:
            told.append(False)
            continue
        least_s = cluster_of(groups, groups.executor, slots // size.cores, size.cores, PlacementOptions()).bound_s()
        planned = any(change.field == PLACEMENT for p in decision.proposals for change in p.changes)
        told.append(not planned and groups.stateful_batch_s(size.cores) <= BALANCED * least_s)
    return told
