"""Counted rows as a matrix: the rows that each stream brought in each period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millrace.model.admission import StreamCounts
from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.problem import Floats, Ints


@dataclass(frozen=True)
class ObservedPeriods:
    """New periods, one after another.

    Attributes:
        first: Number of the first period, counted from 1970-01-01 UTC.
        streams: Ids in alphabetical order, S of them: ties go to the first, however many periods come at once.
        rows: Rows that each brought in each period, shape (T, S), >= 0.
    """

    first: int
    streams: tuple[str, ...]
    rows: Floats


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
        MillraceError: If a number of rows is missing or negative, a stream comes twice, or a column does not fit.
    """
    first = first_period(counts)
    period, index = np.array(counts.period, dtype=np.intp), np.array(counts.index, dtype=np.intp)
    rows = np.array([np.nan if r is None else r for r in counts.rows], dtype=np.float64)
    _check(counts, period, index, rows)
    names = tuple(sorted({*streams, *counts.stream}))
    column = {name: i for i, name in enumerate(names)}
    columns = np.array([column[name] for name in counts.stream], dtype=np.intp)
    old = max(0, since - first)
    matrix = np.zeros((max(0, counts.periods - old), len(names)))
    new = period >= since - first
    np.add.at(matrix, (period[new] - old, columns[index[new]]), rows[new])
    return ObservedPeriods(max(first, since), names, matrix)


def _check(counts: StreamCounts, period: Ints, index: Ints, rows: Floats) -> None:
    streams = len(counts.stream)
    if len(set(counts.stream)) < streams:
        raise MillraceError("streams.stream", streams, "each id once", "Sum the counts of each stream.")
    if not len(period) == len(index) == len(rows):
        lengths = (len(period), len(index), len(rows))
        raise MillraceError("streams", lengths, "columns of equal length", "Measure the streams again.")
    for name, column, limit in (("period", period, counts.periods), ("index", index, streams)):
        wrong = np.flatnonzero((column < 0) | (column >= limit))
        if len(wrong):
            value = int(column[wrong[0]])
            raise MillraceError(f"streams.{name}", value, f"0 to {limit - 1}", "Measure the streams again.")
    wrong = np.flatnonzero(~(np.isfinite(rows) & (rows >= 0)))
    if len(wrong):
        at = wrong[0]
        value = counts.rows[at]
        remedy = f"Fix period {int(period[at])} of telemetry/streams, counted from {counts.since:%Y-%m-%d %H:%M:%S}."
        raise MillraceError(f"streams.{counts.stream[index[at]]}.rows", value, "a number of rows, >= 0", remedy)
