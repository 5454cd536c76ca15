"""Block sizes of both methods against all possible block sizes, on random joins.

A mismatch is a case in which a method's size costs more than the best feasible size, or is infeasible although a
feasible one exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.record import Record
from millrace.optimizers.esj.block_size import block_size, cost, fits

BENCH, SCENARIO = "esj", "block_size"
CASES, QUICK_CASES = 200_000, 20_000
CAPACITY = 500
"""Highest W: every size up to half of it is tried."""
ROUNDING = 1e-12
METHODS = {"literal": "literal", "ours": "optimum"}


@dataclass(frozen=True)
class Case:
    """A join: x and W in tuples, alpha."""

    held: float
    capacity: int
    alpha: float


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Yield random joins, from nearly idle to a tenth above capacity."""
    rng = np.random.default_rng(seed)
    capacity = rng.integers(2, CAPACITY, count, endpoint=True)
    held, alpha = rng.uniform(0, 1.1, count) * capacity, rng.uniform(0.01, 0.79, count)
    for values in zip(held.tolist(), capacity.tolist(), alpha.tolist(), strict=True):
        yield Case(*values)


def brute_force(case: Case) -> float | None:
    """Return the least cost of all feasible block sizes; None if none is feasible."""
    x, w, alpha = case.held, case.capacity, case.alpha
    sizes = np.arange(1, w + 1)
    sizes = sizes[(sizes <= w / 2) & (sizes + x <= w)]
    return float(((1 - alpha) * x / sizes + alpha * sizes / x).min()) if len(sizes) else None


def records(quick: bool, first: int = 0) -> Iterator[Record]:
    """Measure each method's mismatches, its share of infeasible sizes, and its cost when feasible.

    Args:
        quick: Fewer cases.
        first: Seed of the first run.
    """
    drawn = list(cases(QUICK_CASES if quick else CASES, first))
    best = [brute_force(case) for case in drawn]
    served = sum(found is not None for found in best)
    yield Record(BENCH, SCENARIO, "brute_force", "runs", len(drawn), "cases")
    yield Record(BENCH, SCENARIO, "brute_force", "infeasible_ratio", 1 - served / len(drawn), "ratio", n=len(drawn))
    for name, method in METHODS.items():
        sizes = [block_size(case.held, case.capacity, case.alpha, method) for case in drawn]
        wrong = sum(_differs(case, size, least) for case, size, least in zip(drawn, sizes, best, strict=True))
        over = [_cost(case, size) / least - 1 for case, size, least in _fitting(drawn, sizes, best)]
        yield Record(BENCH, SCENARIO, name, "mismatches", wrong, "cases", n=len(drawn))
        yield Record(BENCH, SCENARIO, name, "infeasible_ratio", 1 - len(over) / served, "ratio", n=served)
        yield Record(BENCH, SCENARIO, name, "cost_above_best_ratio", float(np.mean(over)), "ratio", n=len(over))


def _differs(case: Case, size: int, least: float | None) -> bool:
    if least is None:  # nothing is feasible; the best effort is defined
        return size != 1
    if not fits(size, case.held, case.capacity):
        return True
    return _cost(case, size) > least * (1 + ROUNDING)


def _fitting(
    drawn: Sequence[Case], sizes: Sequence[int], best: Sequence[float | None]
) -> Iterator[tuple[Case, int, float]]:
    for case, size, least in zip(drawn, sizes, best, strict=True):
        if least is not None and fits(size, case.held, case.capacity):
            yield case, size, least


def _cost(case: Case, size: int) -> float:
    return cost(size, case.held, case.alpha)
