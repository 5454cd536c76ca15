"""Metadata of many streams as columns, completed by averages.

Reference: [DRFM] Section 2.4: what is not told has a default, the average over the existing streams. Deviation: a
phase and a lifetime have none, as the mean of other streams' phases says nothing; nor has a stream of which nothing is
told and whose rates are seen, as those say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from optimizers.drfm.metadata.stream import Metadata
from optimizers.drfm.problem import Bools, Floats, Ints


@dataclass(frozen=True)
class Table:
    """Characteristics by stream, each of shape (S,); NaN for what is not known.

    Attributes:
        low: Lowest rate, >= 0.
        high: Highest rate.
        average: Mean rate.
        up: Periods from the begin of a rise to that of the fall, > 0.
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
        """Which streams have levels and durations: what they will do is known but for the phase, shape (S,)."""
        found: Bools = np.isfinite(self.low + self.high + self.up + self.down)
        return found

    @property
    def cyclic(self) -> Bools:
        """Which streams have a phase too, shape (S,)."""
        return self.two_level & np.isfinite(self.phase)

    @property
    def told(self) -> Bools:
        """Of which streams anything at all is known, shape (S,)."""
        found: Bools = ~np.isnan(np.stack([getattr(self, f.name) for f in fields(self)])).all(axis=0)
        return found

    def take(self, streams: Ints) -> Table:
        """Return some of the streams; -1 is one of which nothing is known."""
        known = streams >= 0
        taken = {}
        for field in fields(self):
            column = getattr(self, field.name)
            taken[field.name] = np.where(known, column[streams], np.nan) if len(column) else np.full(len(known), np.nan)
        return Table(**taken)

    def choose(self, other: Table, mask: Bools) -> Table:
        """Return this table where ``mask``, shape (S,), and the other elsewhere."""
        return Table(**{f.name: np.where(mask, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})


def unknown(streams: int) -> Table:
    """Return a table that knows nothing."""
    return Table(**{f.name: np.full(streams, np.nan) for f in fields(Table)})


def tabulate(streams: Sequence[Metadata | None], joined: Floats) -> Table:
    """Return the columns of what is told.

    Args:
        streams: Metadata of each, None without.
        joined: Period in which each joined, shape (S,).
    """
    given = [stream or Metadata() for stream in streams]

    def column(name: str) -> Floats:
        return np.array([np.nan if (v := getattr(m, name)) is None else v for m in given], dtype=float)

    jumps = np.array([m.transition == "jump" for m in given], dtype=bool)
    return Table(
        low=column("minimum"),
        high=column("maximum"),
        average=column("average"),
        up=column("high_duration"),
        down=column("low_duration"),
        phase=column("phase"),
        ramp=np.where(jumps, 0.0, column("slope_duration")),
        ends=joined + column("lifetime"),
    )


def told_periods(streams: Sequence[Metadata | None]) -> Floats:
    """Return the period that is told of each stream, shape (S,); NaN without."""
    return np.array([np.nan if m is None or m.period is None else m.period for m in streams], dtype=float)


def complete(table: Table, observed: Floats) -> Table:
    """Fill what is not told of streams by averages over the others.

    Args:
        table: What is told.
        observed: Mean rate of each stream so far, shape (S,); NaN for one that was never seen.
    """
    average = np.where(np.isnan(table.average), observed, table.average)
    fill = table.told | np.isnan(observed)
    average = np.where(np.isnan(average), _mean(average), average)
    low, high, up, down = (
        np.where(fill & np.isnan(column), _mean(column), column)
        for column in (table.low, table.high, table.up, table.down)
    )
    # an average of other streams must not contradict what this one is told to do
    low = np.where(np.isnan(table.low) & fill, np.fmin(low, np.fmin(average, table.high)), low)
    high = np.where(np.isnan(table.high) & fill, np.fmax(high, np.fmax(average, table.low)), high)
    ramp = np.where(np.isnan(table.ramp), 0.0, np.minimum(table.ramp, np.fmin(up, down)))
    return replace(table, low=low, high=high, average=average, up=up, down=down, ramp=ramp)


def _mean(column: Floats) -> float:
    known = column[np.isfinite(column)]
    return float(known.mean()) if len(known) else float("nan")
