"""A million streams on a hundred thousand nodes: how long a period takes.

Holt's forecasts of all streams, and DRF on them, which moves about 1 % of them. Metadata are left out: so many streams
are forecast by their rates only. Seconds are those of one processor.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.record import Record
from millrace.optimizers.drfm.forecasters import Holt
from millrace.optimizers.drfm.paper.strategies import STRATEGIES, StrategyOptions
from millrace.optimizers.drfm.problem import Problem

STREAMS, NODES, CAPACITY = 1_000_000, 100_000, 10_000.0
FILLED, VARIES = 0.85, 0.1
REPEATS, QUICK_REPEATS = 5, 2


def records(quick: bool) -> Iterator[Record]:
    """Measure a period.

    Args:
        quick: Fewer repetitions.
    """
    rng = np.random.default_rng(0)
    strategy, holt = STRATEGIES["drf"](StrategyOptions()), Holt()
    base = rng.uniform(0.5, 1.5, STREAMS) * FILLED * CAPACITY * NODES / STREAMS
    node = np.arange(STREAMS) % NODES
    state, seconds, moved = holt.start(base), [], []
    for _ in range(QUICK_REPEATS if quick else REPEATS):
        rate = base * rng.uniform(1 - VARIES, 1 + VARIES, STREAMS)
        begun = time.process_time()
        state = holt.update(state, rate)
        mean = holt.forecast(state, strategy.options.ahead)
        problem = Problem(node, rate, mean, np.zeros_like(mean), CAPACITY, NODES, rate)
        plan = strategy.plan(problem)
        seconds.append(time.process_time() - begun)
        moved.append(len(plan.redirected(problem)))
    yield Record("drfm", "scale_1m", "drf", "seconds", float(np.median(seconds)), "s", n=len(seconds))
    yield Record("drfm", "scale_1m", "drf", "redirections_per_period", float(np.median(moved)), "streams", n=len(moved))
