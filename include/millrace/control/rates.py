"""Compute rates and backlog of one period from a source's end, which only ever grows.

lambda, the true arrival rate, is the change of the source's end per second, not the processing rate. The two differ
exactly when it matters: when the app is saturated or restarts. Backlog and processed rows use the same points in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import fmean

from millrace.control.batch_history import History, is_silent, running_s, span
from millrace.model.arrival import ArrivalBasis
from millrace.model.decision import Reconfiguration
from millrace.model.objective import Objective
from millrace.model.telemetry import BatchMetrics

BACK_TO_BACK_RATIO = 0.25
"""A batch that starts within this share of its own duration after its predecessor ran without a pause."""

LEFT_OVER_RATIO = 0.5
"""A batch is full if it leaves this share of its own rows behind, in addition to the rows that came during it."""

LEAST_LEFT_OVER = 10
"""Rows that a full batch leaves behind at least: fewer may have come between its planning and the report before it."""

LEAST_FULL = 2
"""Full batches that are needed. One may be the first of a start, whose rows came while it was being planned."""

FULL_BATCHES = 5
"""Newest full batches whose rows are averaged."""

RECENT_RATIO = 1 / 3
"""Newest share of the period whose rate is reported as well."""

LEAST_COVER_RATIO = 0.5
"""If the points cover less of the period than this, the last point before the period is added to give a rate."""


@dataclass(frozen=True)
class Rates:
    """What the source did in a period; None if unknown."""

    arrival_rows_per_s: float | None
    arrival_recent_rows_per_s: float | None
    processed_rows_per_s: float | None
    backlog_rows: int | None
    backlog_growth_rows_per_s: float | None


def rates(history: History) -> Rates:
    """Return the period's rates; they continue across restarts, which do not affect the source.

    An estimated source's end may fall a little. Such a fall counts, or the rises would add up to too much.
    """
    points = _points(history)
    backlog = history.newest.backlog_rows
    estimated = history.newest.arrival_basis is ArrivalBasis.LISTED
    return Rates(
        arrival_rows_per_s=_rate(points, estimated),
        arrival_recent_rows_per_s=_rate(_recent(points, history.period_s), estimated),
        processed_rows_per_s=_processed(points),
        backlog_rows=backlog if backlog is None or backlog >= 0 else None,
        backlog_growth_rows_per_s=_slope(points, "backlog_rows", falls=True),
    )


def backpressured_ratio(
    history: History, arrival: float | None, objective: Objective, fixed_s: float | None
) -> float | None:
    """Return the share of the period's batches that could not keep up (ContTune's backPressurePer, as a ratio).

    A batch could not keep up if it ran without a pause and left more rows waiting than arrive during the longest batch
    that is planned for: o / (1 - target_utilisation), at most half of max_lag_s. Some waiting rows prove nothing: under
    the default trigger, the rows that arrived during a batch always wait when it ends, and a trigger with an interval
    keeps rows waiting for that interval.

    Deviation: the paper's ratio is Flink's share of time that an operator's output is blocked; micro-batches never
    block, they grow.

    Args:
        history: The app's telemetry.
        arrival: Arrival rate, rows per second.
        objective: The pipeline's objective.
        fixed_s: o(p), seconds; None if unknown.
    """
    batches = history.in_period(history.batches)
    if not batches:
        return 0.0 if history.newest.backlog_rows == 0 else None
    if arrival is None:
        return None
    planned_s = objective.planned_batch_s(fixed_s, history.trigger_s)
    known = [b for b in batches if b.backlog_rows is not None]
    if not known:
        return None
    ends = {id(b): a.time for a, b in pairwise(history.batches) if a.generation == b.generation}
    behind = 0
    for b in known:
        pause = (span(b)[0] - ends[id(b)]).total_seconds() if id(b) in ends else 0.0
        waiting = b.backlog_rows or 0
        behind += pause <= BACK_TO_BACK_RATIO * b.duration_s and waiting > arrival * planned_s
    return behind / len(known)


def limit_in_force(batches: Sequence[BatchMetrics]) -> int | None:
    """Return the rows of a full batch with the newest batch's limits; None if no batch was full.

    If no batch has been full since the limits changed, full batches before the change show it: a batch of twice as many
    files has about twice as many rows.

    Args:
        batches: Batches of one query, in the order they ran.
    """
    if not batches:
        return None
    newest = batches[-1].limits
    now = [batch for batch in batches if batch.limits == newest]
    known = batch_rows_limit(now)
    if known is not None or len(now) == len(batches):
        return known
    before = [batch for batch in batches if batch.limits and batch.limits.keys() == newest.keys() and batch not in now]
    former = batch_rows_limit([batch for batch in before if batch.limits == before[-1].limits]) if before else None
    if former is None:
        return None
    grown = min(value / before[-1].limits[option] for option, value in newest.items())
    return round(max(former * grown, *(batch.rows_in for batch in now)))


def batch_rows_limit(batches: Sequence[BatchMetrics]) -> int | None:
    """Return the rows of a full batch if the source is read in limited batches; None if no batch was full.

    A batch without a limit reads all that waits, so the rows left at its end came during it. A limited batch leaves
    more. Limits are set in files or bytes, so the rows of the newest few full batches are averaged. Files that are
    written at intervals are small while little arrives, so the largest batches count too: what batches have held, they
    can hold.

    Args:
        batches: Batches of one query, in the order they ran.
    """
    full = []
    for a, b in pairwise(batches):
        if is_full(a, b):
            full.append(b.rows_in)
    if len(full) < LEAST_FULL:
        return None
    largest = sorted(batch.rows_in for batch in batches)[-LEAST_FULL:]
    return round(max(fmean(full[-FULL_BATCHES:]), fmean(largest)))


def is_full(before: BatchMetrics, batch: BatchMetrics) -> bool:
    """Return whether a batch left rows behind that already waited when it started; False if unknown.

    Args:
        before: The batch before it.
        batch: The batch.
    """
    known = None not in (before.source_end, batch.source_end, batch.backlog_rows)
    if before.generation != batch.generation or not known or batch.rows_in <= 0:
        return False
    came = (batch.source_end or 0) - (before.source_end or 0)  # below 0: the source was recreated
    left = (batch.backlog_rows or 0) - came
    return came >= 0 and left >= LEAST_LEFT_OVER and left > LEFT_OVER_RATIO * batch.rows_in


def restart_lag_rows(history: History, changes: Sequence[Reconfiguration]) -> int | None:
    """Return the rows that still wait because of Millrace's own last restart.

    These arrived between the predecessor's last batch and the successor's first one, as far as the backlog has stayed
    above its level before. Once drained they never come back: later backlog has other causes.
    """
    ours = [c for c in changes if c.generation is not None and c.generation <= history.newest.generation]
    if not ours:
        return 0
    generation = max(c.generation or 0 for c in ours)
    known = [r for r in history.rows if not is_silent(r)]
    before = [r for r in known if r.generation < generation]
    after = [r for r in known if r.generation >= generation]
    if not before:
        return 0
    if not after:
        return None
    old, new = before[-1], after[0]
    if None in (old.source_end, new.source_end, old.backlog_rows, history.newest.backlog_rows):
        return None
    remaining = max(0, (new.source_end or 0) - (old.source_end or 0))
    for row in after:
        if row.backlog_rows is not None:
            remaining = min(remaining, max(0, row.backlog_rows - (old.backlog_rows or 0)))
    return remaining


def _points(history: History) -> list[BatchMetrics]:
    inside = history.in_period(history.rows)
    cover = (inside[-1].time - inside[0].time).total_seconds() if inside else 0.0
    if cover >= LEAST_COVER_RATIO * history.period_s:
        return inside
    first = history.rows.index(inside[0]) if inside else len(history.rows)
    earlier = [r for r in history.rows[:first] if r.time <= history.since]
    return [*earlier[-1:], *inside]


def _recent(points: Sequence[BatchMetrics], period_s: float) -> list[BatchMetrics]:
    """Return the points of the newest part of the period, and the point before it, at which its span starts."""
    begin = points[-1].time - timedelta(seconds=RECENT_RATIO * period_s) if points else None
    later = [p for p in points if begin is not None and p.time > begin]
    return [*points[: len(points) - len(later)][-1:], *later] if len(later) < len(points) else []


def _rate(points: Sequence[BatchMetrics], estimated: bool) -> float | None:
    slope = _slope(points, "source_end", falls=estimated)
    return None if slope is None else max(0.0, slope)


def _slope(points: Sequence[BatchMetrics], name: str, *, falls: bool) -> float | None:
    """Return the change of a column per second, without spans in which the clock or the source went back."""
    known: list[tuple[datetime, int]] = [(p.time, getattr(p, name)) for p in points if getattr(p, name) is not None]
    change = seconds = 0.0
    for (t0, v0), (t1, v1) in pairwise(known):
        dt = (t1 - t0).total_seconds()
        if dt > 0 and (falls or v1 >= v0):
            change += v1 - v0
            seconds += dt
    return change / seconds if seconds > 0 else None


def _processed(points: Sequence[BatchMetrics]) -> float | None:
    rows = seconds = 0.0
    for a, b in pairwise(point for point in points if not running_s(point)):
        dt = (b.time - a.time).total_seconds()
        if dt > 0:
            rows += max(b.rows_in, 0)
            seconds += dt
    return rows / seconds if seconds > 0 else None
