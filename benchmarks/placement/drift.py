"""Hot partitions that change after some batches: mean batch time, placed by load and evenly."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import mean

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.methods import Method
from benchmarks.elastic.pipeline import Pipeline
from benchmarks.placement.skew import by_load, placing, skewed
from millrace.model.decision import Action

PHASE_LIMIT_S = 300.0
"""Longest time with the same hot partitions."""


@dataclass(frozen=True)
class DriftRun:
    """A method's result.

    Attributes:
        batch_s: Mean batch time, seconds.
        moves: Most partitions that one plan moved.
    """

    batch_s: float
    moves: int


def run_drift(
    cluster: Cluster, name: str, method: Method, phases: int, batches: int, period_s: float, seed: int
) -> DriftRun:
    """Return a method's result, from the first batch on four executors on.

    Args:
        cluster: The cluster.
        name: Name of the run, a folder.
        method: The placement method.
        phases: Number of phases, each with its own hot partitions.
        batches: Batches per phase.
        period_s: Seconds between two evaluations.
        seed: Draws the hot partitions of each phase.
    """
    with skewed(cluster, name, method, f"--drift={batches}", f"--seed={seed}") as pipeline:
        pipeline = replace(pipeline, spec=placing(pipeline.spec, period_s)) if by_load(method) else pipeline
        with pipeline.controlled("live") if by_load(method) else nullcontext():
            measured = pipeline.await_batches(phases * batches, datetime.now(UTC), phases * PHASE_LIMIT_S)
        return DriftRun(mean(batch.duration_s for batch in measured), _most_moves(pipeline))


def _most_moves(pipeline: Pipeline) -> int:
    applied = [d for d in pipeline.tables.decisions.recent(pipeline.spec.name, 500) if d.action is Action.APPLY]
    return max((p.placement.moves for d in applied for p in d.proposals if p.placement), default=0)
