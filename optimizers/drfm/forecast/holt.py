"""Holt's linear trend model for many streams at once, its trend damped or not.

    L_t = alpha X_t + (1 - alpha)(L_(t-1) + phi T_(t-1))
    T_t = gamma (L_t - L_(t-1)) + (1 - gamma) phi T_(t-1)
    X(t+k) = L_t + phi_k T_t, at least 0, with phi_k = phi + phi^2 + .. + phi^k

With phi = 1 that is the paper's, phi_k = k: right for the next periods, without bound far ahead.

Reference:
    [DRFM] Section 2.3. L_0 = X_0 and T_0 = 0, where the paper is silent.
    [HKOS] Hyndman, Koehler, Ord, Snyder, "Forecasting with Exponential Smoothing", 2008, Section 6.2: the error of
    X(t+k) has the variance s^2 (1 + sum_(j<k) alpha^2 (1 + phi_j gamma)^2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.drfm.problem import Floats
from optimizers.ranges import ADMISSION, Range, check_fields


@dataclass(frozen=True)
class Holt:
    """Level and trend of each stream.

    Attributes:
        alpha: Weight of a new rate in the level, [0, 1].
        gamma: Weight of a new slope in the trend, [0, 1].
        damping: phi, what is left of a trend a period later, [0, 1].
    """

    alpha: float = 0.8
    gamma: float = 0.3
    damping: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check_fields(self, dict.fromkeys(("alpha", "gamma", "damping"), Range(0, 1)), ADMISSION)

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; rows are level and trend."""
        return np.stack([np.nan_to_num(rate, nan=0.0), np.zeros(len(rate))])

    def update(self, state: Floats, rate: Floats) -> Floats:
        """See :class:`Forecaster`."""
        level, trend = state[0], self.damping * state[1]
        expected = level + trend
        seen = np.where(np.isnan(rate), np.maximum(expected, 0.0), rate)
        new = self.alpha * seen + (1 - self.alpha) * expected
        return np.stack([new, self.gamma * (new - level) + (1 - self.gamma) * trend])

    def forecast(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        found: Floats = np.maximum(state[0] + self._damped(periods)[:, None] * state[1], 0.0)
        return found

    def spread(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        steps = (self.alpha * (1 + self._damped(periods - 1) * self.gamma)) ** 2
        found = 1.0 + np.concatenate([[0.0], np.cumsum(steps)])
        return np.repeat(found[:, None], state.shape[1], axis=1)

    def _damped(self, periods: int) -> Floats:
        """Return phi_1, phi_2, .., shape (periods,)."""
        return np.cumsum(self.damping ** np.arange(1.0, periods + 1))
