"""What the streams of a fleet reported, whichever nodes ran them, as columns, and when its nodes reported at all."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millrace.lake.store import Lake, literal
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import RUNNING

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

BATCHES = "telemetry/batches"
HEARTBEAT = "millrace-node"
"""The query that keeps a node without streams alive; :data:`millrace.fleet.node.HEARTBEAT`."""


@dataclass(frozen=True)
class FleetRows:
    """Rows of ``telemetry/batches`` of K streams, by stream and then by time; each array has the shape (R,).

    Attributes:
        names: Names of the streams, in alphabetical order.
        stream: Index of the stream.
        node: Number of its node.
        run: Number of its driver, one start of a node.
        slots: Slots of the node, >= 1.
        time: When it was written, seconds since 1970-01-01 UTC: the end of a batch.
        batch: Spark's batch id.
        rows_in: Rows read; 0 in a marker.
        source_end: Rows committed to the sources since the driver counts; NaN if unknown.
        backlog: Rows that wait; NaN if unknown.
        took_s: Duration of the batch, seconds; 0 in a marker.
        running_s: How long the next batch had been running, in its marker; else 0.
        interval_s: Seconds from one batch to the next: the trigger's interval, or half of ``objective.max_lag_s``.
        useful_s: Useful time of all its operators, seconds; 0 if unknown.
    """

    names: tuple[str, ...]
    stream: Ints
    node: Ints
    run: Ints
    slots: Floats
    time: Floats
    batch: Floats
    rows_in: Floats
    source_end: Floats
    backlog: Floats
    took_s: Floats
    running_s: Floats
    interval_s: Floats
    useful_s: Floats

    def take(self, rows: Ints | Bools) -> FleetRows:
        """Return some of the rows."""
        columns = (getattr(self, field.name)[rows] for field in fields(self)[1:])
        return FleetRows(self.names, *columns)

    @property
    def continues(self) -> Bools:
        """Which rows come after another one of the same stream, shape (R,)."""
        return np.asarray(np.r_[False, self.stream[1:] == self.stream[:-1]][: len(self.stream)])

    @property
    def follows(self) -> Bools:
        """Which rows come after another one of the same stream on the same driver, shape (R,)."""
        return np.asarray(self.continues & np.r_[False, self.run[1:] == self.run[:-1]][: len(self.run)])


def reported_periods(spec: PipelineSpec, lake: Lake, since: datetime, now: datetime, period_s: int) -> list[int]:
    """Return the numbers of the periods in which a node of a fleet reported, from 1970-01-01 UTC on, the newest first.

    The heartbeat of a node counts: a fleet needs plans even if none of its streams reports.

    Args:
        spec: The fleet.
        lake: The lake of its telemetry.
        since: Oldest time that is read (UTC).
        now: Newest time that is read (UTC).
        period_s: Length of a period, seconds.
    """
    sql = f"""
        select distinct floor(date_part('epoch', time) / {literal(period_s)}) as period
        from batches where {_of_nodes(spec, since, now)}
    """  # noqa: S608 - values pass through literal()
    return sorted((int(row["period"]) for row in lake.rows(sql, BATCHES)), reverse=True)


def read_rows(spec: PipelineSpec, lake: Lake, since: datetime, now: datetime) -> FleetRows:
    """Return what the streams of a fleet reported.

    Args:
        spec: The fleet.
        lake: The lake of its telemetry.
        since: Oldest time that is read (UTC).
        now: Newest time that is read (UTC).
    """
    sql = f"""
        select query, app, generation, batch_id, slots, rows_in, source_end, backlog_rows, trigger_s, operators,
            date_part('epoch', time) as at, durations_ms['triggerExecution'] as took_ms,
            durations_ms[{literal(RUNNING)}] as running_ms
        from batches where {_of_nodes(spec, since, now)} and query is not null and query <> {literal(HEARTBEAT)}
    """  # noqa: S608 - values pass through literal()
    table = lake.query(sql, BATCHES)
    return _rows(table, spec.objective.max_lag_s / 2) if table.num_rows else _no_rows()


def _of_nodes(spec: PipelineSpec, since: datetime, now: datetime) -> str:
    """Return the condition for rows of a fleet's nodes; other apps of the pipeline may read what the fleet writes."""
    nodes = ", ".join(map(literal, () if spec.fleet is None else spec.fleet.node_names))
    of_nodes = f"pipeline = {literal(spec.name)} and app in ({nodes})"
    return f"{of_nodes} and time >= {literal(since)} and time <= {literal(now)}"


