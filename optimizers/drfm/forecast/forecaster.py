"""What a forecaster of rates has to do.

A forecaster has no memory of its own: its state is an array with a column a stream, kept by who uses it. A stream joins
with a column from :meth:`Forecaster.start`, and its column goes when it leaves.

Symbols: S streams, D numbers of state a stream.
"""

from __future__ import annotations

from typing import Protocol

from optimizers.drfm.problem import Floats


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
            state: The one before, shape (D, S).
            rate: Rate of each stream in the period, shape (S,), >= 0; NaN if it was missed, which counts as what was
                forecast.
        """
        ...

    def forecast(self, state: Floats, periods: int) -> Floats:
        """Return the rates of the next periods, shape (periods, S), >= 0."""
        ...

    def spread(self, state: Floats, periods: int) -> Floats:
        """Return the variance of each forecast's error over that of the first, shape (periods, S), the first 1."""
        ...
