"""Acquisition functions ([ContTune], Section 5.1): where to look for p_acq.

Symbols, arrays over the searched levels p = 1..p_max, shape (n,):
    mu, sigma  the surrogate's mean and standard deviation, rows a second
    lambda     rows a second that the operator has to process
    p*         the minimal feasible level known

Both return p_acq, or None if no level is suggested (the paper leaves that open: p_lin, else back to Big).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]


def safe(mu: Array, lam: float) -> int | None:
    """Return the p of Eq. 5: argmax (p* - p) I(mu(p) - lambda), the smallest p with mu(p) >= lambda.

    Args:
        mu: Shape (n,).
        lam: >= 0.

    Reference:
        Section 5.1, Eq. 5 and 6.
    """
    feasible = np.flatnonzero(mu >= lam)
    return int(feasible[0]) + 1 if feasible.size else None


def cei(mu: Array, sigma: Array, lam: float, observed: Sequence[int]) -> int | None:
    """Return the p of Eq. 4: argmax (p* - p) Pr[f(p) >= lambda].

    Args:
        mu: Shape (n,).
        sigma: Shape (n,), >= 0.
        lam: >= 0.
        observed: Observed levels; p* is the smallest of them with mu >= lambda, and p_max + 1 if there is none, so
            that every level can improve on it.

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
