"""One app's recent telemetry as the cycle reads it: ordered, one query, idle markers told from batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from include.control.health import is_idle_marker, order, sound, span
from include.lake.recent import RowQuery, read_recent
from include.lake.records import batch_from_row
from include.lake.store import Lake
from include.model.telemetry import BatchMetrics

TABLE = "telemetry/batches"

HISTORY = timedelta(minutes=30)
"""How far back a look reads. Long enough for tens of batches at the present level and for the levels just left, short
enough that the cost of a row is still the same; older levels are remembered as observations."""

REQUIRED = ("query", "generation", "epoch", "batch_id", "slots", "rows_in")

MAX_ROWS = 3000
"""Rows that a look reads at most, for a bounded time: half an hour of batches of 0.6 s."""


@dataclass(frozen=True)
class History:
    """Rows of one query in the order they ran, and the period inside them.

    Attributes:
        rows: Batches and idle markers, in the order they ran, whatever the clock did.
        since: Start of the period (UTC).
        until: End of the period (UTC): the time of the newest row.
    """

    rows: tuple[BatchMetrics, ...]
    since: datetime
    until: datetime

    @property
    def newest(self) -> BatchMetrics:
        """The last row."""
        return self.rows[-1]

    @cached_property
    def batches(self) -> list[BatchMetrics]:
        """Committed batches of the whole history, each once."""
        return sound(self.rows)

    @property
    def period_s(self) -> float:
        """Length of the period in seconds."""
        return (self.until - self.since).total_seconds()

    def in_period(self, batches: Sequence[BatchMetrics]) -> list[BatchMetrics]:
        """Return those rows that ended within the period."""
        return [b for b in batches if self.since < b.time <= self.until]

    def present(self, batches: Sequence[BatchMetrics]) -> list[BatchMetrics]:
        """Return those rows that the running generation wrote."""
        return [b for b in batches if b.generation == self.newest.generation]

    def share_in_period(self, batch: BatchMetrics) -> float:
        """Return the share of a batch's duration that lies in the period, 0..1."""
        begin, end = span(batch)
        inside = (min(end, self.until) - max(begin, self.since)).total_seconds()
        return max(0.0, inside) / batch.duration_s

    def busy_s(self) -> float:
        """Return the time of the period spent inside batches, seconds."""
        covered, total = self.since, 0.0
        for begin, end in sorted(span(b) for b in self.batches):
            begin, end = max(begin, covered), min(end, self.until)
            if end > begin:
                total += (end - begin).total_seconds()
                covered = end
        return total


def read(lake: Lake, pipeline: str, app: str, now: datetime) -> tuple[BatchMetrics, ...]:
    """Return an app's rows of ``telemetry/batches`` of the last :data:`HISTORY`, all its queries, in any order.

    Rows that lack what every row must have were told by the quality gate once; here they must not block every look
    until they are old.
    """
    oldest = now - HISTORY
    found = read_recent(lake, RowQuery(TABLE, pipeline, MAX_ROWS, not_before=oldest)).rows
    if not {"app", "time", *REQUIRED} <= set(found.column_names):
        return ()
    rows = (row for row in found.to_pylist() if row["app"] == app and row["time"] and oldest <= row["time"] <= now)
    return tuple(batch_from_row(row) for row in rows if all(row[column] is not None for column in REQUIRED))


def main_query(rows: Sequence[BatchMetrics], since: datetime) -> tuple[BatchMetrics, ...]:
    """Return the rows of the query that keeps the app busiest since a time, in the order they ran.

    Queries of one app run side by side and would each look half as able as they are; the busiest one sets the limit.
    """
    time_spent: dict[str, tuple[float, float]] = {}
    for row in rows:
        recent, whole = time_spent.get(row.query, (0.0, 0.0))
        spent = max(row.duration_s, 0.0)
        time_spent[row.query] = (recent + (spent if row.time > since else 0.0), whole + spent)
    query = max(time_spent, key=lambda q: (time_spent[q], q))
    return tuple(sorted((r for r in rows if r.query == query), key=_running_order))


def _running_order(row: BatchMetrics) -> tuple[object, ...]:
    generation, epoch, batch_id, time = order(row)
    return generation, epoch, batch_id, is_idle_marker(row), time
