"""What the budget buys: load distance and pauses, from a few moves per period to no limit.

Section 5.2.2 of [ALBIC], on its cluster of 20 nodes with 300 key groups. In each period the load of a fifth of the
nodes changes by 20 points; plans are applied one after another. A moved key group pauses for 2.5 s, as measured in the
paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.albic.instances import CHANGED, MEAN, Size, even, pose
from benchmarks.record import Record
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.arrays import Floats, Ints

BENCH, METHOD = "albic", "balancer"

SIZE = Size(20, 300, 3)
BUDGETS, QUICK_BUDGETS = (5, 10, 13, 20, 40, math.inf), (10, 13, math.inf)
PERIODS, QUICK_PERIODS = 20, 6
SEEDS, QUICK_SEEDS = 3, 1
VARIES = 20.0
PAUSE_S = 2.5
"""Pause of one moved key group."""


@dataclass(frozen=True)
class Period:
    """A plan's load distance, its excess over the bound (both in points), and its moves."""

    distance: float
    gap: float
    moves: int


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure all budgets.

    Args:
        quick: Fewer budgets and periods.
        first: Seed of the first run.
    """
    for budget in QUICK_BUDGETS if quick else BUDGETS:
        seeds = range(first, first + (QUICK_SEEDS if quick else SEEDS))
        periods = [p for seed in seeds for p in follow(budget, seed, quick)]
        scenario = "budget_unrestricted" if math.isinf(budget) else f"budget_{budget}"
        for figure, value, unit in (
            ("load_distance", float(np.mean([p.distance for p in periods])), "points"),
            ("bound_gap", float(np.median([p.gap for p in periods])), "points"),
            ("migrations_per_period", float(np.mean([p.moves for p in periods])), "groups"),
            ("pause_s", PAUSE_S * float(np.mean([p.moves for p in periods])), "s"),
        ):
            yield Record(BENCH, scenario, METHOD, figure, value, unit, None, None, len(periods))


def follow(budget: float, seed: int, quick: bool) -> Sequence[Period]:
    """Apply plan after plan while loads change; every budget sees the same changes."""
    rng = np.random.default_rng(seed)
    node: Ints = np.repeat(np.arange(SIZE.nodes), SIZE.groups // SIZE.nodes)
    base = even(SIZE, rng)
    found = []
    for _ in range(QUICK_PERIODS if quick else PERIODS):
        problem = pose(SIZE, _changed(base, rng), node, budget)
        plan = balance(problem, seed=seed)
        distance = problem.distance(plan.node)
        found.append(Period(distance, max(0.0, distance - plan.bound), len(problem.moved(plan.node))))
        node = plan.node
    return found


def _changed(base: Floats, rng: np.random.Generator) -> Floats:
    """Return the loads of one period: blocks of groups, each a node's worth, gain or lose load."""
    load = base.copy()
    blocks = np.array_split(rng.permutation(len(load)), SIZE.nodes)[: SIZE.nodes // CHANGED]
    for n, groups in enumerate(blocks):
        load[groups] *= 1 + (-1 if n % 2 else 1) * 0.5 * VARIES / MEAN
    return load
