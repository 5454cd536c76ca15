"""Rows that arrived at the streams of a fleet.

Arrived, not read: after a start or a move, a stream reads what has piled up. On one driver, the change of the source's
end from one report to the next shows what arrived. Each driver starts its own count, so from one driver to the next,
the rows read and the change of the backlog show it. A source that does not count its rows shows only what is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.control.fleet_rows import FleetRows, Floats, Ints, spread

LEAST_COVERED = 0.5
"""Least share of a period that reports must cover to stand for the rest of it."""


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
        batches that take a third of a period would seem to change by half. A period that reports cover in part, but at
        least by :data:`LEAST_COVERED`, has the same rate in all of it.

        Args:
            period_s: Length of a period, seconds.
        """
        if not len(self.stream):
            return self.stream, self.stream, self.rows
        since = int(self.before.min() // period_s)
        periods = int(self.time.max() // period_s) - since + 1
        begin, end = self.before / period_s - since, self.time / period_s - since
        part, period, share = spread(begin, end, periods)
        rows = share * (self.rows / np.maximum(end - begin, np.finfo(float).eps))[part]
        cell, at = np.unique(self.stream[part] * periods + period, return_inverse=True)
        cover, came = np.bincount(at, weights=share), np.bincount(at, weights=rows)
        enough = cover >= LEAST_COVERED
        return cell[enough] // periods, cell[enough] % periods + since, came[enough] / cover[enough]


def arrivals(rows: FleetRows) -> Arrivals:
    """Return what arrived from each report to the next."""
    driver = rows.stream * (int(rows.run.max(initial=0)) + 1) + rows.run
    known = np.isfinite(rows.source_end)
    counts = (np.bincount(driver, weights=known) > 0)[driver]
    told = known | ~counts
    rows, counts = rows.take(told), counts[told]
    former = np.maximum(np.arange(len(rows.time)) - 1, 0)
    on_one_driver = np.where(counts, rows.source_end - rows.source_end[former], rows.rows_in)
    across_drivers = rows.rows_in + rows.backlog - rows.backlog[former]
    came = np.where(rows.follows, on_one_driver, across_drivers)
    comparable = rows.follows | (rows.continues & np.isfinite(across_drivers))
    before = np.where(comparable, rows.time[former], rows.time)
    return Arrivals(rows.stream, rows.time, before, np.where(comparable, np.maximum(came, 0.0), 0.0))
