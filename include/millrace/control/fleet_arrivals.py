"""Rows that arrived at the streams of a fleet.

Arrived, not read: after a start or a move, a stream reads what has piled up. On one driver, the change of the source's
end from one report to the next shows what arrived. Each driver starts its own count, so from one driver to the next,
the rows read and the change of the backlog show it. A source that does not count its rows shows only what is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.control.fleet_rows import FleetRows, Floats, Ints, ranges

LEAST_COVERED = 0.5
"""Least share of a period that reports must cover, so that the rest is taken to be like it."""


@dataclass(frozen=True)
class Arrivals:
    """What arrived from one report to the next; each array has the shape (A,).

    Attributes:
        stream: Index of the stream.
        time: When it was reported, seconds since 1970-01-01 UTC.
        before: When the stream reported before that; the same as ``time`` if that is not comparable.
        rows: Rows that arrived in between, >= 0.
    """

    stream: Ints
    time: Floats
    before: Floats
    rows: Floats

    def by_period(self, period_s: int) -> tuple[Ints, Ints, Floats]:
        """Return stream, period and rows of each period that is known, by periods since 1970-01-01 UTC.

        Rows arrived evenly from one report to the next. If they were counted when they are reported, the rates of
        batches that take a third of a period would seem to change by half. What comes after the last report, as well
        as before the first one, is like the rest of that period, if this is at least :data:`LEAST_COVERED`.

        Args:
            period_s: Length of a period, seconds.
        """
        begin, end = self.before / period_s, self.time / period_s
        first = np.floor(begin).astype(np.intp)
        part, period = ranges(first, np.floor(end).astype(np.intp) - first + 1)
        covers = np.minimum(end[part], period + 1) - np.maximum(begin[part], period)
        rows = covers * (self.rows / np.maximum(end - begin, np.finfo(float).eps))[part]
        since = int(period.min(initial=0))
        periods = int(period.max(initial=since)) - since + 1
        cell, at = np.unique(self.stream[part] * periods + period - since, return_inverse=True)
        covered, came = np.bincount(at, weights=covers), np.bincount(at, weights=rows)
        known = covered >= LEAST_COVERED
        return cell[known] // periods, cell[known] % periods + since, came[known] / covered[known]


def arrivals(rows: FleetRows) -> Arrivals:
    """Return what arrived from each report to the next."""
    driver = rows.stream * (int(rows.run.max()) + 1) + rows.run
    known = np.isfinite(rows.source_end)
    counts = (np.bincount(driver, weights=known) > 0)[driver]
    told = known | ~counts
    rows, counts = rows.take(told), counts[told]
    former = np.maximum(np.arange(len(rows.time)) - 1, 0)
    piled_up = rows.rows_in + rows.backlog - rows.backlog[former]
    moved = ~rows.follows & (rows.stream == rows.stream[former]) & (former < np.arange(len(former)))
    comparable = rows.follows | (moved & np.isfinite(piled_up))
    arrived = np.where(counts, rows.source_end - rows.source_end[former], rows.rows_in)
    arrived = np.where(rows.follows, arrived, piled_up)
    before = np.where(comparable, rows.time[former], rows.time)
    return Arrivals(rows.stream, rows.time, before, np.where(comparable, np.maximum(arrived, 0.0), 0.0))
