"""The paper's policy and ours on the same loads: how much they shed, how often they scale, how long tuples wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.esj.course import follow
from benchmarks.record import Record, median
from benchmarks.simulation.join import JoinCluster, JoinScore
from benchmarks.simulation.join_workloads import RATE, WORKLOADS, arrivals
from millrace.optimizers.esj.options import JoinPolicy

BENCH = "esj"
SEEDS, QUICK_SEEDS = 20, 5
WORKERS = {"min": 1, "max": 16}
FIGURES = {
    "shed_ratio": "ratio",
    "scale_events": "events",
    "latency_ms": "ms",
    "fullest_ratio": "ratio",
    "worker_s": "worker-s",
}
METHODS: Mapping[str, Mapping[str, Any]] = {"literal": {"trigger": "window", "block_size": "literal"}, "ours": {}}
"""Options of each method; thresholds, base of shedding and times are the defaults of both."""


def setting(method: str, cluster: JoinCluster) -> JoinPolicy:
    """Return the policy of a method."""
    return JoinPolicy.read(
        {
            "capacity": cluster.capacity,
            "window_s": cluster.window_s,
            "workers": WORKERS,
            "expected_rows_per_s": RATE,
            "options": METHODS[method],
        }
    )


def scores(scenario: str, method: str, seeds: Iterable[int]) -> list[JoinScore]:
    """Run a method on a load, once per seed."""
    cluster = JoinCluster()
    policy = setting(method, cluster)
    return [follow(arrivals(scenario, seed), policy, cluster).score() for seed in seeds]


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Run both methods on every load.

    Args:
        quick: Fewer seeds.
        first: Seed of the first run.
    """
    for scenario in WORKLOADS:
        for method in METHODS:
            seeds = range(first, first + (QUICK_SEEDS if quick else SEEDS))
            found = scores(scenario, method, seeds)
            for figure, unit in FIGURES.items():
                yield median(BENCH, scenario, method, figure, [getattr(s, figure) for s in found], unit)
