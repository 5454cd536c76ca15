"""The paper's algorithms as written: binary lifting, the acquisition functions, the linear method and CBO.

Symbols, arrays over the searched levels p = 1..p_max, shape (n,):
    mu, sigma  the surrogate's mean and standard deviation, rows per second
    lambda     rows per second that the operator has to process
    p*         the minimal feasible level known
    p_acq      level that the acquisition function suggests (fast exploitation)
    p_lin      level that the linear method suggests (conservative exploration)
    d_nearest  distance of p_acq to the nearest observed level
    alpha      largest d_nearest at which p_acq is used

If no level is feasible, an acquisition function returns None; the paper leaves that open (p_lin, else back to Big).

Reference:
    [ContTune] Algorithm 1 (Big), Section 5.1 (acquisition), Section 5.2 (the linear method, DS2's), Algorithm 2 (CBO).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from millrace.optimizers.arrays import Floats

ROUNDING = 1e-9
"""Relative slack before rounding up: 3.0000000001 instances are three."""
FAR_BEYOND = 2**31
"""A level beyond any bound, for wanted levels that are not finite."""


def lift(p_now: Mapping[str, int], p_max: int) -> tuple[Mapping[str, int], int]:
    """Return one pass of the Big phase's loop body for an under-provisioned job.

    The loop itself runs over the evaluations: each reconfiguration is measured before the next pass.

    Args:
        p_now: Present level of every operator of the job.
        p_max: Highest level known in all H^t of the job.

    Returns:
        The levels to apply, and the new p_max: twice the old one if all operators already had it and the job is still
        under-provisioned.

    Reference:
        Algorithm 1, lines 5-16.
    """
    if all(p == p_max for p in p_now.values()):
        p_max = 2 * p_max
    return dict.fromkeys(p_now, p_max), p_max


def safe(mu: Floats, lam: float) -> int | None:
    """Return the p of Eq. 5: argmax (p* - p) I(mu(p) - lambda), the smallest p with mu(p) >= lambda.

    Args:
        mu: Shape (n,).
        lam: >= 0.

    Reference:
        Section 5.1, Eq. 5 and 6.
    """
    feasible = np.flatnonzero(mu >= lam)
    return int(feasible[0]) + 1 if feasible.size else None


def cei(mu: Floats, sigma: Floats, lam: float, observed: Sequence[int]) -> int | None:
    """Return the p of Eq. 4: argmax (p* - p) Pr[f(p) >= lambda].

    Args:
        mu: Shape (n,).
        sigma: Shape (n,), >= 0.
        lam: >= 0.
        observed: Observed levels; p* is the smallest of them with mu >= lambda. If there is none, p* is p_max + 1, and
            every level can improve on it.

    Reference:
        Section 5.1, Eq. 4.
    """
    n = len(mu)
    p = np.arange(1, n + 1)
    feasible = [level for level in observed if level <= n and mu[level - 1] >= lam]
    best = min(feasible, default=n + 1)
    certain = np.where(mu >= lam, 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        probability = np.where(sigma > 0, ndtr((mu - lam) / sigma), certain)
    gain = (best - p) * probability
    choice = int(np.argmax(gain))
    if gain[choice] > 0:
        return choice + 1
    return best if best <= n else None


def linear(parallelism: int, ability: float, lam: float) -> int:
    """Return p_lin = ceil(lambda / (PA(p) / p)), >= 1.

    Args:
        parallelism: An observed level p, >= 1.
        ability: PA(p), rows per second, > 0.
        lam: Rows per second to process, >= 0.
    """
    wanted = parallelism * (lam / ability)
    return max(1, math.ceil(wanted * (1 - ROUNDING)) if wanted < FAR_BEYOND else FAR_BEYOND)


@dataclass(frozen=True)
class Suggestion:
    """The Small phase's suggestion for an operator: a level, and its method (``acq`` or ``lin``)."""

    parallelism: int
    means: str


def d_nearest(p_acq: int, observed: Sequence[int]) -> float:
    """Return the distance of p_acq to the nearest observed level; infinity without one (Algorithm 2, lines 6-9)."""
    return min((abs(p_acq - p) for p in observed), default=math.inf)


def suggest(p_acq: int | None, p_lin: int, observed: Sequence[int], alpha: float) -> Suggestion:
    """Return p_acq if it is in a known region, else p_lin.

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
