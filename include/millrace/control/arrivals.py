"""Estimate arrivals at sources that do not count rows, from the batches that read them.

Symbols:
    t_i  start of batch i;  R_i  rows read by all batches up to and including i;  B_i  rows estimated to wait at its end

A batch without a limit (``taken``) reads everything that arrived before it started: exactly R_i rows have arrived by
t_i. An idle marker says the same of its own time. So the points (t_i, R_i) are on the curve of arrivals. Between two
points, rows are assumed to arrive evenly; after the last one, at the recent rate. If the curve is above R_i at the end
of batch i, the difference waits.
The ends of batches cannot be used. The batches of an overloaded app grow with its backlog, so a curve over their ends
would show the app's own pace. Rows that waited for a checkpoint's first batch are not arrivals: the curve starts after
that batch.

A source that counts may report its end only as of when the batch was planned (``planned``). Then the points
(t_i, end) are exact too. Arrivals during the newest batch are estimated from the recent rate.

Full batches of a limited source (``read``) give a lower bound of the curve in the same way. If unread files were listed
(``listed``), the points are (end of i, R_i + B_i).

R is summed over rows, not over a driver's life. A successor continues at its predecessor's checkpoint, so rows that
arrived while no driver ran count between the last start and the next. If rows are missing, the curve starts again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np

from millrace.control.batch_history import History, is_idle_marker, is_marker, is_silent, running_s, sound, span
from millrace.control.rates import batch_rows_limit
from millrace.model.arrival import ArrivalBasis
from millrace.model.telemetry import BatchMetrics

BY_BATCHES = frozenset({ArrivalBasis.TAKEN, ArrivalBasis.READ})
CLOCK_TOLERANCE = timedelta(seconds=5)
"""How much earlier than its predecessor a row may be: a marker is written a moment after what it reports."""

IDLE_RATIO = 0.1
"""Smallest share of time between batches that counts as idle time; some time passes between any two batches."""

FULL_RATIO = 0.8
"""Smallest share of the largest batch's rows at which a batch counts as full."""

LATELY = 3.0
"""The recent rate is taken over this multiple of the time since the last point: rows come in whole files."""

Points = list[tuple[float, float]]
"""Times in seconds, and rows that have arrived by then."""


def with_arrivals(rows: Sequence[BatchMetrics]) -> tuple[BatchMetrics, ...]:
    """Return rows with ``source_end`` and ``backlog_rows``, if batches or listed files show them.

    Rows of sources that count keep their figures; their ``source_end`` continues across drivers. Markers that report
    nothing about the source stay as they are, and do not separate the rows before them from those after.

    Args:
        rows: Batches and markers of one query, in the order they ran.
    """
    told = iter(_with_arrivals([row for row in rows if not is_silent(row)]))
    return tuple(row if is_silent(row) else next(told) for row in rows)


def _with_arrivals(rows: Sequence[BatchMetrics]) -> Sequence[BatchMetrics]:
    if rows and rows[-1].arrival_basis is ArrivalBasis.PLANNED:
        return _as_of_their_ends(_joined(rows))
    if rows and rows[-1].arrival_basis is ArrivalBasis.COUNTED:
        return _without_running(_joined(rows))
    if not rows or rows[-1].arrival_basis not in {*BY_BATCHES, ArrivalBasis.LISTED}:
        return _without_running(rows)
    tail = _tail(rows)
    read = _rows_read(tail)
    points = _points(tail, read)
    told = [replace(row, source_end=None, backlog_rows=None) for row in rows[: len(rows) - len(tail)]]
    for row, so_far in zip(tail, read, strict=True):
        end = _arrived_by(points, row.time.timestamp()) if len(points) > 1 else None
        backlog = None if end is None else max(0, round(end) - so_far)
        told.append(replace(row, source_end=None if backlog is None else so_far + backlog, backlog_rows=backlog))
    return told


def _joined(rows: Sequence[BatchMetrics]) -> tuple[BatchMetrics, ...]:
    """Return rows whose ``source_end`` continues across drivers, which each start their own count.

    The end is unknown before a row that does not count, or whose predecessor is missing.
    """
    joined: list[BatchMetrics] = []
    shift: int | None = 0
    after: BatchMetrics | None = None
    for row in reversed(rows):
        if after is not None and shift is not None:
            offset = _end_offset(row, after)
            shift = None if offset is None else shift + offset
        end = None if shift is None or row.source_end is None else row.source_end + shift
        joined.append(replace(row, source_end=end))
        after = row
    return tuple(reversed(joined))


def _without_running(rows: Sequence[BatchMetrics]) -> tuple[BatchMetrics, ...]:
    """Return rows whose backlog excludes what a running batch reads, as if that batch had ended.

    A running batch reads what waited when it was planned; if reads are limited, at most the rows of a full batch.
    """
    if not any(map(running_s, rows)):
        return tuple(rows)
    limit = batch_rows_limit(sound(rows)) or math.inf
    told: list[BatchMetrics] = []
    before: BatchMetrics | None = None
    for row in rows:
        if not is_marker(row):
            before = row
        elif running_s(row) and before is not None and before.generation == row.generation:
            reads, waiting = before.backlog_rows, row.backlog_rows
            left = None if reads is None or waiting is None else max(0, waiting - round(min(reads, limit)))
            row = replace(row, backlog_rows=left)
        told.append(row)
    return tuple(told)


