"""An app's recent micro-batches: which rows count, in which order they ran, and which show its capacity.

A batch counts for capacity if only its own rows and slots determined its duration. The others are contaminated, not
wrong: they still count for rates and backlog.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from statistics import median
from typing import Any

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.pace import TABLE, at_least, pace_s, read_pace_s
from millrace.lake.row_codec import batch_from_row
from millrace.lake.store import Lake
from millrace.model.decision import Reconfiguration
from millrace.model.telemetry import RUNNING, BatchMetrics

REQUIRED = ("query", "generation", "epoch", "batch_id", "slots", "rows_in")

HISTORY = timedelta(minutes=30)
"""How far back an evaluation reads: long enough for tens of batches at the present level and the levels just left,
short enough that the cost of a row is still the same. Older levels are remembered as observations."""

HISTORY_BATCHES = 12
"""Fewest batches that an evaluation reads, however far apart they are."""

MAX_ROWS = 3000
"""Most rows that an evaluation reads, to limit its time: half an hour of batches of 0.6 s."""

CLOCK_STEP = timedelta(seconds=60)
"""How much earlier a row may be than one committed before it; beyond that, the clock was set back in between."""

DRIVER_CLOCK_STEP = timedelta(seconds=2)
"""The same for a driver's next batch; all its rows have one clock."""

FOREIGN_CPU_MARGIN = 0.25
"""Share of the host's processors above the usual that makes a batch contaminated.

It is relative to the median of the history. A steady background load (a scheduler next to the app) slows all batches
alike and is part of the app's real capacity; dropping those batches would drop everything. A quarter is half a core of
the smallest host. A Spark driver that starts next to the app takes one to two cores.
"""

Span = tuple[datetime, datetime]


def sound(batches: Iterable[BatchMetrics]) -> list[BatchMetrics]:
    """Return committed batches in the order they ran, each once, without impossible ones.

    Args:
        batches: Rows of ``telemetry/batches`` in any order. A batch that ran again after a crash has several rows:
            the latest of the highest generation counts. Markers (see :func:`is_marker`) are left out.
    """
    latest: dict[tuple[str, str, int, int], BatchMetrics] = {}
    for batch in sorted(batches, key=lambda b: (b.generation, b.time)):
        if is_marker(batch) or batch.rows_in < 0 or batch.slots < 1 or not _positive(batch.duration_s):
            continue
        latest[(batch.app, batch.query, batch.epoch, batch.batch_id)] = batch
    return sorted(latest.values(), key=order)


def order(batch: BatchMetrics) -> tuple[int, int, int, datetime]:
    """Return the sort key for the order in which batches really ran, whatever the clock did."""
    return batch.generation, batch.epoch, batch.batch_id, batch.time


def is_marker(batch: BatchMetrics) -> bool:
    """Return whether a row reports the source's end when no batch ended (it has no duration and no rows)."""
    return batch.rows_in == 0 and not batch.durations_ms.get("triggerExecution")


def running_s(marker: BatchMetrics) -> float:
    """Return how long a batch had been running at a marker, seconds; 0 if none was."""
    return marker.durations_ms.get(RUNNING, 0) / 1000.0 if is_marker(marker) else 0.0


def is_idle_marker(batch: BatchMetrics) -> bool:
    """Return whether a row reports the source's end while no batch ran."""
    return is_marker(batch) and not running_s(batch)


def is_silent(row: BatchMetrics) -> bool:
    """Return whether a row is a marker that reports nothing about the source: a run's first batch is still running."""
    return is_marker(row) and row.arrival_basis is None and row.source_end is None


def healthy(
    batches: Sequence[BatchMetrics], changes: Sequence[Reconfiguration] = (), open_at_most_s: float = math.inf
) -> list[BatchMetrics]:
    """Return the batches that count for capacity, in the order they ran.

    These are dropped: the first batch of each generation and on each number of slots (Python workers and code are cold,
    state is loaded), batches that overlap a reconfiguration or another generation's batch, and those with much foreign
    CPU.

    Args:
        batches: One app's rows of ``telemetry/batches``.
        changes: Its Reconfigurations in that time, in any order.
        open_at_most_s: An open Reconfiguration older than this is dead, not running, seconds.
    """
    rows = sound(batches)
    cold = _cold(rows)
    spans = disturbances(rows, changes, open_at_most_s)
    others = _other_generations(rows)
    limit = foreign_cpu_limit(rows)
    return [
        b
        for b in rows
        if id(b) not in cold
        and not any(overlap(span(b), s) for s in spans)
        and not any(g != b.generation and overlap(span(b), s) for g, s in others)
        and (b.host_cpu_other is None or not b.host_cpu_other > limit)
    ]


