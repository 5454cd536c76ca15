"""Load of a fleet's streams in slots, and what they are behind with.

Symbols, per stream: r rows that arrived in a period, c slot-seconds per row, f per batch, i seconds from one batch to
the next (the trigger's interval; without one, half of what the objective lets a row wait).

    load     r c + n f
             n batches, one per interval for as long as there is something to do
    behind   (b - a i) (c + f / max(a i, x))
             b rows wait at least, a rows arrive per second, x rows are in a usual batch

n is not the number of batches that ran. An overloaded node runs fewer, longer ones; a node with time to spare runs more
than it must. So a batch counts from its start for its interval, or for its duration if that is longer, up to the start
of the next. What arrives within an interval waits for its batch, not for the node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millrace.control.fleet_batches import BATCHES, BEFORE, arrivals, reported
from millrace.control.fleet_costs import StreamCosts
from millrace.lake.store import Lake, literal
from millrace.model.admission import LoadUnit, StreamCounts
from millrace.model.spec import PipelineSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

LEAST_PERIODS = 2
"""Fewest periods of which it is known how far behind streams were; each counts half as much as the one after it."""
MS = 1000


def in_slots(
    counts: StreamCounts, spec: PipelineSpec, lake: Lake, costs: StreamCosts, new: NDArray[np.bool_]
) -> StreamCounts:
    """Return counts that also have the slots that rows and batches take.

    Every count of at least one row takes a slot-millisecond at least, as a stream without a load has no node.

    Args:
        counts: Counted rows.
        spec: The fleet.
        lake: The lake of its telemetry.
        costs: What its streams cost.
        new: Which streams have not reported yet, shape (S,): their load is the median of the others.
    """
    if spec.fleet is None or spec.admission is None:
        return counts
    costs, shape = costs.of(counts.stream), (counts.periods, len(counts.stream))
    rows, told = np.zeros(shape), np.zeros(shape, dtype=bool)
    at = np.array(counts.period, dtype=np.intp), np.array(counts.index, dtype=np.intp)
    rows[at], told[at] = np.array(counts.rows, dtype=float), True  # None becomes NaN
    load = rows * costs.row_s + _batches(counts, spec, lake) * costs.batch_s
    others = load[-1, ~new & np.isfinite(load[-1])]
    load[-1, new] = np.median(others) if len(others) else 0.0
    load = np.maximum(np.rint(MS * load), rows >= 1)
    period, index = np.nonzero(told | (load > 0))
    return replace(
        counts,
        period=tuple(period.tolist()),
        index=tuple(index.tolist()),
        rows=whole(rows[period, index]),
        unit=LoadUnit.SLOTS,
        slot_ms=whole(load[period, index]),
        slots=spec.fleet.node.slots,
        utilisation=spec.admission.target_utilisation,
    )


def whole(values: Floats) -> tuple[int | None, ...]:
    """Return whole numbers as integers, and NaN as None."""
    return tuple(None if value != value else int(value) for value in values.tolist())


def _batches(counts: StreamCounts, spec: PipelineSpec, lake: Lake) -> Floats:
    """Return n of each stream in each period, shape (T, S).

    SQL adds up the batches that start in a period, and their time is then spread over the periods that it covers.
    """
    since, period_s = counts.since.timestamp(), counts.period_s
    table = lake.query(
        f"""
        select stream, min(begin) as begin, sum(covers) as covers, sum(covers / interval_s) as batches
        from (
            select stream, begin, interval_s,
                least(greatest(until - begin, interval_s), coalesce(next - begin, 1e9)) as covers
            from (
                select stream, min(at - took_s - running_s) as begin, max(at) as until, max(interval_s) as interval_s,
                    lead(min(at - took_s - running_s)) over (
                        partition by stream order by min(at - took_s - running_s)
                    ) as next
                from (select *, date_part('epoch', time) as at, case when running_s > 0 then 1 else 0 end as runs
                    from ({reported(spec, counts.since - BEFORE)}) where took_s > 0 or running_s > 0)
                group by stream, app, generation, batch_id + runs
            )
        )
        where covers > 0 group by stream, floor((begin - {since}) / {period_s})
        """,  # noqa: S608 - values are numbers or pass through literal()
        BATCHES,
    )
    found = np.zeros((counts.periods, len(counts.stream)))
    stream, known = _places(table, counts.stream)
    begin, covers, batches = (table[name].to_numpy()[known].astype(float) for name in ("begin", "covers", "batches"))
    begin = (begin - since) / period_s
    cell, period, share = _spread(begin, begin + covers / period_s, counts.periods)
    np.add.at(found, (period, stream[cell]), (batches * period_s / covers)[cell] * share)
    return found


def _spread(begin: Floats, end: Floats, periods: int) -> tuple[Ints, Ints, Floats]:
    """Return which spans overlap which periods, and how much of each period.

    Args:
        begin: Begin of each of B spans, in periods, shape (B,).
        end: Their ends, shape (B,).
        periods: Periods 0 to T - 1 count.

    Returns:
        Span, period and overlap, each of the shape (overlaps,).
    """
    first, last = (np.clip(np.floor(of), 0, periods).astype(np.intp) for of in (begin, end))
    many = np.minimum(last, periods - 1) - first + 1
    span = np.repeat(np.arange(len(begin)), many)
    period = first[span] + np.arange(len(span)) - np.repeat(np.cumsum(many) - many, many)
    return span, period, np.clip(np.minimum(end[span], period + 1) - np.maximum(begin[span], period), 0.0, None)


def waiting(counts: StreamCounts, spec: PipelineSpec, lake: Lake, costs: StreamCosts | None) -> Mapping[str, int]:
    """Return the load that streams are behind with, moving average: rows, or slot-milliseconds.

    Only what waits through a whole period counts: a backlog that was worked off within it shows no overload. A stream
    that does not report, as its batch runs for long, is as far behind as it was.

    Args:
        counts: Counts up to the newest period.
        spec: The fleet.
        lake: The lake of its telemetry.
        costs: What its streams cost in slots; None to count rows.
    """
    period_s = counts.period_s
    periods = max(LEAST_PERIODS, math.ceil(BEFORE.total_seconds() / period_s))
    since = counts.until - timedelta(seconds=periods * period_s)
    table = lake.query(
        f"""
        select stream, floor((date_part('epoch', time) - {since.timestamp()}) / {period_s}) as period,
            sum(rows) as rows, max(interval_s) as interval_s,
            min(case when took_s > 0 or running_s > 0 then backlog_rows else 0 end) as backlog,
            min(case when took_s > 0 and backlog_rows is null then took_s end) as took_s
        from ({arrivals(spec, since - BEFORE)})
        where time >= {literal(since)} and time < {literal(counts.until)}
        group by 1, 2
        """,  # noqa: S608 - values are numbers or pass through literal()
        BATCHES,
    )
    if not table.num_rows:
        return {}
    stream, known = _places(table, counts.stream)
    at = table["period"].to_numpy()[known].astype(np.intp), stream

    def column(name: str) -> Floats:
        values = np.full((periods, len(counts.stream)), np.nan)
        values[at] = table[name].to_numpy()[known].astype(float)
        return values

    rows = column("rows")
    rate = np.nansum(rows, axis=0) / (period_s * (periods - np.isfinite(rows).argmax(axis=0)))
    interval_s = np.nan_to_num(column("interval_s")).max(axis=0)
    # a source that does not say what waits leaves what arrives during its batch
    backlog = np.where(np.isnan(column("backlog")), rate * column("took_s"), column("backlog"))
    late = np.maximum(backlog - rate * interval_s, 0.0)
    behind = np.zeros(len(counts.stream))
    for newer in late:
        behind = np.where(np.isnan(newer), behind, (behind + newer) / 2)
    if costs is not None:
        costs = costs.of(counts.stream)
        behind *= MS * (costs.row_s + costs.batch_s / np.maximum(np.maximum(rate * interval_s, costs.rows), 1.0))
    return {name: load for name, load in zip(counts.stream, whole(np.rint(behind)), strict=True) if load}


def _places(table: pa.Table, streams: tuple[str, ...]) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the place among some streams of each row's stream, shape (known,), and which rows have one."""
    place = {name: index for index, name in enumerate(streams)}
    at = np.array([place.get(name, -1) for name in table["stream"].to_pylist()], dtype=np.intp)
    return at[at >= 0], at >= 0
