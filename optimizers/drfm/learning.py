"""Characteristics learned from a stream's past.

1. The period is the first peak of the autocorrelation behind its first crossing of 0, or the declared one if that fits
   better in the end.
2. Levels are outer quantiles. Durations and phase follow from when the stream is above their middle. The time between
   them distinguishes a jump from a trend.
3. The cycle is shifted and its parts varied a little, each time with the levels that fit best by least squares. The
   best fit is kept if it explains enough of the variance.
4. A stream without a cycle that is nearly always at one of two levels has levels and durations, but no phase. Declared
   durations hold: it would take dozens of switches to know better.

Symbols: T periods of history, S streams, R^2 the share of a stream's variance that the cycle explains.

Reference: ours; in [DRFM] Section 2.4 only users declare metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from millrace.optimizers.arrays import Bools, Floats, Ints
from millrace.optimizers.drfm.characteristics import Characteristics, cycle, unknown

LEAST = 8
"""Periods of history below which nothing is learned."""
EXPLAINS = 0.8
"""R^2 from which a cycle is believed."""
BETWEEN = 0.15
"""Share of periods that an on-off stream may be between its levels."""
OUTER = 0.03
"""Quantile that counts as the low level, and its mirror image as the high one."""
NEAR = 0.15
"""Share of the way between levels within which a rate is at a level."""
VARIES = 0.1
"""Difference of levels over the mean below which a stream is constant."""
AROUND = tuple(product((0.0, -1.0, -0.5, 0.5, 1.0), (0.0, -1.0, 1.0), (0.0, -1.0, 1.0)))
"""Variations of a cycle that are tried first: of its phase, of its time at high, and of its ramps, in periods."""
NEARBY = tuple(product((-0.5, 0.0, 0.5), repeat=3))
"""Variations of the best cycle so far that are tried next."""
STEPS = 3
"""Most rounds of those variations."""
ROUNDING = 1e-9
CYCLES = 1.5
"""Cycles that must have been seen before a declared period is tried; an undeclared period shows after two."""
SWITCHES = 2
"""Rises that an on-off stream must have shown; with declared durations, both levels are enough."""


@dataclass(frozen=True)
class Hints:
    """Declarations that help to learn, each of shape (S,) and > 0; NaN for undeclared ones.

    Attributes:
        period: Periods of a cycle.
        up: Periods that a stream is high, on average.
        down: Periods that it is low.
    """

    period: Floats
    up: Floats
    down: Floats

    @classmethod
    def none(cls, streams: int) -> Hints:
        """Return hints of streams without declarations."""
        return cls(*np.full((3, streams), np.nan))

    def take(self, streams: Ints) -> Hints:
        """Return the hints of some of the streams."""
        return Hints(self.period[streams], self.up[streams], self.down[streams])


def learn(history: Floats, last: float, hints: Hints | None = None) -> Characteristics:
    """Return the characteristics of streams learned from a history; NaN for unknown ones.

    Args:
        history: Rates, shape (T, S), >= 0, the newest last; NaN if a stream was not seen.
        last: Number of the newest period.
        hints: Their declarations.
    """
    hints = hints or Hints.none(history.shape[1])
    whole = ~np.isnan(history).any(axis=0)
    nothing = unknown(history.shape[1])
    if len(history) < LEAST or not whole.any():
        return nothing
    columns = np.flatnonzero(whole)
    rates = history[:, columns]
    low, high = np.quantile(rates, OUTER, axis=0), np.quantile(rates, 1 - OUTER, axis=0)
    moving = high - low > VARIES * np.maximum(rates.mean(axis=0), np.finfo(float).tiny)
    if not moving.any():
        return nothing
    columns, rates = columns[moving], rates[:, moving]
    bands = _Bands.of(rates, low[moving], high[moving])
    hints = hints.take(columns)
    cyclic, fits = _best_cycles(rates, bands, last, hints.period)
    on_off, is_on_off = _on_off(bands, hints)
    good = fits >= EXPLAINS
    learned = cyclic.where(good, on_off).where(good | is_on_off, unknown(len(columns)))
    return learned.spread(columns, history.shape[1])


def periods(rates: Floats) -> Ints:
    """Return the period of each stream by its autocorrelation, shape (S,); 0 without one.

    Args:
        rates: Shape (T, S). A period longer than T / 2 is not found.
    """
    count = len(rates)
    centred = rates - rates.mean(axis=0)
    power = np.abs(np.fft.rfft(centred, 2 * count, axis=0)) ** 2
    lags = count // 2 + 1
    correlation = np.fft.irfft(power, axis=0)[: lags + 1] / (count - np.arange(lags + 1))[:, None]
    correlation /= np.maximum(correlation[0], np.finfo(float).tiny)
    inner = correlation[1:-1]
    behind = np.logical_or.accumulate(correlation < 0, axis=0)[1:-1]
    peaks = behind & (inner >= correlation[:-2]) & (inner >= correlation[2:]) & (inner > 0)
    height = np.where(peaks, inner, 0.0)
    top = height >= 0.9 * height.max(axis=0)
    return np.where(height.max(axis=0) > 0, top.argmax(axis=0) + 1, 0)


@dataclass(frozen=True)
class _Bands:
    """Levels, and which periods were above their middle or between them, shape (T, S)."""

    low: Floats
    high: Floats
    above: Bools
    between: Bools

    @classmethod
    def of(cls, rates: Floats, low: Floats, high: Floats) -> _Bands:
        place = (rates - low) / (high - low)
        above, between = place > 0.5, (place > NEAR) & (place < 1 - NEAR)
        at_low, at_high = ~above & ~between, above & ~between
        return cls(_mean(rates, at_low, low), _mean(rates, at_high, high), above, between)


def _mean(rates: Floats, mask: Bools, otherwise: Floats) -> Floats:
    count = mask.sum(axis=0)
    return np.where(count > 0, (rates * mask).sum(axis=0) / np.maximum(count, 1), otherwise)


def _best_cycles(rates: Floats, bands: _Bands, last: float, declared: Floats) -> tuple[Characteristics, Floats]:
    """Return the cycle of each stream and its R^2, shape (S,), with the observed or the declared period."""
    seen, fits = _cycles(rates, bands, last, periods(rates))
    short = CYCLES * declared <= len(rates)
    if not short.any():
        return seen, fits
    declared_cycle, theirs = _cycles(rates, bands, last, np.where(short, declared, 0.0))
    better = theirs > fits
    return declared_cycle.where(better, seen), np.where(better, theirs, fits)


def _cycles(rates: Floats, bands: _Bands, last: float, period: Floats | Ints) -> tuple[Characteristics, Floats]:
    """Return the cycle of each stream with a period and its R^2, shape (S,), below 0 without a period."""
    count = len(rates)
    length = np.maximum(period, 2).astype(float)
    full = count - np.mod(count, length)
    numbers = last - count + 1 + np.arange(count)
    counted = (np.arange(count)[:, None] >= count - full).astype(float)
    up = np.clip((bands.above * counted).sum(axis=0) / full * length, 1.0, length - 1)
    ramp = (bands.between * counted).sum(axis=0) / full * length / (2 * (1 - 2 * NEAR))
    ramp = np.where(ramp < 1, 0.0, np.minimum(ramp, np.minimum(up, length - up)))
    turn = np.exp(2j * np.pi * (numbers[:, None] + 0.5) / length)
    centre = np.angle((turn * bands.above * counted).sum(axis=0)) / (2 * np.pi) * length
    start = Characteristics(
        low=bands.low,
        high=bands.high,
        average=rates.mean(axis=0),
        up=_halves(up),
        down=length - _halves(up),
        phase=np.mod(_halves(centre - (up + ramp) / 2), length),
        ramp=_halves(ramp),
        ends=np.full(len(up), np.nan),
    )
    best, left = _refine(start, rates, last)
    fits = 1 - left / np.maximum(((rates - rates.mean(axis=0)) ** 2).sum(axis=0), np.finfo(float).tiny)
    return best, np.where(period > 0, fits, -1.0)


def _halves(values: Floats) -> Floats:
    """Return values rounded to half periods, the grid of the search: most real changes are on it."""
    return np.asarray(np.round(2 * values) / 2)


def _refine(start: Characteristics, rates: Floats, last: float) -> tuple[Characteristics, Floats]:
    """Return the best of the cycles near ``start``, and its squared error, shape (S,)."""
    best, least = _fit_levels(start, rates, last)
    for variations in (AROUND, *[NEARBY] * STEPS):
        before, start = least, best
        for shift, longer, steeper in variations:
            tried, left = _fit_levels(_vary(start, shift, longer, steeper), rates, last)
            better = left < least * (1 - ROUNDING)
            best, least = tried.where(better, best), np.where(better, left, least)
        if (least >= before).all():
            break
    return best, least


def _vary(table: Characteristics, shift: float, longer: float, steeper: float) -> Characteristics:
    """Return cycles of the same lengths that begin later, are high for longer, and have longer ramps."""
    up = np.clip(table.up + longer, 1.0, table.up + table.down - 1)
    down = table.up + table.down - up
    ramp = np.where(table.ramp > 0, np.clip(table.ramp + steeper, 0.0, np.minimum(up, down)), 0.0)
    return replace(table, up=up, down=down, ramp=ramp, phase=np.mod(table.phase + shift, up + down))


def _fit_levels(table: Characteristics, rates: Floats, last: float) -> tuple[Characteristics, Floats]:
    """Return cycles with the levels that fit best, and their squared error, shape (S,).

    For a given shape of a cycle, 0 when low and 1 when high, rates are a straight line of it: least squares.
    """
    ones = np.ones(len(table.up))
    shape = cycle(replace(table, low=0 * ones, high=ones), last - len(rates), len(rates))
    off = shape - shape.mean(axis=0)
    gap = (off * rates).sum(axis=0) / np.maximum((off**2).sum(axis=0), np.finfo(float).tiny)
    low = np.maximum(rates.mean(axis=0) - gap * shape.mean(axis=0), 0.0)
    high = np.maximum(low + gap, low)
    left = ((rates - low - (high - low) * shape) ** 2).sum(axis=0)
    return replace(table, low=low, high=high), left


def _on_off(bands: _Bands, hints: Hints) -> tuple[Characteristics, Bools]:
    """Return levels and durations of streams, and which of them are on-off streams, shape (S,)."""
    rises = (bands.above[1:] & ~bands.above[:-1]).sum(axis=0)
    falls = (~bands.above[1:] & bands.above[:-1]).sum(axis=0)
    high = bands.above.sum(axis=0)
    declared = np.isfinite(hints.up + hints.down)
    up, down = high / np.maximum(falls, 1), (len(bands.above) - high) / np.maximum(rises, 1)
    on_off = replace(
        unknown(len(high)),
        low=bands.low,
        high=bands.high,
        up=np.maximum(np.where(declared, hints.up, up), 1.0),
        down=np.maximum(np.where(declared, hints.down, down), 1.0),
        ramp=np.zeros(len(high)),
    )
    return on_off, (declared | (rises >= SWITCHES)) & (bands.between.mean(axis=0) <= BETWEEN)