def since_moves(batches: Sequence[BatchMetrics], moved: datetime | None, slots: int) -> list[BatchMetrics]:
    """Return the batches without those that ran on these slots under an earlier placement of state partitions.

    Args:
        batches: Batches in the order they ran.
        moved: When partitions last moved while the slots stayed (UTC); None if they did not.
        slots: Those slots.
    """
    return [b for b in batches if moved is None or b.slots != slots or span(b)[0] >= moved]


def _cold(rows: Sequence[BatchMetrics]) -> set[int]:
    """Return the ids of the objects whose batch ran first on its slots."""
    ran_on: dict[str, tuple[int, int]] = {}
    cold = set()
    for row in rows:
        if ran_on.get(row.query) != (row.generation, row.slots):
            cold.add(id(row))
        ran_on[row.query] = (row.generation, row.slots)
    return cold


def foreign_cpu_limit(batches: Sequence[BatchMetrics]) -> float:
    """Return the share of the host's processors used by others above which a batch is contaminated."""
    known = [b.host_cpu_other for b in batches if b.host_cpu_other is not None and math.isfinite(b.host_cpu_other)]
    return median(known) + FOREIGN_CPU_MARGIN if known else math.inf


def disturbances(
    batches: Sequence[BatchMetrics], changes: Sequence[Reconfiguration], open_at_most_s: float
) -> list[Span]:
    """Return the spans of reconfigurations.

    An open reconfiguration ends with the first batch that its generation committed, and after ``open_at_most_s`` at the
    latest: a row that a killed reconciler left open must not hide every later batch.
    """
    spans = []
    for change in changes:
        if change.ended is not None:
            spans.append((change.started, change.ended))
            continue
        ends = [b.time for b in batches if change.generation is not None and b.generation >= change.generation]
        ends.append(_later(change.started, open_at_most_s))
        spans.append((change.started, min(ends)))
    return spans


def span(batch: BatchMetrics) -> Span:
    """Return when a batch ran."""
    return batch.time - timedelta(seconds=batch.duration_s), batch.time


def overlap(a: Span, b: Span) -> bool:
    """Return whether two spans share more than a moment."""
    return a[0] < b[1] and b[0] < a[1]


def _other_generations(rows: Sequence[BatchMetrics]) -> list[tuple[int, Span]]:
    """Return the generation and span of each batch whose generation overlaps another one."""
    whole: dict[int, Span] = {}
    for b in rows:
        begin, end = span(b)
        known = whole.get(b.generation, (begin, end))
        whole[b.generation] = min(begin, known[0]), max(end, known[1])
    busy = {g for g, s in whole.items() if any(h != g and overlap(s, t) for h, t in whole.items())}
    return [(b.generation, span(b)) for b in rows if b.generation in busy]


def _later(time: datetime, seconds: float) -> datetime:
    return time + timedelta(seconds=seconds) if seconds < 1e9 else datetime.max.replace(tzinfo=time.tzinfo)


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


