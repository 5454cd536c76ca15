"""Scale-in: 10 of 60 nodes are marked for removal, while zero, one or five other nodes are overloaded.

Figure 5 of [ALBIC]. Loads stay constant. Plans are applied one after another until the marked nodes are empty and
nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.albic.instances import BIG, even, pose
from benchmarks.albic.rivals import non_integrated
from benchmarks.record import Record
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.problem import Plan, Problem

BENCH = "albic"

MARKED, BUDGET = 10, 20
OVERLOADED_POINTS = 100.0
SCENARIOS = {"drain": 0, "drain_1ol": 1, "drain_5ol": 5}
"""Numbers of overloaded nodes."""

SEEDS, QUICK_SEEDS = 5, 1
PERIODS = 30
"""Most periods; a slower method gets this value."""

LEAST_PERIODS = BIG.groups // BIG.nodes * MARKED // BUDGET
"""Groups on marked nodes divided by the budget. Load distances are averaged over this many periods."""

METHODS: Mapping[str, Callable[[Problem], Plan]] = {
    "balancer": balance,
    "non_integrated": non_integrated.place,
}


@dataclass(frozen=True)
class Course:
    """Figures of one scale-in.

    Attributes:
        periods: Periods until the marked nodes were empty.
        distance: Load distance after each period, averaged over the first periods, points.
        moves: Mean moves per period while marked nodes held groups.
    """

    periods: int
    distance: float
    moves: float


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure both methods on all scenarios.

    Args:
        quick: One seed.
        first: Seed of the first run.
    """
    seeds = range(first, first + (QUICK_SEEDS if quick else SEEDS))
    for scenario, overloaded in SCENARIOS.items():
        for method, plan in METHODS.items():
            courses = [follow(problem(overloaded, seed), plan) for seed in seeds]
            yield _record(scenario, method, "drain_periods", max(c.periods for c in courses), "periods", len(courses))
            distance = float(np.mean([c.distance for c in courses]))
            yield _record(scenario, method, "load_distance", distance, "points", len(courses))
            moves = float(np.mean([c.moves for c in courses]))
            yield _record(scenario, method, "migrations_per_period", moves, "groups", len(courses))


def problem(overloaded: int, seed: int) -> Problem:
    """Return a cluster whose last nodes are marked and whose first nodes are overloaded."""
    rng = np.random.default_rng([overloaded, seed])
    node = np.repeat(np.arange(BIG.nodes), BIG.groups // BIG.nodes)
    load = even(BIG, rng)
    for i in range(overloaded):
        load[node == i] *= OVERLOADED_POINTS / load[node == i].sum()
    return pose(BIG, load, node, BUDGET, np.arange(BIG.nodes - MARKED, BIG.nodes))


def follow(posed: Problem, make: Callable[[Problem], Plan]) -> Course:
    """Apply plan after plan."""
    distances: list[float] = []
    moves: list[int] = []
    periods = 0
    while len(distances) < PERIODS and (len(distances) < LEAST_PERIODS or posed.removed[posed.node].any()):
        draining = bool(posed.removed[posed.node].any())
        plan = make(posed)
        periods += draining
        if draining:
            moves.append(len(posed.moved(plan.node)))
        posed = replace(posed, node=plan.node)
        distances.append(posed.distance(posed.node))
    return Course(periods, float(np.mean(distances[:LEAST_PERIODS])), float(np.mean(moves)))


def _record(scenario: str, method: str, figure: str, value: float, unit: str, n: int) -> Record:
    return Record(BENCH, scenario, method, figure, value, unit, None, None, n)