def _no_rows() -> FleetRows:
    no, none = np.zeros(0, dtype=np.intp), np.zeros(0)
    return FleetRows((), no, no, no, none, none, none, none, none, none, none, none, none, none)


def _rows(table: pa.Table, elastic_s: float) -> FleetRows:
    """Return rows of the table in order; those that were reported twice, once.

    Args:
        table: Rows of ``telemetry/batches``.
        elastic_s: Interval of batches that follow each other as fast as possible, seconds.
    """

    def column(name: str, unknown: float = 0.0) -> Floats:
        values = table[name].to_numpy().astype(float)
        return np.where(np.isnan(values), unknown, values)

    names, stream = _numbered(table["query"])
    _, node = _numbered(table["app"])
    generation, trigger_s, took_s = column("generation").astype(np.intp), column("trigger_s"), column("took_ms") / 1000
    rows = FleetRows(
        names=names,
        stream=stream,
        node=node,
        run=np.unique(node * (int(generation.max()) + 1) + generation, return_inverse=True)[1],
        slots=np.maximum(column("slots"), 1.0),
        time=column("at"),
        batch=column("batch_id"),
        rows_in=np.maximum(column("rows_in"), 0.0),
        source_end=column("source_end", np.nan),
        backlog=column("backlog_rows", np.nan),
        took_s=took_s,
        running_s=np.where(took_s > 0, 0.0, column("running_ms") / 1000),
        interval_s=np.where(trigger_s > 0, trigger_s, elastic_s),
        useful_s=_useful_s(table),
    )
    rows = rows.take(np.lexsort((rows.took_s, rows.batch, rows.time, rows.stream)))
    key = np.stack([rows.stream, rows.run, rows.time, rows.batch, rows.took_s, rows.running_s])
    return rows.take(np.r_[True, (key[:, 1:] != key[:, :-1]).any(axis=0)])


def _numbered(column: pa.ChunkedArray) -> tuple[tuple[str, ...], Ints]:
    """Return the distinct names in alphabetical order, and the index of each."""
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), dtype=np.intp)
    rank[order] = np.arange(len(names))
    return tuple(names[at] for at in order), rank[coded.indices.to_numpy()]


def _useful_s(table: pa.Table) -> Floats:
    """Return the useful time of all operators of each batch, shape (R,), seconds."""
    operators = table["operators"].combine_chunks()
    useful = pc.struct_field(pc.list_flatten(operators), "useful_s").to_numpy(zero_copy_only=False)
    batch = pc.list_parent_indices(operators).to_numpy()
    sums = np.bincount(batch, weights=np.nan_to_num(useful, posinf=0.0, neginf=0.0), minlength=table.num_rows)
    return np.maximum(sums, 0.0)


def spread(begin: Floats, end: Floats, periods: int) -> tuple[Ints, Ints, Floats]:
    """Return which spans overlap which periods, and how much of each period.

    Args:
        begin: Begin of each of B spans, in periods, shape (B,).
        end: Their ends, shape (B,).
        periods: Periods 0 to T - 1 count.

    Returns:
        Span, period and overlap, each of the shape (overlaps,).
    """
    first, last = (np.clip(np.floor(of), 0, periods).astype(np.intp) for of in (begin, end))
    span, period = ranges(first, np.minimum(last, periods - 1) - first + 1)
    return span, period, np.clip(np.minimum(end[span], period + 1) - np.maximum(begin[span], period), 0.0, None)


def ranges(first: Ints, many: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of ranges, one range after another, and the range of each.

    Args:
        first: First number of each range, shape (B,).
        many: How many numbers each has, shape (B,), >= 0.
    """
    owner = np.repeat(np.arange(len(first)), many)
    return owner, first[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many)
