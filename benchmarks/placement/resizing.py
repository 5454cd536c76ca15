"""Two executors more, and two fewer, under hot partitions: how soon load is even again, and what batches say of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.measure import around
from benchmarks.elastic.methods import LIVE
from benchmarks.elastic.pipeline import READ_S, Pipeline, wait_until
from benchmarks.elastic.placement import MANY, WARM_BATCHES
from benchmarks.placement.skew import ALBIC, judged, placing, skewed
from millrace.model.deployment import PLACEMENT
from millrace.model.spec import Slots
from millrace.optimizers.albic.cluster import cluster as cluster_of
from millrace.optimizers.albic.options import PlacementOptions

HALF = MANY // 2
"""Slots of two executors."""
BALANCED = 1.25
"""Time of the stateful stages over the bound, from which they are even: the bound lets tasks be divided, and no task
can be. On eight cores the best placement takes 1.14 to 1.21 times the bound here."""
MOST_EVALUATIONS = 12


@dataclass(frozen=True)
class ResizeRun:
    """What a change of executors was like.

    Attributes:
        evaluations: Evaluations of settled telemetry until load was even.
        longest_ratio: Longest batch around the change over the one before it.
    """

    evaluations: int
    longest_ratio: float


def run_resize(cluster: Cluster, name: str, period_s: float) -> tuple[ResizeRun, ResizeRun]:
    """Return what two executors more, and then two fewer, were like.

    Args:
        cluster: Where.
        name: Name of the run, a folder.
        period_s: Seconds between two evaluations.
    """
    with skewed(cluster, name, replace(LIVE, name=ALBIC)) as pipeline:
        pipeline.resize_and_record(HALF)
        pipeline.await_batches(WARM_BATCHES, datetime.now(UTC))
        return _changed(pipeline, MANY, period_s), _changed(pipeline, HALF, period_s)


def _changed(pipeline: Pipeline, slots: int, period_s: float) -> ResizeRun:
    fixed = Slots(min=slots, max=slots, start=slots)
    sized = replace(pipeline, spec=placing(pipeline.spec, period_s).model_copy(update={"slots": fixed}))
    begun = datetime.now(UTC)
    with sized.controlled("live"):
        evaluations = evaluations_to_balance(sized, begun, slots)
    longest, before = around(sized.intervals(), (begun.timestamp(), datetime.now(UTC).timestamp())) or (0.0, 1.0)
    return ResizeRun(evaluations, longest / before)


def evaluations_to_balance(pipeline: Pipeline, since: datetime, slots: int) -> int:
    """Wait until a controller finds load even, and return after how many evaluations; at most a dozen.

    Args:
        pipeline: Whose, under control.
        since: Evaluations of before do not count.
        slots: On how many slots load is to be even.
    """
    found: list[int] = []

    def even() -> bool:
        found[:] = [number for number, balanced in enumerate(_balanced(pipeline, since, slots), 1) if balanced][:1]
        return bool(found) or len(judged(pipeline, since)) >= MOST_EVALUATIONS

    # most of them settle first
    wait_until(even, "an even load", 2 * MOST_EVALUATIONS * pipeline.spec.period_s, READ_S)
    return found[0] if found else MOST_EVALUATIONS


def _balanced(pipeline: Pipeline, since: datetime, slots: int) -> list[bool]:
    """Say of each evaluation since a time whether it found load even on all slots, or planned it so."""
    told = []
    for decision in judged(pipeline, since):
        groups, current = decision.signals and decision.signals.key_groups, pipeline.latest().apps[pipeline.spec.app]
        size = current.executor
        if groups is None or size is None or current.slots != slots:
            told.append(False)
            continue
        least_s = cluster_of(groups, groups.worker, slots // size.cores, size.cores, PlacementOptions()).bound_s()
        planned = any(change.field == PLACEMENT for p in decision.proposals for change in p.changes)
        told.append(not planned and groups.stateful_batch_s(size.cores) <= BALANCED * least_s)
    return told
