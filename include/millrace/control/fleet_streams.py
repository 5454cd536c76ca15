"""The streams of a fleet: where they run at first, and what arrived at each lately."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from millrace.control.batch_history import HISTORY
from millrace.control.fleet_arrivals import arrivals
from millrace.control.fleet_costs import learned_costs
from millrace.control.fleet_load import in_slots, places, waiting, whole
from millrace.control.fleet_rows import BATCHES, Bools, FleetRows, Floats, Ints, read_rows, reported_periods
from millrace.control.profile_signals import span, taken_in
from millrace.fleet.discovery import Found, discover, may_return
from millrace.fleet.topics import list_topics
from millrace.lake.control_tables import ControlTables
from millrace.model.admission import StreamCounts
from millrace.model.spec import PipelineSpec

BEFORE = timedelta(minutes=10)
"""How long before a period rows are read: a row shows what arrived since the one before it."""
LONGEST = timedelta(hours=2)
"""Time ago from which periods are left out, if it is more than a few of them: hundreds of streams report often."""
LONGEST_WAIT = timedelta(minutes=15)
"""Longest time from the first report of a node for which the first plan waits for streams that have not reported."""


def found_streams(spec: PipelineSpec) -> Found:
    """Return the streams that a fleet has now.

    Raises:
        MillraceError: If what the spec names cannot be read.
    """
    if spec.fleet is None:
        return Found(())
    streams = spec.fleet.streams
    topics = None if streams.brokers is None else partial(list_topics, streams.brokers)
    return discover(streams.source, Path(spec.fleet.script).parent, topics)


def first_nodes(spec: PipelineSpec) -> Mapping[str, int]:
    """Return the node of each stream at the first launch, as many on each; empty if the pipeline is no fleet."""
    if spec.fleet is None:
        return {}
    return {stream: number % spec.fleet.nodes.start for number, stream in enumerate(found_streams(spec).streams)}


def fleet_counts(
    spec: PipelineSpec, tables: ControlTables, after: datetime | None, now: datetime
) -> StreamCounts | None:
    """Return the rows that arrived at each stream in the periods that are over, whichever node ran it.

    If the spec does not say how many rows a node takes, the slots that they take are added. Every stream that exists
    counts as one row at least, so one without rows keeps its node, and a new one gets a node. In periods in which a
    stream did not report, its rows are None: its batch runs long, it fails, or its node has died. Periods that are
    :data:`LONGEST` ago are left out. A stream that is gone may come back, so it only has no rows; one that a person has
    taken out of the spec is removed.

    Args:
        spec: The fleet.
        tables: Memories of its optimizers, in the lake of its telemetry.
        after: End of the last evaluation (UTC).
        now: The present (UTC).

    Returns:
        The counts; None if no new period is over, or if a batch runs and no other one shows what streams cost. Also
        None before the first plan while most streams have not reported through a whole period, for up to
        ``ready_deadline_s``: a first report shows no arrival.
    """
    period_s, wanted, lake = spec.stream_period_s, spec.admission, tables.lake
    committed = lake.committed_at(BATCHES)
    if period_s is None or wanted is None or committed is None or (after is not None and committed <= after):
        return None
    version, known, period = lake.version(BATCHES), taken_in(spec, tables), timedelta(seconds=period_s)
    begun = now - min(period * (wanted.periods + wanted.unfinished), max(LONGEST, 4 * period))
    begun = begun if known is None else max(begun, known)
    read_since = min(begun - BEFORE, now - HISTORY)
    reported = reported_periods(spec, lake, read_since, now, period_s)
    recent = [at for at in reported if at >= begun.timestamp() // period_s]
    from_then = None if known is None else begun  # what came before was not read: it would count as no rows
    first, end = span(wanted, recent[: wanted.periods + wanted.unfinished], from_then, period_s)
    if first >= end:
        return None
    rows = read_rows(spec, lake, read_since, now)
    arrived = arrivals(rows)
    stream, number, came = arrived.by_period(period_s)
    since, until = (datetime.fromtimestamp(at * period_s, UTC) for at in (first, end))
    found = StreamCounts(version, since, until, period_s, (), (), (), (), fleet=True)
    here = (number >= first) & (number < end)
    cells = stream[here], number[here] - first, came[here]
    exist = found_streams(spec).streams
    found = replace(found, removed=_removed(spec, tables, exist))
    found, exists, heard = _of_all(found, exist, rows, cells)
    patience_s = min(spec.ready_deadline_s, LONGEST_WAIT.total_seconds())
    is_early = known is None and now.timestamp() - reported[-1] * period_s < patience_s
    if is_early and exists.any() and np.median(heard[exists]) > found.periods - 1:
        return None
    if wanted.capacity is not None:
        return replace(found, waiting=waiting(found, rows, arrived, None))
    costs = learned_costs(rows, now)
    if costs is None and (rows.running_s[rows.time >= until.timestamp() - period_s] > 0).any():
        return None
    late: Mapping[str, int] = {} if costs is None else waiting(found, rows, arrived, costs)
    return replace(in_slots(found, spec, rows, costs, exists & np.isinf(heard)), waiting=late)


def _removed(spec: PipelineSpec, tables: ControlTables, exist: Collection[str]) -> tuple[str, ...]:
    """Return the streams that have a node, do not exist, and are not described by the spec any more."""
    current = tables.deployments.latest(spec.name)
    if spec.fleet is None or current is None:
        return ()
    source = spec.fleet.streams.source
    return tuple(sorted(name for name in {*current.ingest} - {*exist} if not may_return(source, name)))


def _of_all(
    empty: StreamCounts, exist: tuple[str, ...], rows: FleetRows, cells: tuple[Ints, Ints, Floats]
) -> tuple[StreamCounts, Bools, Floats]:
    """Return the counts of all streams as :func:`fleet_counts` describes them, which exist, and when each was heard.

    Args:
        empty: Counts without streams.
        exist: Names of the streams that exist.
        rows: What streams reported.
        cells: Stream, period and rows of what arrived.

    Returns:
        The counts, which of their streams exist, shape (S,), and when each first reported, in periods, shape (S,);
        infinite if it never did.
    """
    stream, period, came = cells
    names = tuple(sorted({*(rows.names[at] for at in np.unique(stream)), *exist}))
    place, shape = places(rows.names, names), (empty.periods, len(names))
    counted, told = np.zeros(shape), np.zeros(shape, dtype=bool)
    np.add.at(counted, (period, place[stream]), came)
    told[period, place[stream]] = True
    exists = np.isin(names, exist)
    counted[-1, exists & (counted[-1] < 1)] = 1
    heard, column = np.full(len(names), np.inf), place[rows.stream]
    np.minimum.at(heard, column[column >= 0], rows.time[column >= 0])
    heard = (heard - empty.since.timestamp()) / empty.period_s
    silent = exists & ~told & (np.arange(shape[0])[:, None] >= heard)
    counted[silent] = np.nan
    told[-1] |= exists
    at, index = np.nonzero(told | silent)
    counts = whole(counted[at, index])
    found = replace(empty, stream=names, period=tuple(at.tolist()), index=tuple(index.tolist()), rows=counts)
    return found, exists, heard
