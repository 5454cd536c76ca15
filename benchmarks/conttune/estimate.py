"""A mean over runs, with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

LEVEL = 0.95
RESAMPLES, SEED = 4000, 7


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval.

    Attributes:
        value: The mean; NaN without a run.
        low: Lower end; None with fewer than two runs.
        high: Upper end.
        runs: Number of runs.
    """

    value: float
    low: float | None
    high: float | None
    runs: int


def estimate(values: Iterable[float]) -> Estimate:
    """Return the mean of a figure over runs, with Student's interval; runs without the figure (NaN) do not count.

    Args:
        values: One per run.
    """
    found = np.array([v for v in values if math.isfinite(v)])
    if not found.size:
        return Estimate(math.nan, None, None, 0)
    mean = float(found.mean())
    if found.size < 2:
        return Estimate(mean, None, None, 1)
    half = float(t.ppf((1 + LEVEL) / 2, found.size - 1) * found.std(ddof=1) / math.sqrt(found.size))
    return Estimate(mean, mean - half, mean + half, found.size)


def ratio(values: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the ratio of two means over the same runs, with an interval from resampling the runs.

    Args:
        values: One per run.
        others: Values of the same runs in the same order; their mean must not be 0.
    """
    a, b = np.asarray(values, dtype=float), np.asarray(others, dtype=float)
    value = float(a.mean() / b.mean())
    if a.size < 2:
        return Estimate(value, None, None, a.size)
    picked = np.random.default_rng(SEED).integers(0, a.size, (RESAMPLES, a.size))
    below = b[picked].mean(axis=1)
    found = a[picked].mean(axis=1)[below > 0] / below[below > 0]
    low, high = np.quantile(found, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Estimate(value, float(low), float(high), a.size)
