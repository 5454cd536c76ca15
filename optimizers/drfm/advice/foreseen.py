"""Forecasts against what came, of the newest periods."""

from __future__ import annotations

from dataclasses import dataclass

from optimizers.drfm.problem import Floats

MOST = 72
"""Periods that are kept: errors of one period alone, a night's for example, say little."""


@dataclass(frozen=True)
class Foreseen:
    """What was foreseen of periods a period ahead, the newest last, and what came; rows a period.

    Attributes:
        forecast: Of all streams that were known, together.
        came: What those streams brought together.
        off: What forecasts were off by, summed up stream by stream.
    """

    forecast: tuple[float, ...] = ()
    came: tuple[float, ...] = ()
    off: tuple[float, ...] = ()

    def add(self, forecast: Floats, came: Floats) -> Foreseen:
        """Return this with another period, shape (S,) each."""
        sums = (forecast.sum(), came.sum(), abs(forecast - came).sum())
        columns = zip((self.forecast, self.came, self.off), sums, strict=True)
        return Foreseen(*((*column, float(new))[-MOST:] for column, new in columns))

    @property
    def error(self) -> float | None:
        """What forecasts were off by, stream by stream, over what came; None if nothing came."""
        return _share(sum(self.off), self.came)

    @property
    def total_error(self) -> float | None:
        """The same of all streams together."""
        return _share(sum(abs(f - c) for f, c in zip(self.forecast, self.came, strict=True)), self.came)


def _share(off: float, came: tuple[float, ...]) -> float | None:
    whole = sum(came)
    return off / whole if whole > 0 else None
