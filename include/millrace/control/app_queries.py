"""Several queries in one app: what each costs, and the app as one query that represents them all.

Queries share the app's slots. Symbols, per query q:
    x_q  rows per second, arriving or processed;  h_q  rows read in the whole history
    s_q  seconds per row if q had the slots to itself;  p_q  its tasks that run at once;  p = max p_q
    o_q  duration of a batch without rows, seconds;  b_q  the part of o_q that starts tasks

A row of q is weighted by its cost: it counts as k_q = s_q p_q / (p s) mean rows. Here s = sum h_q s_q p_q / (p sum h_q)
is the seconds per row of the history's mix. Then s sum k_q x_q is the share of time that the slots work, whichever
query is busiest at the moment, and s is steady while peaks alternate. A batch of q takes turns with the others and
lasts o_q (1 - U_others) / (1 - U) <= o_q / (1 - U) at a utilisation U of all queries. So slots meet every query's lag
goal if they are enough for one query that receives sum k_q x_q, processes 1 / s, and costs max o_q plus the others' b
per batch.

Other queries' tasks make a batch longer, which says nothing about its own cost. If the slots worked V seconds for
others during a batch of d seconds with w seconds of its own work, only the working part was delayed:
    d = o + w + V (1 - o / d),  so  o = (d - w - V) / (1 - V / d)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from millrace.control.batch_history import History, span
from millrace.control.capacity import work
from millrace.model.arrival import ArrivalBasis
from millrace.model.signals import AppSignals, Capacity, Observation, QuerySignals
from millrace.model.telemetry import BatchMetrics

MOST_SHARE = 0.9
"""If the slots worked for others for more than this share of a batch, it says nothing about its own cost."""
MISSED_TRIGGERS = 2.0
"""A query without a row for this many times the longest of its :data:`RECENT_GAPS`, and for a period, has ended."""
RECENT_GAPS = 3
"""Newest gaps between a query's rows that show how often it reports."""
BATCHES = 2
"""Rows of a query that a period needs; with fewer, the period is the time between its last two rows."""


@dataclass(frozen=True)
class Part:
    """One query of several.

    Attributes:
        signals: Its signals, as if it were the only query of its app.
        rows: Rows that it read in the whole history.
        starts_s: Part of a batch in which all slots only start its tasks, seconds.
    """

    signals: AppSignals
    rows: int
    starts_s: float


def running_queries(rows: Sequence[BatchMetrics], newest: datetime, period: timedelta) -> list[str]:
    """Return the names of the queries that still run.

    Args:
        rows: An app's rows, in any order.
        newest: Time of the newest row.
        period: The spec's period.
    """
    times: dict[str, list[datetime]] = {}
    for row in rows:
        times.setdefault(row.query, []).append(row.time)
    running = []
    for query, of_query in sorted(times.items()):
        gaps = [b - a for a, b in pairwise(sorted(of_query)[-RECENT_GAPS - 1 :])]
        longest = max(gaps, default=timedelta(0))
        if newest - max(of_query) <= max(period, MISSED_TRIGGERS * longest):
            running.append(query)
    return running


def history_of(rows: tuple[BatchMetrics, ...], since: datetime, until: datetime) -> History:
    """Return one query's rows with the app's period, or the time between its last two rows if the period has fewer."""
    inside = [row for row in rows if since < row.time <= until]
    if len(inside) >= BATCHES or len(rows) < BATCHES or rows[-2].time >= rows[-1].time:
        return History(rows, since, until)
    return History(rows, min(since, rows[-2].time), rows[-1].time)


def undisturbed(batches: Sequence[BatchMetrics], others: Iterable[BatchMetrics]) -> list[BatchMetrics]:
    """Return a query's batches with the durations that they would have had without other queries' tasks.

    Args:
        batches: Healthy batches of one query.
        others: Batches of the other queries.
    """
    ended = sorted((other for other in others if other.duration_s > 0), key=lambda other: other.time)
    times = [other.time for other in ended]
    longest = timedelta(seconds=max((other.duration_s for other in ended), default=0.0))
    result = []
    for batch in batches:
        begin, end = span(batch)
        beside = ended[bisect_left(times, begin) : bisect_left(times, end + longest)]
        theirs = sum(_slots_s(other) * _overlap_s(batch, other) / other.duration_s for other in beside)
        duration_s, own = batch.duration_s, _slots_s(batch)
        if not theirs or not own:
            result.append(batch)
        elif theirs <= MOST_SHARE * duration_s:
            fixed_s = max(0.0, duration_s - own - theirs) / (1 - theirs / duration_s)
            durations = {**batch.durations_ms, "triggerExecution": max(1, round(1000 * (own + fixed_s)))}
            result.append(replace(batch, durations_ms=durations))
    return result


def starts_s(batches: Iterable[BatchMetrics]) -> float:
    """Return how long starting tasks usually takes in a query's batch, seconds of all slots."""
    known = [spent.starts_s for spent in map(work, batches) if spent is not None]
    return median(known) if known else 0.0


