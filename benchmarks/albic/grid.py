"""The paper's grid: three clusters, four budgets, three spreads of load, several seeds.

Figures 2 to 4 of [ALBIC] show it for CPLEX. Here an open solver solves the MILP, up to a limit of search nodes. It runs
only on the smallest cluster and budget, and not in a quick run, because one instance takes at least half a minute.
Times are seconds of one processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import quantile_test

from benchmarks.albic.instances import SIZES, SMALL, Size, instance
from benchmarks.albic.rivals import flux, potc
from benchmarks.record import Record, median
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.paper.milp import solve
from millrace.optimizers.albic.problem import Plan, Problem

BENCH, SCENARIO = "albic", "grid"

VARIES = (20, 40, 60)
BUDGETS = (10, 20, 30, 40)
SEEDS = 7
"""7 seeds give 252 instances."""

QUICK_EVERY = 29
"""A quick run takes every n-th instance, in order: sizes, spreads, budgets and seeds all vary."""

ROUNDING = 1e-9


@dataclass(frozen=True)
class Case:
    """An instance's place in the grid."""

    size: Size
    varies: int
    budget: int
    seed: int

    def problem(self) -> Problem:
        """Return the instance."""
        return instance(self.size, self.varies, self.budget, self.seed)


@dataclass(frozen=True)
class Result:
    """A method's result on an instance.

    Attributes:
        distance: Load distance, points.
        gap: Load distance above the proven minimum, points; NaN if no minimum is proven.
        seconds: Duration.
        moves: Moves used.
    """

    distance: float
    gap: float
    seconds: float
    moves: float


def cases(quick: bool, first: int = 0) -> Sequence[Case]:
    """Return the grid, or a stratified part of it."""
    seeds = range(first, first + SEEDS)
    found = [Case(s, v, b, seed) for seed in seeds for s in SIZES for v in VARIES for b in BUDGETS]
    return found[::QUICK_EVERY] if quick else found


def milp_cases(quick: bool, first: int = 0) -> Sequence[Case]:
    """Return the part of the grid that the MILP solves."""
    return [] if quick else [Case(SMALL, varies, BUDGETS[0], first) for varies in VARIES]


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure the grid.

    Args:
        quick: Only a part of it.
        first: Seed of the first run.
    """
    yield from without_rivals(quick, first)
    yield from _summary("potc", [of_potc(case.problem()) for case in cases(quick, first)])
    yield from _summary("milp", [of_milp(case.problem()) for case in milp_cases(quick, first)])


def without_rivals(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure the balancer and Flux, which it is judged by; otherwise like :func:`records`."""
    problems = [case.problem() for case in cases(quick, first)]
    ours, rival = [balancer(p) for p in problems], [of_flux(p) for p in problems]
    yield from _summary("balancer", ours)
    yield from _tails(ours)
    yield _never_worse(ours, rival)
    yield from _summary("flux", rival)


def balancer(problem: Problem) -> Result:
    """Return the result of the certified balancer on an instance."""
    return _timed(problem, lambda: balance(problem))


def of_flux(problem: Problem) -> Result:
    """Return the result of Flux on an instance."""
    return _timed(problem, lambda: flux.balance(problem), proves=False)


def of_milp(problem: Problem) -> Result:
    """Return the result of the corrected MILP on an instance."""
    return _timed(problem, lambda: solve(problem))


def of_potc(problem: Problem) -> Result:
    """Return the result of two-choice routing; nothing is moved."""
    begun = time.process_time()
    routing = potc.route(problem)
    return Result(routing.distance, float("nan"), time.process_time() - begun, 0.0)


def _timed(problem: Problem, make: Callable[[], Plan], *, proves: bool = True) -> Result:
    begun = time.process_time()
    plan = make()
    seconds = time.process_time() - begun
    distance = problem.distance(plan.node)
    gap = max(0.0, distance - plan.bound) if proves else float("nan")
    return Result(distance, gap, seconds, problem.spent(plan.node))


def _summary(method: str, results: Sequence[Result]) -> Iterator[Record]:
    for figure, values, unit in (
        ("load_distance", [r.distance for r in results], "points"),
        ("bound_gap", [r.gap for r in results], "points"),
        ("seconds", [r.seconds for r in results], "s"),
        ("migrations_per_period", [r.moves for r in results], "groups"),
    ):
        if values and np.isfinite(values).all():
            yield median(BENCH, SCENARIO, method, figure, values, unit)


def _tails(results: Sequence[Result]) -> Iterator[Record]:
    gaps, seconds = [r.gap for r in results], [r.seconds for r in results]
    typical = _record("balancer", "bound_gap_median", float(np.median(gaps)), "points", len(results))
    # interval of the median itself, from the ranks of the gaps; the next two figures show how widely the gaps spread
    interval = quantile_test(gaps).confidence_interval(0.95)
    yield replace(typical, low=float(interval.low), high=float(interval.high))
    yield _record("balancer", "bound_gap_p95", float(np.quantile(gaps, 0.95)), "points", len(results))
    yield _record("balancer", "bound_gap_max", max(gaps), "points", len(results))
    yield _record("balancer", "seconds_p95", float(np.quantile(seconds, 0.95)), "s", len(results))


def _never_worse(ours: Sequence[Result], rival: Sequence[Result]) -> Record:
    worse = sum(a.distance > b.distance + ROUNDING for a, b in zip(ours, rival, strict=True))
    return _record("balancer", "worse_than_flux", worse, "instances", len(ours))


def _record(method: str, figure: str, value: float, unit: str, n: int) -> Record:
    return Record(BENCH, SCENARIO, method, figure, value, unit, None, None, n)
