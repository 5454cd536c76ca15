"""Counts as matrices: what each stream brought in each period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millrace.model.admission import LoadUnit, StreamCounts
from millrace.model.errors import MillraceError
from millrace.optimizers.arrays import Floats, Ints


@dataclass(frozen=True)
class ObservedPeriods:
    """New periods, one after another.

    Attributes:
        first: Number of the first period, counted from 1970-01-01 UTC.
        period_s: Length of a period, seconds.
        streams: Ids in alphabetical order, S of them: ties go to the first, however many periods come at once.
        rows: Rows that each brought in each period, shape (T, S), >= 0; NaN if it is not known.
        load: Load of each in each period, shape (T, S), >= 0: these rows themselves, or slot-milliseconds.
        waiting: Load that each was behind with at the end, shape (S,), >= 0; None if not measured.
        removed: Ids of streams that leave at once.
    """

    first: int
    period_s: int
    streams: tuple[str, ...]
    rows: Floats
    load: Floats
    waiting: Floats | None = None
    removed: tuple[str, ...] = ()


def first_period(counts: StreamCounts) -> int:
    """Return the number of the first counted period, from 1970-01-01 UTC on."""
    return round(counts.since.timestamp() / counts.period_s)


def new_periods(counts: StreamCounts, streams: Sequence[str], since: int) -> ObservedPeriods:
    """Return the new periods.

    Args:
        counts: The counted rows.
        streams: Ids of the known streams.
        since: Number of the first new period; earlier ones are left out, and their late rows are lost.

    Raises:
        MillraceError: If a number of rows is missing or negative, a stream comes twice, or a column does not fit. The
            rows of a fleet may be missing.
    """
    first = first_period(counts)
    period, index = np.array(counts.period, dtype=np.intp), np.array(counts.index, dtype=np.intp)
    rows = np.array(counts.rows, dtype=float)  # None becomes NaN
    load = rows if counts.unit is LoadUnit.ROWS else np.array(counts.slot_ms, dtype=float)
    _check(counts, period, index, rows, load)
    names = tuple(sorted({*streams, *counts.stream}))
    column = {name: i for i, name in enumerate(names)}
    columns = np.array([column[name] for name in counts.stream], dtype=np.intp)
    old = max(0, since - first)
    new = period >= since - first

    def matrix(of: Floats) -> Floats:
        cells = np.zeros((max(0, counts.periods - old), len(names)))
        np.add.at(cells, (period[new] - old, columns[index[new]]), of[new])
        return cells

    waiting = None if counts.waiting is None else np.array([counts.waiting.get(n, 0) for n in names], dtype=float)
    brought = matrix(rows)
    loads = brought if load is rows else matrix(load)
    return ObservedPeriods(max(first, since), counts.period_s, names, brought, loads, waiting, counts.removed)


def _check(counts: StreamCounts, period: Ints, index: Ints, rows: Floats, load: Floats) -> None:
    streams = len(counts.stream)
    if len(set(counts.stream)) < streams:
        raise MillraceError("streams.stream", streams, "each id once", "Sum the counts of each stream.")
    if not len(period) == len(index) == len(rows) == len(load):
        lengths = (len(period), len(index), len(rows), len(load))
        raise MillraceError("streams", lengths, "columns of equal length", "Measure the streams again.")
    for name, column, limit in (("period", period, counts.periods), ("index", index, streams)):
        wrong = np.flatnonzero((column < 0) | (column >= limit))
        if len(wrong):
            value = int(column[wrong[0]])
            raise MillraceError(f"streams.{name}", value, f"0 to {limit - 1}", "Measure the streams again.")
    for name, cells, told in (("rows", rows, counts.rows), ("slot_ms", load, counts.slot_ms)):
        known = np.isfinite(cells) | (counts.fleet & np.isnan(cells))  # a stream whose node has died is no error
        wrong = np.flatnonzero(~known | (cells < 0))
        if len(wrong):
            at, table = wrong[0], "telemetry/batches" if counts.fleet else "telemetry/streams"
            key, allowed = f"streams.{counts.stream[index[at]]}.{name}", f"a number of {name}, >= 0"
            remedy = f"Fix period {int(period[at])} of {table}, counted from {counts.since:%Y-%m-%d %H:%M:%S}."
            raise MillraceError(key, told[at], allowed, remedy)
