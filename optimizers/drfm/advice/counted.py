"""From counted rows to a matrix: what each stream brought in each period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from include.model.admission import StreamCounts
from include.model.errors import MillraceError
from optimizers.drfm.problem import Floats, Ints


@dataclass(frozen=True)
class Counted:
    """Periods that are new, one after another.

    Attributes:
        first: Number of the first period: those since 1970-01-01 UTC are counted.
        streams: Ids in alphabetical order, S of them: ties go to the first, however many periods come at once.
        rows: Rows that each brought in each period, shape (T, S), >= 0.
    """

    first: int
    streams: tuple[str, ...]
    rows: Floats


def number(counts: StreamCounts) -> int:
    """Return the number of the first period."""
    return round(counts.since.timestamp() / counts.period_s)


def counted(counts: StreamCounts, known: Sequence[str], since: int) -> Counted:
    """Return the periods that were not taken in before.

    Args:
        counts: What was measured.
        known: Ids of streams that are known already.
        since: Number of the first period that is new; earlier ones are left out, late rows of theirs are lost.

    Raises:
        MillraceError: If a number of rows is missing or negative, a stream comes twice, or a column does not fit.
    """
    stream, periods, first = counts.stream, counts.periods, number(counts)
    period, index = np.array(counts.period, dtype=np.intp), np.array(counts.index, dtype=np.intp)
    rows = np.array([np.nan if r is None else r for r in counts.rows], dtype=np.float64)
    _check(counts, period, index, rows)
    names = tuple(sorted({*known, *stream}))
    at = {name: i for i, name in enumerate(names)}
    place = np.array([at[name] for name in stream], dtype=np.intp)
    found = np.zeros((max(0, periods - max(0, since - first)), len(names)))
    fresh = period >= since - first
    moved = period[fresh] - max(0, since - first)
    np.add.at(found, (moved, place[index[fresh]]), rows[fresh])
    return Counted(max(first, since), names, found)


def _check(counts: StreamCounts, period: Ints, index: Ints, rows: Floats) -> None:
    streams = len(counts.stream)
    if len(set(counts.stream)) < streams:
        raise MillraceError("streams.stream", streams, "each id once", "Add up what belongs to one stream.")
    if not len(period) == len(index) == len(rows):
        found = (len(period), len(index), len(rows))
        raise MillraceError("streams", found, "columns of equal length", "Measure the streams anew.")
    for name, column, limit in (("period", period, counts.periods), ("index", index, streams)):
        wrong = np.flatnonzero((column < 0) | (column >= limit))
        if len(wrong):
            value = int(column[wrong[0]])
            raise MillraceError(f"streams.{name}", value, f"0 to {limit - 1}", "Measure the streams anew.")
    wrong = np.flatnonzero(~(np.isfinite(rows) & (rows >= 0)))
    if len(wrong):
        at = wrong[0]
        value = counts.rows[at]
        remedy = f"Mend period {int(period[at])} of telemetry/streams, counted from {counts.since:%Y-%m-%d %H:%M:%S}."
        raise MillraceError(f"streams.{counts.stream[index[at]]}.rows", value, "a number of rows, >= 0", remedy)
