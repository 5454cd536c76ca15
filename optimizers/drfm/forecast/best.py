"""The forecaster that did best so far, stream by stream.

Rates that jitter about a level want a slow forecaster, rates that jump or rise a fast one; far ahead the difference is
that between a narrow band and none. Each stream is forecast by the one with the least exponentially weighted mean of
squared errors a period ahead; of equal ones by the first.

Reference: ours; [DRFM] Section 2.3 has any forecaster plugged in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from include.model.errors import MillraceError
from optimizers.drfm.forecast.forecaster import Forecaster
from optimizers.drfm.forecast.holt import Holt
from optimizers.drfm.forecast.level import Level
from optimizers.drfm.problem import Floats
from optimizers.ranges import ADMISSION, SHARE, check_fields


@dataclass(frozen=True)
class Best:
    """Several forecasters at once.

    Attributes:
        forecasters: M of them, at least one.
        memory: Weight of a new error, (0, 1].
    """

    forecasters: tuple[Forecaster, ...] = (Level(), Holt(damping=0.8))
    memory: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            MillraceError: With the option, its value, what is allowed and the remedy.
        """
        check_fields(self, {"memory": SHARE}, ADMISSION)
        if not self.forecasters:
            raise MillraceError(f"{ADMISSION}.forecasters", 0, ">= 1", "Name a forecaster.")

    def start(self, rate: Floats) -> Floats:
        """See :class:`Forecaster`; rows are M errors, then the states of the forecasters one after another."""
        errors = np.zeros((len(self.forecasters), len(rate)))
        return np.concatenate([errors, *(forecaster.start(rate) for forecaster in self.forecasters)])

    def update(self, state: Floats, rate: Floats) -> Floats:
        """See :class:`Forecaster`."""
        errors, states = state[: len(self.forecasters)].copy(), []
        for m, (forecaster, own) in enumerate(self._each(state)):
            off = (forecaster.forecast(own, 1)[0] - rate) ** 2
            errors[m] += np.where(np.isfinite(off), self.memory * (off - errors[m]), 0.0)
            states.append(forecaster.update(own, rate))
        return np.concatenate([errors, *states])

    def forecast(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return self._chosen(state, [f.forecast(own, periods) for f, own in self._each(state)])

    def spread(self, state: Floats, periods: int) -> Floats:
        """See :class:`Forecaster`."""
        return self._chosen(state, [f.spread(own, periods) for f, own in self._each(state)])

    def _each(self, state: Floats) -> Iterator[tuple[Forecaster, Floats]]:
        """Yield each forecaster with its own rows of the state."""
        begin = len(self.forecasters)
        for forecaster in self.forecasters:
            end = begin + len(forecaster.start(np.zeros(0)))
            yield forecaster, state[begin:end]
            begin = end

    def _chosen(self, state: Floats, found: list[Floats]) -> Floats:
        """Return for each stream what its best forecaster has found, shape (periods, S)."""
        best = state[: len(self.forecasters)].argmin(axis=0)
        chosen: Floats = np.take_along_axis(np.stack(found), best[None, None], axis=0)[0]
        return chosen
