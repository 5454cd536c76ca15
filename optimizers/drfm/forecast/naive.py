"""Forecasters without a model, which a better one has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.drfm.problem import Floats
from optimizers.ranges import ADMISSION, check


@dataclass(frozen=True)
class Naive:
    """The next rates are the last one."""

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; the row is the last rate."""
        return np.nan_to_num(rate, nan=0.0)[None]

    def update(self, state: Floats, rate: Floats) -> Floats:
        """See :class:`Forecaster`."""
        return np.where(np.isnan(rate), state[0], rate)[None]

    def forecast(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return np.repeat(state, periods, axis=0)

    def spread(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`; the variance of a random walk."""
        return np.repeat(np.arange(1.0, periods + 1)[:, None], state.shape[1], axis=1)


@dataclass(frozen=True)
class Seasonal:
    """The next rates are those of a season ago; until one is over, the last one.

    Attributes:
        season: Periods after which rates repeat, >= 1, the same for all streams.
    """

    season: int = 24

    def __post_init__(self) -> None:
        """Refuse what is no season.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check("season", self.season, int, ADMISSION)

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; rows are the last season, the oldest first, NaN where nothing was seen yet."""
        state = np.full((self.season, len(rate)), np.nan)
        state[-1] = np.nan_to_num(rate, nan=0.0)
        return state

    def update(self, state: Floats, rate: Floats) -> Floats:
        """See :class:`Forecaster`."""
        seen = np.where(np.isnan(rate), self.forecast(state, 1)[0], rate)
        return np.concatenate([state[1:], seen[None]])

    def forecast(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        known = np.where(np.isnan(state), state[-1], state)
        found: Floats = known[np.arange(periods) % self.season]
        return found

    def spread(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return np.repeat(1.0 + np.arange(periods)[:, None] // self.season, state.shape[1], axis=1)
