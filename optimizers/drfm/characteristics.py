"""Characteristics of many streams as columns, and the rates expected from them.

Three cases, by what is known of a stream:
    levels, durations and phase     the cycle itself
    levels and durations            a two-state chain that leaves high after ``up`` periods and low after ``down`` on
                                    average; its present state is seen from its last rate
    less                            a forecast

Symbols: S streams, H periods ahead. For the chain, with q = 1/up, r = 1/down, a = 1 - q - r, share of high
s = r / (q + r): P(high in h | high) = s + (1 - s) a^h, P(high in h | low) = s - s a^h.

Reference:
    [DRFM] Section 2.4: undeclared characteristics have a default, the average over the existing streams. Deviation: a
    phase and a lifetime have none, because the mean of other streams' phases says nothing. Streams without declarations
    whose rates are seen have none either, because their rates say more.
    [DRFM] Section 2.5, the metadata-based expectation X^m. The paper does not say how it follows from the
    characteristics; the chain is the on-off model by which its Section 6.1.1 generates bursts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from millrace.optimizers.arrays import Bools, Floats, Ints
from millrace.optimizers.drfm.metadata import Metadata


@dataclass(frozen=True)
class Characteristics:
    """Characteristics of streams, each of shape (S,); NaN for unknown ones.

    Attributes:
        low: Lowest rate, >= 0.
        high: Highest rate.
        average: Mean rate.
        up: Periods from the start of a rise to the start of the fall, > 0.
        down: Periods from there to the next rise, > 0.
        phase: Period in which a rise begins.
        ramp: Periods that a rise or fall takes, >= 0; 0 is a jump.
        ends: Period in which the stream leaves.
    """

    low: Floats
    high: Floats
    average: Floats
    up: Floats
    down: Floats
    phase: Floats
    ramp: Floats
    ends: Floats

    @property
    def two_level(self) -> Bools:
        """Which streams have levels and durations: their behaviour is known except for the phase, shape (S,)."""
        return np.asarray(np.isfinite(self.low + self.high + self.up + self.down))

    @property
    def cyclic(self) -> Bools:
        """Which streams have a phase too, shape (S,)."""
        return self.two_level & np.isfinite(self.phase)

    @property
    def any_known(self) -> Bools:
        """Which streams have any known characteristic, shape (S,)."""
        return np.asarray(~np.isnan(np.stack(list(columns(self).values()))).all(axis=0))

    def take(self, streams: Ints) -> Characteristics:
        """Return those of some of the streams; -1 is a stream without known characteristics."""
        return Characteristics(**{name: take(column, streams, np.nan) for name, column in columns(self).items()})

    def spread(self, index: Ints, streams: int) -> Characteristics:
        """Return those of ``streams`` streams: these at ``index``, unknown for the others."""
        position = np.full(streams, -1, dtype=np.intp)
        position[index] = np.arange(len(index))
        return self.take(position)

    def where(self, mask: Bools, other: Characteristics) -> Characteristics:
        """Return these if ``mask``, shape (S,), and the others elsewhere."""
        mine, theirs = columns(self), columns(other)
        return Characteristics(**{name: np.where(mask, mine[name], theirs[name]) for name in mine})


def columns(table: Characteristics) -> dict[str, Floats]:
    """Return the columns by name."""
    return {field.name: getattr(table, field.name) for field in fields(Characteristics)}


def take(values: Floats, streams: Ints, new: float) -> Floats:
    """Return the columns of some streams, shape (..., len(streams)), of values of shape (..., S).

    Args:
        values: One column per stream.
        streams: Indices; -1 for a new stream.
        new: Value of a new stream.
    """
    if not values.shape[-1]:
        return np.full((*values.shape[:-1], len(streams)), new)
    return np.where(streams >= 0, values[..., streams], new)


def unknown(streams: int) -> Characteristics:
    """Return characteristics that are all unknown."""
    return Characteristics(**{field.name: np.full(streams, np.nan) for field in fields(Characteristics)})


def tabulate(streams: Sequence[Metadata | None], joined: Floats) -> Characteristics:
    """Return the declared characteristics as columns.

    Args:
        streams: Metadata of each, None without.
        joined: Period in which each joined, shape (S,).
    """
    declared = [stream or Metadata() for stream in streams]

    def column(name: str) -> Floats:
        return np.array([np.nan if (v := getattr(m, name)) is None else v for m in declared], dtype=float)

    jumps = np.array([m.transition == "jump" for m in declared], dtype=bool)
    return Characteristics(
        low=column("minimum"),
        high=column("maximum"),
        average=column("average"),
        up=column("high_duration"),
        down=column("low_duration"),
        phase=column("phase"),
        ramp=np.where(jumps, 0.0, column("slope_duration")),
        ends=joined + column("lifetime"),
    )


def complete(table: Characteristics, observed: Floats) -> Characteristics:
    """Fill undeclared characteristics with averages over the other streams.

    Args:
        table: Declared characteristics.
        observed: Mean rate of each stream so far, shape (S,); NaN for streams never seen.
    """
    average = np.where(np.isnan(table.average), observed, table.average)
    fill = table.any_known | np.isnan(observed)
    average = np.where(np.isnan(average), _mean(average), average)
    low, high, up, down = (
        np.where(fill & np.isnan(column), _mean(column), column)
        for column in (table.low, table.high, table.up, table.down)
    )
    # an average of other streams must not contradict this stream's declarations
    low = np.where(np.isnan(table.low) & fill, np.fmin(low, np.fmin(average, table.high)), low)
    high = np.where(np.isnan(table.high) & fill, np.fmax(high, np.fmax(average, table.low)), high)
    ramp = np.where(np.isnan(table.ramp), 0.0, np.minimum(table.ramp, np.fmin(up, down)))
    return replace(table, low=low, high=high, average=average, up=up, down=down, ramp=ramp)


def _mean(column: Floats) -> float:
    values = column[np.isfinite(column)]
    return float(values.mean()) if len(values) else float("nan")


def cycle(table: Characteristics, now: float, periods: int) -> Floats:
    """Return the rates in periods now + 1 .. now + H of streams with a known phase, shape (H, S); NaN for the others.

    The rate of a period is the rate in its middle.
    """
    at = now + np.arange(1.0, periods + 1)[:, None] + 0.5
    inside = np.mod(at - table.phase, table.up + table.down)
    falling = inside >= table.up
    since_turn = np.where(falling, inside - table.up, inside)
    with np.errstate(divide="ignore", invalid="ignore"):
        done = np.where(table.ramp > 0, np.minimum(since_turn / table.ramp, 1.0), 1.0)
    rates = table.low + (table.high - table.low) * np.where(falling, 1 - done, done)
    return np.where(table.cyclic, rates, np.nan)


def chain(table: Characteristics, rate: Floats, periods: int) -> tuple[Floats, Floats]:
    """Return mean and variance of the rates of streams with levels and durations, shape (H, S) each.

    Args:
        table: Known characteristics.
        rate: Last rate of each stream, shape (S,); NaN for streams not seen yet.
        periods: H.
    """
    q, r = 1 / np.maximum(table.up, 1.0), 1 / np.maximum(table.down, 1.0)
    share = r / (q + r)
    high = np.where(np.isnan(rate), share, rate > (table.low + table.high) / 2)
    fading = (1 - q - r) ** np.arange(1, periods + 1)[:, None]
    p = np.clip(share + (high - share) * fading, 0.0, 1.0)  # rounding: after one high period a stream is surely low
    gap = table.high - table.low
    return table.low + gap * p, gap**2 * p * (1 - p)


def expect(table: Characteristics, now: float, rate: Floats, forecast: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the rates of all streams, shape (H, S) each, without noise.

    Args:
        table: Known characteristics.
        now: Number of the period that ended.
        rate: Rate of each stream in it, shape (S,); NaN for streams not seen yet.
        forecast: Expected rates without characteristics, shape (H, S).
    """
    periods = len(forecast)
    on_off, variance = chain(table, rate, periods)
    mean = np.where(table.cyclic, cycle(table, now, periods), np.where(table.two_level, on_off, forecast))
    variance = np.where(table.two_level & ~table.cyclic, variance, 0.0)
    gone = now + np.arange(1.0, periods + 1)[:, None] >= table.ends
    return np.where(gone, 0.0, mean), np.where(gone, 0.0, variance)
