"""The streams of a fleet: where they run at first, and what arrived at each lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from millrace.control.fleet_batches import BATCHES, BEFORE, arrivals_by_period, reported
from millrace.control.fleet_costs import learned_costs
from millrace.control.fleet_load import in_slots, waiting, whole
from millrace.control.profile_signals import counts, taken_in
from millrace.fleet.discovery import Found, discover
from millrace.fleet.topics import list_topics
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.admission import StreamCounts
from millrace.model.spec import PipelineSpec


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
    counts as one row at least, so one without rows keeps its node. In periods in which a stream did not report, its
    rows are None: its batch runs long, it fails, or its node has died.

    Args:
        spec: The fleet.
        tables: Memories of its optimizers, in the lake of its telemetry.
        after: End of the last evaluation (UTC).
        now: The present (UTC).

    Returns:
        The counts; None if no new period is over, nothing shows yet what a stream costs, or, before the first plan,
        most streams have not reported through a whole period: a first report shows no arrival.
    """
    period_s, wanted, lake = spec.stream_period_s, spec.admission, tables.lake
    if period_s is None or wanted is None:
        return None
    since = now - timedelta(seconds=period_s * (wanted.periods + wanted.unfinished + 1))
    known = taken_in(spec, tables)
    if known is not None:
        since = max(since, known - BEFORE)
    found = counts(spec, tables, BATCHES, arrivals_by_period(spec, since, period_s), after, now)
    if found is None:
        return None
    found, exists, heard = _of_all(found, found_streams(spec).streams, spec, lake)
    if known is None and exists.any() and np.median(heard[exists]) > found.periods - 1:
        return None
    if wanted.capacity is not None:
        return replace(found, waiting=waiting(found, spec, lake, None))
    costs = learned_costs(spec, lake, now)
    if costs is None:
        return None
    new = exists & np.isinf(heard)
    return replace(in_slots(found, spec, lake, costs, new), waiting=waiting(found, spec, lake, costs))


def _of_all(
    found: StreamCounts, streams: tuple[str, ...], spec: PipelineSpec, lake: Lake
) -> tuple[StreamCounts, NDArray[np.bool_], NDArray[np.float64]]:
    """Return the counts of all streams as :func:`fleet_counts` describes them, which exist, and when each was heard."""
    names = tuple(sorted({*found.stream, *streams}))
    column = {name: at for at, name in enumerate(names)}
    at = np.array(found.period, dtype=np.intp), np.array([column[found.stream[i]] for i in found.index], dtype=np.intp)
    rows, told = np.zeros((found.periods, len(names))), np.zeros((found.periods, len(names)), dtype=bool)
    rows[at], told[at] = np.array(found.rows, dtype=float), True
    exists = np.isin(names, streams)
    rows[-1, exists & (rows[-1] == 0)] = 1
    heard = _first_heard(found, names, spec, lake)
    silent = exists & ~told & (np.arange(found.periods)[:, None] >= heard)
    rows[silent] = np.nan
    told[-1] |= exists
    period, index = np.nonzero(told | silent)
    found = replace(found, stream=names, period=tuple(period.tolist()), index=tuple(index.tolist()), fleet=True)
    return replace(found, rows=whole(rows[period, index])), exists, heard


def _first_heard(counts: StreamCounts, names: Sequence[str], spec: PipelineSpec, lake: Lake) -> NDArray[np.float64]:
    """Return when each stream first reported, in periods, shape (S,); infinite if it never did."""
    since = counts.since - BEFORE
    sql = f"select stream, min(date_part('epoch', time)) as at from ({reported(spec, since)}) group by stream"  # noqa: S608
    at = {row["stream"]: row["at"] for row in lake.rows(sql, BATCHES)}
    return (np.array([at.get(name, np.inf) for name in names]) - counts.since.timestamp()) / counts.period_s