def _end_offset(a: BatchMetrics, b: BatchMetrics) -> int | None:
    """Return what to add to a row's end to compare it with the next row's end; None if they cannot be compared."""
    if a.source_end is None or b.source_end is None:
        return None
    if a.generation == b.generation:
        return 0
    read = 0 if is_marker(b) or b.batch_id == a.batch_id else b.rows_in
    follows = b.batch_id - a.batch_id in ((0,) if is_marker(b) else (0, 1))
    if a.epoch != b.epoch or not follows or a.backlog_rows is None or b.backlog_rows is None:
        return None
    return b.source_end - b.backlog_rows - read - (a.source_end - a.backlog_rows)


def _as_of_their_ends(rows: Sequence[BatchMetrics]) -> tuple[BatchMetrics, ...]:
    """Return rows with the source's end and backlog at their own time, not at the time their batch was planned."""
    tail = _tail(rows)
    points: Points = []
    for row in tail:
        planned = row.time.timestamp() if is_marker(row) else span(row)[0].timestamp()
        if row.source_end is not None and (not points or planned > points[-1][0]):
            points.append((planned, float(row.source_end)))
    told = list(rows[: len(rows) - len(tail)])
    for row in tail:
        end, backlog = row.source_end, row.backlog_rows
        if end is not None and backlog is not None and len(points) > 1:
            came = max(0, round(_arrived_by(points, row.time.timestamp())) - end)
            row = replace(row, source_end=end + came, backlog_rows=backlog + came)
        told.append(replace(row, arrival_basis=ArrivalBasis.COUNTED))
    return tuple(told)


def arrival_basis(history: History) -> ArrivalBasis:
    """Return how the arrivals of a period are known."""
    newest = next((row.arrival_basis for row in reversed(history.rows) if not is_silent(row)), None)
    if newest not in BY_BATCHES:
        return newest or ArrivalBasis.COUNTED
    batches = history.in_period(history.batches)
    limited = [b for b in history.batches if b.arrival_basis is ArrivalBasis.READ]
    if not limited:
        return ArrivalBasis.TAKEN
    largest = max(b.rows_in for b in limited)
    full = [b for b in batches if b.arrival_basis is ArrivalBasis.READ and b.rows_in >= FULL_RATIO * largest]
    bound = 2 * len(full) > len(batches) and _idle_ratio(history) < IDLE_RATIO
    return ArrivalBasis.AT_LEAST if bound else ArrivalBasis.READ


def _idle_ratio(history: History) -> float:
    """Return the share of the period that a running driver spent between batches, 0..1."""
    if any(is_idle_marker(row) for row in history.in_period(history.rows)):
        return 1.0
    idle = busy = 0.0
    for a, b in pairwise(history.batches):
        if a.generation == b.generation and history.since < b.time <= history.until:
            idle += max(0.0, (span(b)[0] - a.time).total_seconds())
            busy += b.duration_s
    return idle / (idle + busy) if idle > 0 else 0.0


def _tail(rows: Sequence[BatchMetrics]) -> Sequence[BatchMetrics]:
    """Return the newest rows that each continue where the row before ended."""
    first = len(rows) - 1
    while first > 0 and _follows(rows[first - 1], rows[first]):
        first -= 1
    return rows[first:]


def _follows(a: BatchMetrics, b: BatchMetrics) -> bool:
    alike = a.arrival_basis == b.arrival_basis or {a.arrival_basis, b.arrival_basis} <= BY_BATCHES
    next_batch = a.epoch == b.epoch and b.batch_id - a.batch_id in (0, 1)
    return alike and next_batch and b.time >= a.time - CLOCK_TOLERANCE


def _rows_read(tail: Sequence[BatchMetrics]) -> list[int]:
    """Return R of each row; the first row's own rows do not count, and a batch that ran again counts once."""
    read, total = [0], 0
    for a, b in pairwise(tail):
        total += b.rows_in if b.batch_id != a.batch_id else 0
        read.append(total)
    return read


def _points(tail: Sequence[BatchMetrics], read: Sequence[int]) -> Points:
    points: Points = []
    before: BatchMetrics | None = None
    for row, so_far in zip(tail, read, strict=True):
        point = _point(row, so_far, before)
        before = row
        if point is not None and points and point[0] <= points[-1][0]:
            points[-1] = (points[-1][0], point[1])
        elif point is not None:
            points.append(point)
    return points


def _point(row: BatchMetrics, read: int, before: BatchMetrics | None) -> tuple[float, float] | None:
    if row.arrival_basis is ArrivalBasis.LISTED:
        return None if row.backlog_rows is None else (row.time.timestamp(), float(read + row.backlog_rows))
    if is_idle_marker(row):
        return row.time.timestamp(), float(read)
    if before is not None and row.batch_id == before.batch_id:
        return None  # ran again: its rows were chosen at its first start
    return span(row)[0].timestamp(), float(read)


def _arrived_by(points: Points, time: float) -> float:
    times, arrived = np.array(points).T
    if time <= times[-1]:
        return float(np.interp(time, times, arrived))
    begin = max(times[0], times[-1] - LATELY * (time - times[-1]))
    rate = (arrived[-1] - np.interp(begin, times, arrived)) / (times[-1] - begin)
    return float(arrived[-1] + rate * (time - times[-1]))
