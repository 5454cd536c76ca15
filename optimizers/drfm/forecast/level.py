"""Rates that stay about where they are: a mean at first, exponential smoothing later.

    L_n = L_(n-1) + max(alpha, 1/n) (X_n - L_(n-1))
    X(t+k) = L

The mean of n rates is the best forecast of a level while n is small; a fixed weight would lean on the first rate.

Reference:
    [HKOS] Hyndman, Koehler, Ord, Snyder, "Forecasting with Exponential Smoothing", 2008, Section 6.2: the error of
    X(t+k) has the variance s^2 (1 + (k-1) alpha^2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.drfm.problem import Floats
from optimizers.ranges import ADMISSION, Range, check_fields


@dataclass(frozen=True)
class Level:
    """Level of each stream.

    Attributes:
        alpha: Least weight of a new rate in the level, [0, 1].
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check_fields(self, {"alpha": Range(0, 1)}, ADMISSION)

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; rows are the level and how many rates were seen."""
        return np.stack([np.nan_to_num(rate, nan=0.0), np.isfinite(rate).astype(float)])

    def update(self, state: Floats, rate: Floats) -> Floats:
        """See :class:`Forecaster`."""
        level, count = state
        seen = np.isfinite(rate)
        count = count + seen
        weight = np.maximum(self.alpha, 1 / np.maximum(count, 1))
        return np.stack([np.where(seen, level + weight * (np.where(seen, rate, 0.0) - level), level), count])

    def forecast(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return np.repeat(state[:1], periods, axis=0)

    def spread(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return np.repeat(1 + np.arange(periods)[:, None] * self.alpha**2, state.shape[1], axis=1)