def combined(parts: Mapping[str, Part], slots: int) -> AppSignals:
    """Return an app of several queries as one query, its rows weighted by their cost.

    Args:
        parts: Its queries, at least two.
        slots: Its slots.
    """
    of = {query: part.signals for query, part in parts.items()}
    each = list(of.values())
    p = max((signals.parallelism for signals in each if signals.parallelism is not None), default=None)
    costs, mean = _costs(parts)
    weights = row_weights(parts)

    def total(values: Iterable[float | None]) -> float | None:
        known = [weights[query] * value for query, value in zip(of, values, strict=True) if value is not None]
        return sum(known) if len(known) == len(each) else None

    recent = (
        s.arrival_rows_per_s if s.arrival_recent_rows_per_s is None else s.arrival_recent_rows_per_s for s in each
    )
    unknown = any(query not in costs and (s.arrival_rows_per_s or s.backlog_rows) for query, s in of.items())
    arrival, backlog = total(s.arrival_rows_per_s for s in each), total(s.backlog_rows for s in each)
    lag_rows = total(s.restart_lag_rows for s in each)
    tasks = {signals.tasks for signals in each}
    return replace(
        max(each, key=lambda signals: signals.slot_busy_ratio or 0.0),
        slots=slots,
        parallelism=p,
        source_splits=all(signals.source_splits for signals in each),
        arrival_rows_per_s=arrival,
        arrival_recent_rows_per_s=total(recent),
        processed_rows_per_s=total(s.processed_rows_per_s for s in each),
        backlog_rows=None if backlog is None else round(backlog),
        backlog_growth_rows_per_s=total(s.backlog_growth_rows_per_s for s in each),
        batches=sum(signals.batches for signals in each),
        healthy_batches=sum(signals.healthy_batches for signals in each),
        empty_batches=sum(signals.empty_batches for signals in each),
        busy_ratio=_most(signals.busy_ratio for signals in each),
        backpressured_ratio=_most(signals.backpressured_ratio for signals in each),
        slot_busy_ratio=_share(signals.slot_busy_ratio for signals in each),
        capacity=None if unknown or p is None or mean is None else _capacity(parts, costs, p, mean),
        restart_lag_rows=None if lag_rows is None else round(lag_rows),
        batch_rows_limit=_least_in_mix(each, arrival, lambda signals: signals.batch_rows_limit),
        largest_batch_rows=_least_in_mix(each, arrival, lambda signals: signals.largest_batch_rows),
        operators=tuple(
            replace(operator, operator=f"{signals.app}/{query}/{operator.operator.removeprefix(f'{signals.app}/')}")
            for query, signals in of.items()
            for operator in signals.operators
        ),
        arrival_basis=_basis(each),
        tasks=tasks.pop() if len(tasks) == 1 else None,
        lag={partition: rows for signals in each for partition, rows in signals.lag.items()},
        queries=tuple(_query(query, part, slots) for query, part in parts.items()),
        first_batches=None,  # its rows are those of one query
        first_batch_s=None if None in (first := [s.first_batch_s for s in each]) else _most(first),
        batch_limits={},  # the queries have limits of their own
        change_s=_most(signals.change_s for signals in each),
        gc_ratio=_most(signals.gc_ratio for signals in each),
        sources=_rows_by_source(each),
        sinks=tuple(sorted({sink for signals in each for sink in signals.sinks})),
        running_tasks=sum(known) if (known := [s.running_tasks for s in each if s.running_tasks is not None]) else None,
    )


def row_weights(parts: Mapping[str, Part]) -> Mapping[str, float]:
    """Return how many rows of the queries' mix a row of each query counts as, k_q; 1 if a query's cost is unknown."""
    costs, mean = _costs(parts)
    return {query: costs[query] / mean if mean and query in costs else 1.0 for query in parts}


def _costs(parts: Mapping[str, Part]) -> tuple[Mapping[str, float], float | None]:
    """Return s_q p_q of each query that it is known of, and s p, their mean over the rows of the history."""
    of = {query: part.signals for query, part in parts.items()}
    costs = {query: cost for query, signals in of.items() if (cost := _slot_s_per_row(signals)) is not None}
    read = sum(parts[query].rows for query in costs)
    return costs, sum(parts[query].rows * cost for query, cost in costs.items()) / read if read else None


def combined_observations(
    app: AppSignals, parts: Mapping[str, Part], observations: Sequence[Observation]
) -> tuple[Observation, ...]:
    """Return the observations, plus what the app can process, combined from those of its queries.

    Args:
        app: The app as one query.
        parts: Its queries.
        observations: Of its queries, oldest first. Those of the app itself are dropped: they are of another mix.
    """
    others = tuple(o for o in observations if o.operator != app.app)
    counted = {query: part for query, part in parts.items() if part.rows}
    points: dict[str, dict[int, list[Observation]]] = {query: {} for query in counted}
    for query in counted:
        for o in others:
            if o.operator == query_operator(app.app, query):
                points[query].setdefault(o.parallelism, []).append(o)
    levels = sorted({p for of_query in points.values() for p in of_query})
    made = [o for p in levels for o in _at(app.app, p, counted, points)]
    return (*others, *sorted(made, key=lambda o: o.time))


