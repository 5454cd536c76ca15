"""Load of a fleet's streams in slots, and what they are behind with.

Symbols, per stream: r rows that arrived in a period, c slot-seconds per row, f per batch, i seconds from one batch to
the next (the trigger's interval; without one, half of what the objective lets a row wait).

    load     r c + n f
             n batches, one per interval for as long as there is something to do
    behind   (b - a i) (c + f / max(a i, x))
             b rows wait at least, a rows arrive per second, x rows are in a usual batch

n is not the number of batches that ran. An overloaded node runs fewer, longer ones; a node with time to spare runs more
than it must. So a batch counts from its start for its interval, or for its duration if that is longer, up to the start
of the next. Rows that arrive within an interval wait for their batch, not for the node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import numpy as np

from millrace.control.fleet_arrivals import Arrivals
from millrace.control.fleet_costs import StreamCosts
from millrace.control.fleet_rows import Bools, FleetRows, Floats, Ints, spread
from millrace.model.admission import LoadUnit, StreamCounts
from millrace.model.spec import PipelineSpec

RECENT = timedelta(minutes=10)
"""Time in which it is looked how far behind streams were."""
LEAST_PERIODS = 2
"""Fewest periods of that; each counts half as much as the one after it."""
MS = 1000


def in_slots(
    counts: StreamCounts, spec: PipelineSpec, rows: FleetRows, costs: StreamCosts | None, new: Bools
) -> StreamCounts:
    """Return counts that also have the slots that rows and batches take.

    Every count of at least one row takes a slot-millisecond at least, as a stream without a load has no node.

    Args:
        counts: Counted rows.
        spec: The fleet.
        rows: Reports of its streams.
        costs: Their costs; None if no recent batch shows them. Then the load of streams with rows is unknown.
        new: Which streams have not reported yet, shape (S,): their load is the median of the others.
    """
    if spec.fleet is None or spec.admission is None:
        return counts
    shape = counts.periods, len(counts.stream)
    came, told = np.zeros(shape), np.zeros(shape, dtype=bool)
    at = np.array(counts.period, dtype=np.intp), np.array(counts.index, dtype=np.intp)
    came[at], told[at] = np.array(counts.rows, dtype=float), True  # None becomes NaN
    if costs is None:
        load = np.where(came > 1, np.nan, 0 * came)
    else:
        costs = costs.of(counts.stream)
        load = came * costs.row_s + _batches(counts, rows) * costs.batch_s
    others = load[-1, ~new & np.isfinite(load[-1])]
    load[-1, new] = np.median(others) if len(others) else 0.0
    load = np.maximum(MS * load, came >= 1)
    period, index = np.nonzero(told | (load >= 1))
    return replace(
        counts,
        period=tuple(period.tolist()),
        index=tuple(index.tolist()),
        rows=whole(came[period, index]),
        unit=LoadUnit.SLOTS,
        slot_ms=whole(load[period, index]),
        slots=spec.fleet.node.slots,
        utilisation=spec.admission.target_utilisation,
    )


def whole(values: Floats) -> tuple[int | None, ...]:
    """Return numbers as integers, and NaN as None."""
    return tuple(None if value != value else round(value) for value in values.tolist())


def places(names: tuple[str, ...], streams: tuple[str, ...]) -> Ints:
    """Return the place of each name among some streams; -1 without one."""
    place = {name: index for index, name in enumerate(streams)}
    return np.array([place.get(name, -1) for name in names], dtype=np.intp)


def _batches(counts: StreamCounts, rows: FleetRows) -> Floats:
    """Return n of each stream in each period, shape (T, S)."""
    ran = rows.take((rows.took_s > 0) | (rows.running_s > 0))
    number = ran.batch + (ran.running_s > 0)  # the same for a batch and the markers before its end
    order = np.lexsort((number, ran.run, ran.stream))
    key = np.stack([ran.stream, ran.run, number])[:, order]
    first = np.flatnonzero(np.r_[True, (key[:, 1:] != key[:, :-1]).any(axis=0)])
    begin = np.minimum.reduceat((ran.time - ran.took_s - ran.running_s)[order], first)
    end = np.maximum.reduceat(ran.time[order], first)
    stream, interval_s = ran.stream[order][first], ran.interval_s[order][first]
    order = np.lexsort((begin, stream))
    stream, begin, end, interval_s = stream[order], begin[order], end[order], interval_s[order]
    following = np.r_[np.where(stream[1:] == stream[:-1], begin[1:], np.inf), np.inf]
    until = np.minimum(np.maximum(end, begin + interval_s), following)
    since, period_s, column = counts.since.timestamp(), counts.period_s, places(rows.names, counts.stream)[stream]
    of_batch, period, share = spread((begin - since) / period_s, (until - since) / period_s, counts.periods)
    found, here = np.zeros((counts.periods, len(counts.stream))), column[of_batch] >= 0
    np.add.at(found, (period[here], column[of_batch][here]), (share * period_s / interval_s[of_batch])[here])
    return found


def waiting(counts: StreamCounts, rows: FleetRows, arrived: Arrivals, costs: StreamCosts | None) -> Mapping[str, int]:
    """Return the load that streams are behind with, moving average: rows, or slot-milliseconds.

    Only what waits through a whole period counts: a backlog that was worked off within it shows no overload. A stream
    that does not report, as its batch runs for long, is as far behind as it was.

    Args:
        counts: Counts up to the newest period.
        rows: Reports of the streams.
        arrived: Their arrivals.
        costs: Their costs in slots; None to count rows.
    """
    period_s, until, streams = counts.period_s, counts.until.timestamp(), len(rows.names)
    periods = max(LEAST_PERIODS, math.ceil(RECENT.total_seconds() / period_s))
    since = until - periods * period_s
    recent = rows.take((rows.time >= since) & (rows.time < until))
    period, shape = np.floor((recent.time - since) / period_s).astype(np.intp), (periods, streams)
    # an idle marker's rows wait for the trigger; a source that does not say what waits leaves what comes in its batch
    due = (recent.took_s > 0) | (recent.running_s > 0)
    backlog, took_s, told = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    np.fmin.at(backlog, (period, recent.stream), np.where(due, recent.backlog, 0.0))
    np.fmin.at(took_s, (period, recent.stream), np.where(recent.took_s > 0, recent.took_s, np.nan))
    told[period, recent.stream] = True
    lately = (arrived.time >= since) & (arrived.time < until)
    rate = np.bincount(arrived.stream[lately], weights=arrived.rows[lately], minlength=streams)
    rate = rate / (period_s * (periods - told.argmax(axis=0)))
    interval_s = np.zeros(streams)
    np.maximum.at(interval_s, recent.stream, recent.interval_s)
    late = np.maximum(np.where(np.isnan(backlog), rate * took_s, backlog) - rate * interval_s, 0.0)
    behind = np.zeros(streams)
    for newer in late:
        behind = np.where(np.isnan(newer), behind, (behind + newer) / 2)
    if costs is not None:
        costs = costs.of(rows.names)
        behind *= MS * (costs.row_s + costs.batch_s / np.maximum(np.maximum(rate * interval_s, costs.rows), 1.0))
    exist = set(counts.stream)
    return {name: load for name, load in zip(rows.names, whole(behind), strict=True) if load and name in exist}
