"""Forecasters of many streams at once: by season, by level, by trend, and the best of several.

A forecaster has no memory of its own: its state is an array with one column per stream, kept by its user. A stream
joins with a column from :meth:`Forecaster.start`; its column is dropped when it leaves.

Symbols: S streams, D rows of state, k periods ahead; X_t the rate in period t, L level, T trend.

Reference:
    [DRFM] Section 2.3: any forecaster can be plugged in; the paper uses Holt's.
    [HKOS] Hyndman, Koehler, Ord, Snyder, "Forecasting with Exponential Smoothing", 2008, Section 6.2: growth of the
    error's variance with k.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol

import numpy as np
from pydantic import Field

from millrace.optimizers.api import Options
from millrace.optimizers.arrays import Floats


class Forecaster(Protocol):
    """Predicts the rates of streams from those seen so far."""

    def start(self, rate: Floats) -> Floats:
        """Return the state after a first rate, shape (D, S).

        Args:
            rate: First rate of each stream, shape (S,), >= 0; NaN if it was missed.
        """
        ...

    def update(self, state: Floats, rate: Floats) -> Floats:
        """Return the state after another period, shape (D, S).

        Args:
            state: The previous state, shape (D, S).
            rate: Rate of each stream in the period, shape (S,), >= 0; NaN if it was missed, which counts as forecast.
        """
        ...

    def forecast(self, state: Floats, periods: int) -> Floats:
        """Return the rates of the next periods, shape (periods, S), >= 0."""
        ...

    def spread(self, state: Floats, periods: int) -> Floats:
        """Return the variance of each forecast's error over that of the first, shape (periods, S), the first 1."""
        ...