def query_operator(app: str, query: str) -> str:
    """Return the name under which a query of several is observed."""
    return f"{app}/{query}"


def _at(
    app: str, p: int, parts: Mapping[str, Part], points: Mapping[str, Mapping[int, Sequence[Observation]]]
) -> list[Observation]:
    """Return the app's points at one level, as many as the query with the fewest has there."""
    series = {}
    for query, part in parts.items():
        # a query with fewer tasks than slots runs at the same p at all higher levels
        narrow = part.signals.parallelism if (part.signals.parallelism or p) < p else None
        known = points[query].get(p) or (points[query].get(narrow) if narrow is not None else None)
        if not known:
            return []
        series[query] = known
    rows = sum(part.rows for part in parts.values())
    made = []
    for back in range(1, min(map(len, series.values())) + 1):
        each = [(parts[query].rows, known[-back]) for query, known in series.items()]
        slot_s = [n * o.parallelism / o.throughput for n, o in each]
        errors = [s * o.noise / o.throughput for s, (_, o) in zip(slot_s, each, strict=True)]
        rate = p * rows / sum(slot_s)
        batches, newest = sum(o.batches for _, o in each), max(o.time for _, o in each)
        made.append(Observation(app, p, rate, rate * math.hypot(*errors) / sum(slot_s), batches, newest))
    return made


def _rows_by_source(each: Sequence[AppSignals]) -> Mapping[str, int]:
    names = {name for signals in each for name in signals.sources}
    return {name: sum(signals.sources.get(name, 0) for signals in each) for name in sorted(names)}


def _slots_s(batch: BatchMetrics) -> float:
    """Return how long all slots worked for a batch, seconds."""
    spent = work(batch)
    return 0.0 if spent is None else spent.rows_s + spent.starts_s


def _overlap_s(a: BatchMetrics, b: BatchMetrics) -> float:
    (begin_a, end_a), (begin_b, end_b) = span(a), span(b)
    return max(0.0, (min(end_a, end_b) - max(begin_a, begin_b)).total_seconds())


def _slot_s_per_row(signals: AppSignals) -> float | None:
    """Return s_q p_q from the fit, or else from how long the query's tasks ran; None if neither is known."""
    if signals.capacity is not None:
        return signals.capacity.parallelism / signals.capacity.rows_per_s
    if signals.slot_busy_ratio and signals.processed_rows_per_s:
        return signals.slot_busy_ratio * signals.slots / signals.processed_rows_per_s
    return None


def _capacity(parts: Mapping[str, Part], costs: Mapping[str, float], p: int, mean: float) -> Capacity | None:
    known = {query: c for query, part in parts.items() if (c := part.signals.capacity) is not None}
    if not known:
        return None
    rows = sum(parts[query].rows for query in costs)
    errors = [parts[q].rows * costs[q] * c.rows_per_s_error / c.rows_per_s for q, c in known.items()]
    longest = max(known, key=lambda query: known[query].fixed_s)
    starts = sum(part.starts_s for query, part in parts.items() if query != longest)
    rate, fixed_s = p / mean, known[longest].fixed_s + starts
    batches = sum(c.batches for c in known.values())
    return Capacity(p, fixed_s, rate, rate * math.hypot(*errors) / (mean * rows), batches)


def _least_in_mix(
    each: Sequence[AppSignals], arrival: float | None, rows_of: Callable[[AppSignals], int | None]
) -> int | None:
    """Return the rows of a batch of all queries in which the first of them has its own number of rows.

    Args:
        each: Signals of each query.
        arrival: Rows per second that arrive at all of them.
        rows_of: Returns the rows of a batch of one query; None if they are unknown.
    """
    if not arrival:
        return None
    of_queries = [(rows_of(signals), signals.arrival_rows_per_s) for signals in each]
    in_mix = [rows * arrival / rate for rows, rate in of_queries if rows is not None and rate]
    return max(1, round(min(in_mix))) if in_mix else None


def _basis(each: Sequence[AppSignals]) -> ArrivalBasis:
    bases = [signals.arrival_basis for signals in each]
    return ArrivalBasis.AT_LEAST if ArrivalBasis.AT_LEAST in bases else bases[0]


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _share(ratios: Iterable[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return min(1.0, sum(known)) if known else None


def _query(name: str, part: Part, slots: int) -> QuerySignals:
    signals = part.signals
    return QuerySignals(
        query=name,
        arrival_rows_per_s=signals.arrival_rows_per_s,
        backlog_rows=signals.backlog_rows,
        slots_busy=None if signals.slot_busy_ratio is None else signals.slot_busy_ratio * slots,
        healthy_batches=signals.healthy_batches,
        capacity=signals.capacity,
    )
