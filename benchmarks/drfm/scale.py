"""Up to a million streams on a hundred thousand nodes: time per period.

Rates vary by a tenth, and nodes are filled to 85 % at first. DRF moves less than 2 % of the streams per period. The
horizon planner empties one node in seven in the first period, which is reported separately, and then keeps the other
nodes within their capacity. There is no metadata: so many streams are forecast from their rates only. Times are seconds
of one processor, including the forecast.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.drfm.methods import METHODS
from benchmarks.record import Record
from millrace.optimizers.arrays import Floats, Ints
from millrace.optimizers.drfm.problem import Plan, Problem

CAPACITY, ON_A_NODE = 10_000.0, 10
FILLED, VARIES = 0.85, 0.1
PERIODS, QUICK_PERIODS = 5, 2
SIZES = {"scale_10k": 10_000, "scale_100k": 100_000, "scale_1m": 1_000_000}
"""Streams by scenario. A quick run skips the largest for the horizon planner, which then takes minutes."""
COMPARED = ("drf", "horizon")


def records(quick: bool) -> Iterator[Record]:
    """Measure periods of all sizes.

    Args:
        quick: Fewer periods.
    """
    for scenario, streams in SIZES.items():
        for method in COMPARED:
            if not (quick and method == "horizon" and scenario == "scale_1m"):
                yield from _measure(scenario, method, streams, 1 + (QUICK_PERIODS if quick else PERIODS))


def _measure(scenario: str, name: str, streams: int, periods: int) -> Iterator[Record]:
    method, rng, nodes = METHODS[name](), np.random.default_rng(0), streams // ON_A_NODE
    base = rng.uniform(0.5, 1.5, streams) * FILLED * CAPACITY / ON_A_NODE
    node: Ints = np.arange(streams) % nodes
    state, seconds, moved = method.forecaster.start(base), [], []
    for _ in range(periods):
        rate: Floats = base * rng.uniform(1 - VARIES, 1 + VARIES, streams)
        begun = time.process_time()
        state = method.forecaster.update(state, rate)
        mean = method.forecaster.forecast(state, method.ahead)
        problem = Problem(node, rate, mean, np.zeros_like(mean), CAPACITY, nodes)
        plan: Plan = method.planner(problem)
        seconds.append(time.process_time() - begun)
        moved.append(len(plan.redirected(problem)))
        node, nodes = plan.node, max(nodes, int(plan.node.max()) + 1)

    def figure(what: str, value: float, unit: str, n: int) -> Record:
        return Record("drfm", scenario, name, what, value, unit, n=n)

    later = periods - 1
    yield figure("seconds", float(np.median(seconds[1:])), "s", later)
    yield figure("first_period_s", seconds[0], "s", 1)
    yield figure("redirections_per_period", float(np.median(moved[1:])), "streams", later)
    yield figure("nodes", float(len(np.unique(node))), "nodes", 1)
