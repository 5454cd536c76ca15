"""Load that grows from 4 to 32 nodes' worth and back, under a latency bound: Section 6.5 of [DRFM], Figure 14.

Adaptive methods are compared with clusters of a fixed size in which streams stay where they enter: one sized for the
highest load, as in the paper, and one sized for the mean load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.drfm.method_run import run_method
from benchmarks.drfm.methods import Method, ours, paper
from benchmarks.drfm.scenarios import summary
from benchmarks.record import Record
from benchmarks.simulation.admission import SplitNodes
from benchmarks.simulation.admission_workloads import FILLED, Size, StreamLoad, surge
from millrace.optimizers.drfm.problem import Plan, Problem, oversized

SIZE = Size(streams=320, level=32, periods=240)
QUICK_PERIODS = 120
SEEDS, QUICK_SEEDS = 5, 1
LATENCY_S = 5.0
"""L."""


@dataclass(frozen=True)
class Static:
    """A fixed number of nodes; streams enter at the node with the least load, and stay.

    Attributes:
        nodes: Number of nodes.
    """

    nodes: int

    def plan(self, problem: Problem) -> Plan:
        """Return where each stream enters: the largest first, by its highest expected rate."""
        peak, node = problem.mean.max(axis=0), problem.node.copy()
        load = np.bincount(node[problem.placed], weights=peak[problem.placed], minlength=self.nodes)
        for s in np.argsort(-peak, kind="stable"):
            if node[s] < 0:
                node[s] = load.argmin()
                load[node[s]] += peak[s]
        return Plan(node, oversized(problem))


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Run every method.

    Args:
        quick: One seed, a faster surge.
        first: Seed of the first run.
    """
    size = replace(SIZE, periods=QUICK_PERIODS) if quick else SIZE
    loads = [surge(size, seed) for seed in range(first, first + (QUICK_SEEDS if quick else SEEDS))]
    for name in ("drfm", "ard", "horizon", "static", "static_mean"):
        method_runs = [
            run_method(load, methods(size, load)[name], SplitNodes(size.capacity, size.period_s)) for load in loads
        ]
        yield from summary("adaptivity", name, method_runs)


def methods(size: Size, load: StreamLoad) -> Mapping[str, Method]:
    """Return the methods by name.

    Args:
        size: Size of the workload.
        load: The workload, whose mean sizes a cluster.
    """
    mean = math.ceil(float(load.rates.sum(axis=1).mean()) / (FILLED * size.capacity))
    return {
        "drfm": paper("drfm"),
        "ard": paper("ard"),
        "horizon": ours(),
        "static": Method(Static(math.ceil(size.level)).plan, size.periods, told=True),
        "static_mean": Method(Static(mean).plan, size.periods, told=True),
    }
