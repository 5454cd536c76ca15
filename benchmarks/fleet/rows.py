"""What became of a stream's rows: when each was written to its sink, and which are missing or there more than once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.graph.lag import Steps
from benchmarks.graph.workloads import Difference
from millrace.lake.source_tables import arrivals, is_table, query


@dataclass(frozen=True)
class Copy:
    """A stream's table and the table that it is copied to.

    Attributes:
        source: Folder of the stream's table.
        sink: Folder of the other.
    """

    source: Path
    sink: Path

    def steps(self) -> tuple[Steps, Steps]:
        """Return how the rows of source and sink grew, by the times of their commits."""
        return _steps(self.source), _steps(self.sink)

    def missing(self) -> int:
        """Return how many more rows the source has: a quick test, right if no row is doubled."""
        return _rows(self.source) - _rows(self.sink)

    def difference(self) -> Difference:
        """Compare the sink with the source, whose rows are numbered from 0."""
        sql = "select count(*) as n, count(distinct id) as ids from t"
        found = query(sql, t=self.sink).to_pylist()[0] if is_table(self.sink) else {"n": 0, "ids": 0}
        return Difference(_rows(self.source) - found["ids"], found["n"] - found["ids"])


def differences(copies: Iterable[Copy]) -> Difference:
    """Return the rows that were lost and doubled, over all streams."""
    found = [copy.difference() for copy in copies]
    return Difference(sum(d.lost for d in found), sum(d.doubled for d in found))


def latency_s(copies: Iterable[tuple[Steps, Steps]], share: float, end: float) -> float:
    """Return a quantile, by rows, of the time from the commit of a row to the commit that wrote it to the sink.

    Args:
        copies: How the rows of each source and sink grew. Rows keep their order, so the sink has a row when it has as
            many rows as the source had with it.
        share: The quantile, (0, 1].
        end: Until when rows that were never written have waited, seconds since 1970.
    """
    waited, rows = [], []
    for source, sink in copies:
        waited.append(np.minimum(sink.reached(source.rows), end) - source.at_s)
        rows.append(np.diff(source.rows, prepend=0.0))
    times, weights = np.concatenate(waited), np.concatenate(rows)
    order = np.argsort(times)
    part = np.cumsum(weights[order]) / weights.sum()
    return float(times[order][np.searchsorted(part, share - 1e-9)])


def done_s(copies: Sequence[tuple[Steps, Steps]]) -> float:
    """Return when the last row was written, seconds since 1970."""
    return max(float(sink.at_s[-1]) for _, sink in copies if sink.at_s.size)


def _steps(table: Path) -> Steps:
    if not is_table(table):
        return Steps(np.zeros(0), np.zeros(0))
    found = arrivals(table)
    at = np.array([time.timestamp() for time in found["time"].to_pylist()], dtype=float)
    return Steps(at, np.cumsum(found["rows"].to_numpy().astype(float)))


def _rows(table: Path) -> int:
    return int(sum(arrivals(table)["rows"].to_pylist())) if is_table(table) else 0
