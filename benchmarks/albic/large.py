"""A thousand nodes with 100,000 key groups at a budget of 3 %; times are seconds of one processor."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.albic.instances import Size, instance
from benchmarks.albic.rivals import flux
from benchmarks.record import Record
from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.problem import Problem

BENCH, SCENARIO = "albic", "large"

SIZE = Size(1_000, 100_000, 50)
BUDGET = 3_000
VARIES, QUICK_VARIES = (20, 40, 60), (40,)
SEEDS = 2


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure the balancer and Flux.

    Args:
        quick: One instance.
        first: Seed of the first run.
    """
    spreads, seeds = (QUICK_VARIES, range(first, first + 1)) if quick else (VARIES, range(first, first + SEEDS))
    problems = [instance(SIZE, varies, BUDGET, seed) for varies in spreads for seed in seeds]
    distances, gaps, seconds = [], [], []
    for problem in problems:
        begun = time.process_time()
        plan = balance(problem)
        seconds.append(time.process_time() - begun)
        distances.append(problem.distance(plan.node))
        gaps.append(max(0.0, distances[-1] - plan.bound))
    yield _record("balancer", "load_distance", float(np.median(distances)), "points", len(problems))
    yield _record("balancer", "bound_gap", max(gaps), "points", len(problems))
    yield _record("balancer", "seconds", float(np.median(seconds)), "s", len(problems))
    rival = [_flux(problem) for problem in problems]
    yield _record("flux", "load_distance", float(np.median([d for d, _ in rival])), "points", len(problems))
    yield _record("flux", "seconds", float(np.median([s for _, s in rival])), "s", len(problems))
    worse = sum(a > b + 1e-9 for a, (b, _) in zip(distances, rival, strict=True))
    yield _record("balancer", "worse_than_flux", worse, "instances", len(problems))


def _flux(problem: Problem) -> tuple[float, float]:
    begun = time.process_time()
    plan = flux.balance(problem)
    return problem.distance(plan.node), time.process_time() - begun


def _record(method: str, figure: str, value: float, unit: str, n: int) -> Record:
    return Record(BENCH, SCENARIO, method, figure, value, unit, None, None, n)