class Seasonal(Options):
    """Seasonal naive forecast: the rates of a season ago; before the first season is over, the last rate.

    Attributes:
        season: Periods after which rates repeat, >= 1, the same for all streams; with 1 the next rate is the last one.
    """

    section: ClassVar[str] = "admission.options"

    season: int = Field(24, ge=1)

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; rows are the last season, the oldest first, NaN before the first rate."""
        state = np.full((self.season, len(rate)), np.nan)
        state[-1] = np.nan_to_num(rate, nan=0.0)
        return state

    def update(self, state: Floats, rate: Floats) -> Floats:
        """See :class:`Forecaster`."""
        new = np.where(np.isnan(rate), self.forecast(state, 1)[0], rate)
        return np.concatenate([state[1:], new[None]])

    def forecast(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        season = np.where(np.isnan(state), state[-1], state)
        return np.asarray(season[np.arange(periods) % self.season])

    def spread(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`; the variance of a random walk with one step per season."""
        return np.repeat(1.0 + np.arange(periods)[:, None] // self.season, state.shape[1], axis=1)


class ExponentialSmoothing(Options):
    """Rates that stay about the same: their mean at first, exponential smoothing later.

        L_n = L_(n-1) + max(alpha, 1/n) (X_n - L_(n-1))
        X(t+k) = L, with variance s^2 (1 + (k-1) alpha^2) ([HKOS])

    The mean of n rates is the best forecast of a level while n is small; a fixed weight would lean on the first rate.

    Attributes:
        alpha: Least weight of a new rate in the level, [0, 1].
    """

    section: ClassVar[str] = "admission.options"

    alpha: float = Field(0.1, ge=0, le=1)

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; rows are the level and the number of rates seen."""
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


class Holt(Options):
    """Holt's linear trend model, its trend damped or not.

        L_t = alpha X_t + (1 - alpha)(L_(t-1) + phi T_(t-1))
        T_t = gamma (L_t - L_(t-1)) + (1 - gamma) phi T_(t-1)
        X(t+k) = L_t + phi_k T_t, at least 0, with phi_k = phi + phi^2 + .. + phi^k
                 with variance s^2 (1 + sum_(j<k) alpha^2 (1 + phi_j gamma)^2) ([HKOS])

    With phi = 1 it is the paper's, phi_k = k: right for the next periods, without bound far ahead.

    Reference: [DRFM] Section 2.3. L_0 = X_0 and T_0 = 0; the paper is silent about them.

    Attributes:
        alpha: Weight of a new rate in the level, [0, 1].
        gamma: Weight of a new slope in the trend, [0, 1].
        damping: phi, the part of a trend that is left a period later, [0, 1].
    """

    section: ClassVar[str] = "admission.options"

    alpha: float = Field(0.8, ge=0, le=1)
    gamma: float = Field(0.3, ge=0, le=1)
    damping: float = Field(1.0, ge=0, le=1)

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; rows are level and trend."""
        return np.stack([np.nan_to_num(rate, nan=0.0), np.zeros(len(rate))])

    def update(self, state: Floats, rate: Floats) -> Floats:
        """See :class:`Forecaster`."""
        level, trend = state[0], self.damping * state[1]
        expected = level + trend
        rate = np.where(np.isnan(rate), np.maximum(expected, 0.0), rate)
        new = self.alpha * rate + (1 - self.alpha) * expected
        return np.stack([new, self.gamma * (new - level) + (1 - self.gamma) * trend])

    def forecast(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return np.asarray(np.maximum(state[0] + self._damped(periods)[:, None] * state[1], 0.0))

    def spread(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        steps = (self.alpha * (1 + self._damped(periods - 1) * self.gamma)) ** 2
        growth = 1.0 + np.concatenate([[0.0], np.cumsum(steps)])
        return np.repeat(growth[:, None], state.shape[1], axis=1)

    def _damped(self, periods: int) -> Floats:
        """Return phi_1, phi_2, .., shape (periods,)."""
        return np.cumsum(self.damping ** np.arange(1.0, periods + 1))


class Best(Options):
    """The best of several forecasters so far, per stream.

    Rates that jitter about a level need a slow forecaster, rates that jump or rise a fast one. Far ahead, that is the
    difference between a narrow band and none. Each stream is forecast by the forecaster with the least exponentially
    weighted mean of squared errors a period ahead; of equal ones by the first.

    Attributes:
        forecasters: M of them, at least one.
        memory: Weight of a new error, (0, 1].
    """

    section: ClassVar[str] = "admission.options"

    forecasters: tuple[Seasonal | ExponentialSmoothing | Holt, ...] = Field(
        (ExponentialSmoothing(), Holt(damping=0.8)), min_length=1
    )
    memory: float = Field(0.1, gt=0, le=1)

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; rows are M errors, then the states of the forecasters one after another."""
        errors = np.zeros((len(self.forecasters), len(rate)))
        return np.concatenate([errors, *(forecaster.start(rate) for forecaster in self.forecasters)])

    def update(self, state: Floats, rate: Floats) -> Floats:
        """See :class:`Forecaster`."""
        errors, states = state[: len(self.forecasters)].copy(), []
        for m, (forecaster, own) in enumerate(self._each(state)):
            square = (forecaster.forecast(own, 1)[0] - rate) ** 2
            errors[m] += np.where(np.isfinite(square), self.memory * (square - errors[m]), 0.0)
            states.append(forecaster.update(own, rate))
        return np.concatenate([errors, *states])

    def forecast(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return self._choose(state, [f.forecast(own, periods) for f, own in self._each(state)])

    def spread(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return self._choose(state, [f.spread(own, periods) for f, own in self._each(state)])

    def _each(self, state: Floats) -> Iterator[tuple[Forecaster, Floats]]:
        """Yield each forecaster with its own rows of the state."""
        begin = len(self.forecasters)
        for forecaster in self.forecasters:
            end = begin + len(forecaster.start(np.zeros(0)))
            yield forecaster, state[begin:end]
            begin = end

    def _choose(self, state: Floats, values: list[Floats]) -> Floats:
        """Return the values of each stream's best forecaster, shape (periods, S)."""
        best = state[: len(self.forecasters)].argmin(axis=0)
        return np.asarray(np.take_along_axis(np.stack(values), best[None, None], axis=0)[0])
