"""Planning for a large cluster that does not run: how long it takes, and how far from the proven minimum it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from benchmarks.record import Record, at_most, percentiles
from millrace.model.placement import Flows, PartitionLoads
from millrace.optimizers.albic.cluster import cluster
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.planning import plan_placement

PLANNING = "planning"
EXECUTORS, PARTITIONS = 1_000, 100_000
"""Partitions of both stages together."""
LIMIT_S, GAP_LIMIT = 2.0, 0.15
METHOD = "joint"
UNLIMITED = float("inf")
"""No budget, as when executors come or go: with a budget, the gap would be the budget's."""


def planning_records(bench: str, seeds: int) -> Iterator[Record]:
    """Yield time and gap of plans, with one half of the partitions feeding the other one to one, and without.

    Args:
        bench: The benchmark's name.
        seeds: Number of clusters, each with its own loads and placement.
    """
    times, gaps = list[float](), list[float]()
    for seed in range(seeds):
        for paired in (False, True):
            seconds, gap = _plan(seed, paired)
            times.append(seconds)
            gaps.append(gap)
    yield from percentiles(bench, PLANNING, METHOD, "decision_p{}_s", times, {50: None, 95: LIMIT_S})
    target, holds = at_most(max(gaps), GAP_LIMIT)
    yield Record(bench, PLANNING, METHOD, "gap", max(gaps), "ratio", n=len(gaps), target=target, holds=holds)


def _plan(seed: int, paired: bool) -> tuple[float, float]:
    """Return the duration of a plan, and its batch time above the least possible, as a share."""
    groups, options = _groups(seed, paired), PlacementOptions.read({"budget": UNLIMITED, "method": METHOD})
    begun = time.perf_counter()
    target = cluster(groups, groups.executor, EXECUTORS, 1, options)
    node, _ = plan_placement(target, METHOD, np.zeros(0, dtype=np.intp), options.seed)
    seconds = time.perf_counter() - begun
    return seconds, target.batch_s(node) / target.bound_s() - 1


def _groups(seed: int, paired: bool) -> PartitionLoads:
    chance, half, now = np.random.default_rng(seed), PARTITIONS // 2, datetime.now(UTC)
    flows = Flows(tuple(range(half)), tuple(range(half, PARTITIONS)), (100_000,) * half, 0.02)
    return PartitionLoads(
        app="large",
        since=now,
        until=now,
        batches=10,
        operator=("large/0",) * half + ("large/1",) * half,
        partition=tuple(range(half)) * 2,
        executor=tuple(chance.integers(0, EXECUTORS, PARTITIONS).tolist()),
        busy_s=tuple(chance.lognormal(-2, 1, PARTITIONS).tolist()),
        busy_error_s=(0.0,) * PARTITIONS,
        rows=(1.0,) * PARTITIONS,
        state_bytes=(None,) * PARTITIONS,
        flows=flows if paired else Flows(),
    )
