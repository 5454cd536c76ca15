"""Conservative Bayesian Optimisation ([ContTune], Algorithm 2), one operator at a time.

Symbols:
    p_acq      what the acquisition function suggests (fast exploitation)
    p_lin      what the linear method suggests (conservative exploration)
    d_nearest  distance of p_acq to the nearest observed level
    alpha      largest d_nearest at which p_acq is taken
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Suggestion:
    """What the Small phase suggests for an operator: a level, and by which means (``acq`` or ``lin``)."""

    parallelism: int
    means: str


def d_nearest(p_acq: int, observed: Sequence[int]) -> float:
    """Return the distance of p_acq to the nearest observed level; infinity without one (lines 6-9)."""
    return min((abs(p_acq - p) for p in observed), default=math.inf)


def suggest(p_acq: int | None, p_lin: int, observed: Sequence[int], alpha: float) -> Suggestion:
    """Return p_acq if it lies in a known region, else p_lin.

    Args:
        p_acq: None if the acquisition function found no level.
        p_lin: >= 1.
        observed: Levels of H_i^t.
        alpha: >= 0, infinity allowed.

    Reference:
        Algorithm 2, lines 6-15.
    """
    if p_acq is not None and d_nearest(p_acq, observed) <= alpha:
        return Suggestion(p_acq, "acq")
    return Suggestion(p_lin, "lin")


def within_gap(p_lin: int, p_acq: int | None, observed: Sequence[int], alpha: float, p_max: int) -> int:
    """Return p_lin held between the known regions around p_acq.

    Levels of the known region below p_acq are known not to suffice, and those above it to suffice, so there is no point
    in a p_lin beyond them; and without this a higher load could lead to a lower level.

    Args:
        p_lin: >= 1.
        p_acq: A level outside all known regions; None if no level up to p_max suffices.
        observed: Levels of H_i^t.
        alpha: Radius of a known region, >= 0.
        p_max: Highest level of the search.

    Deviation:
        Not in the paper; part of the option ``monotone``.
    """
    middle = p_max + 1 if p_acq is None else p_acq
    known = [p for p in range(1, p_max + 1) if d_nearest(p, observed) <= alpha]
    low = max((p for p in known if p < middle), default=1)
    high = min((p for p in known if p > middle), default=p_max)
    return min(max(p_lin, low), high)
