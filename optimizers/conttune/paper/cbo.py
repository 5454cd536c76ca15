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