@dataclass(frozen=True)
class History:
    """Rows of one query in the order they ran, and the period inside them.

    Attributes:
        rows: Batches and markers, in the order they ran, whatever the clock did.
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

    @property
    def trigger_s(self) -> float:
        """Interval of the query's trigger, seconds; 0 if batches follow each other as fast as possible."""
        return max(0.0, self.newest.trigger_s or 0.0)

    @cached_property
    def batches(self) -> list[BatchMetrics]:
        """Committed batches of the whole history, each once."""
        return sound(self.rows)

    @property
    def period_s(self) -> float:
        """Length of the period in seconds."""
        return (self.until - self.since).total_seconds()

    def in_period(self, batches: Sequence[BatchMetrics]) -> list[BatchMetrics]:
        """Return the rows that ended within the period."""
        return [b for b in batches if self.since < b.time <= self.until]

    def present(self, batches: Sequence[BatchMetrics]) -> list[BatchMetrics]:
        """Return the rows that the running generation wrote."""
        return [b for b in batches if b.generation == self.newest.generation]

    def share_in_period(self, batch: BatchMetrics) -> float:
        """Return the share of a batch's duration that is within the period, 0..1."""
        begin, end = span(batch)
        inside = (min(end, self.until) - max(begin, self.since)).total_seconds()
        return max(0.0, inside) / batch.duration_s

    def busy_s(self) -> float:
        """Return the time of the period spent in batches, the running one included, seconds."""
        covered, total = self.since, 0.0
        ran_s = running_s(self.newest)
        running = [(self.newest.time - timedelta(seconds=ran_s), self.newest.time)] if ran_s else []
        for begin, end in sorted([*(span(b) for b in self.batches), *running]):
            begin, end = max(begin, covered), min(end, self.until)
            if end > begin:
                total += (end - begin).total_seconds()
                covered = end
        return total


def read_batches(lake: Lake, pipeline: str, app: str, now: datetime) -> tuple[BatchMetrics, ...]:
    """Return an app's rows of ``telemetry/batches`` of the last :data:`HISTORY`, all its queries, in any order.

    If batches are far apart, the time of :data:`HISTORY_BATCHES` batches is read instead.

    Rows that lack a required value are left out: the quality gate named them once, and they must not block every
    evaluation until they are old.
    """
    rows = _own_rows(lake, pipeline, app, now - HISTORY)
    span = at_least(HISTORY, HISTORY_BATCHES, pace_s(rows) if rows else read_pace_s(lake, pipeline))
    if span > HISTORY:
        rows = _own_rows(lake, pipeline, app, now - span)
    recent = (row for row in _since_clock_was_set(rows) if now - span <= row["time"] <= now)
    return tuple(batch_from_row(row) for row in recent if all(row[column] is not None for column in REQUIRED))


def _own_rows(lake: Lake, pipeline: str, app: str, oldest: datetime) -> list[dict[str, Any]]:
    newest = read_recent(lake, RowQuery(TABLE, pipeline, MAX_ROWS, not_before=oldest, equal={"app": app})).rows
    if not {"time", *REQUIRED} <= set(newest.column_names):
        return []
    return [row for row in newest.to_pylist() if row["time"]]


def _since_clock_was_set(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return each query's rows since the clock was last set back; before that, its times meant something else.

    Args:
        rows: Rows in the order they were committed.
    """
    begin: dict[str, int] = {}
    newest: dict[str, datetime] = {}
    last: dict[tuple[str, int], tuple[int, datetime]] = {}
    for index, row in enumerate(rows):
        query, time, number, driver = row["query"], row["time"], row["batch_id"] or 0, (row["query"], row["generation"])
        before, ended = last.get(driver, (number, time))
        early = time < newest.get(query, time) - CLOCK_STEP
        if early or (number > before and time < ended - DRIVER_CLOCK_STEP):
            begin[query], newest[query], ended = index, time, time
        newest[query], last[driver] = max(newest.get(query, time), time), (max(number, before), max(ended, time))
    return [row for index, row in enumerate(rows) if index >= begin.get(row["query"], 0)]


def order_in_app(row: BatchMetrics) -> tuple[int, datetime]:
    """Return the sort key for rows of different queries of an app."""
    return row.generation, row.time


def main_query(rows: Sequence[BatchMetrics], since: datetime) -> tuple[BatchMetrics, ...]:
    """Return the rows of the query that has kept the app busiest since a time, in the order they ran."""
    time_spent: dict[str, tuple[float, float]] = {}
    for row in rows:
        recent, whole = time_spent.get(row.query, (0.0, 0.0))
        spent = max(row.duration_s, 0.0)
        time_spent[row.query] = (recent + (spent if row.time > since else 0.0), whole + spent)
    query = max(time_spent, key=lambda q: (time_spent[q], q))
    return tuple(sorted((r for r in rows if r.query == query), key=_running_order))


def _running_order(row: BatchMetrics) -> tuple[object, ...]:
    generation, epoch, batch_id, time = order(row)
    return generation, epoch, batch_id, is_marker(row), time
