"""Rows that arrived at the streams of a fleet.

Arrived, not read: after a start or a move, a stream reads what has piled up. The change of the source's end from one
row to the next shows it, as far as the same driver wrote both, because each driver starts its own count. A source that
does not count its rows shows only what is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.control.fleet_rows import FleetRows, Floats, Ints, ranges


@dataclass(frozen=True)
class Arrivals:
    """What arrived from one report to the next; each array has the shape (A,).

    Attributes:
        stream: Index of the stream.
        time: When it was reported, seconds since 1970-01-01 UTC.
        before: When the stream reported before that; the same as ``time`` for the first report to a driver.
        rows: Rows that arrived in between, >= 0.
    """

    stream: Ints
    time: Floats
    before: Floats
    rows: Floats

    def by_period(self, period_s: int) -> tuple[Ints, Ints, Floats]:
        """Return stream, period and rows of each part, by periods since 1970-01-01 UTC.

        If a query did not report for whole periods, its rows arrived evenly in them.

        Args:
            period_s: Length of a period, seconds.
        """
        last, before = (np.floor(of / period_s).astype(np.intp) for of in (self.time, self.before))
        first = np.minimum(before + 1, last)
        many = last - first + 1
        part, period = ranges(first, many)
        return self.stream[part], period, (self.rows / many)[part]


def arrivals(rows: FleetRows) -> Arrivals:
    """Return what arrived from each report to the next."""
    driver = rows.stream * (int(rows.run.max()) + 1) + rows.run
    known = np.isfinite(rows.source_end)
    counts = (np.bincount(driver, weights=known) > 0)[driver]
    told = known | ~counts
    rows, counts = rows.take(told), counts[told]
    former = np.maximum(np.arange(len(rows.time)) - 1, 0)
    arrived = np.where(counts, np.maximum(rows.source_end - rows.source_end[former], 0.0), rows.rows_in)
    before = np.where(rows.follows, rows.time[former], rows.time)
    return Arrivals(rows.stream, rows.time, before, np.where(rows.follows, arrived, 0.0))
