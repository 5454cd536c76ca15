"""Count what input streams recently brought, from the table that ``profile_<pipeline>`` or a feed writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake, literal
from millrace.model.admission import INGEST_OPTIMIZER, TAKEN_IN, StreamCounts
from millrace.model.admission_spec import Admission
from millrace.model.spec import PipelineSpec

STREAMS = "telemetry/streams"


def stream_counts(
    spec: PipelineSpec, tables: ControlTables, after: datetime | None, now: datetime
) -> StreamCounts | None:
    """Return what streams brought in periods that are over and not taken in yet.

    Times are those of the rows, which may be years old, so no clock shows that a period is over. It is over once as
    many newer periods have rows as the spec's ``unfinished`` says. Rows counted by several runs of the profile are
    added up. Rows for a period that was already taken in are lost; rows from the future are left out.

    Args:
        spec: The pipeline.
        tables: Memories of its optimizers, in the lake of its telemetry.
        after: End of the last evaluation (UTC); earlier commits are known. None if nothing is known.
        now: The present (UTC).

    Returns:
        The counts; None if nothing new was measured, no new period is over, or the spec admits no streams.
    """
    period_s = spec.stream_period_s
    if spec.admission is None or period_s is None:
        return None
    lake = tables.lake
    committed = lake.committed_at(STREAMS)
    if committed is None or (after is not None and committed <= after):
        return None
    version = lake.version(STREAMS)
    of, known = f"pipeline = {literal(spec.name)} and stream is not null", taken_in(spec, tables)
    newest = [_number(time, period_s) for time in _periods(lake, of, spec.admission, known, now)]
    begin, end = span(spec.admission, newest, known, period_s)
    if begin >= end:
        return None
    since, until = (datetime.fromtimestamp(number * period_s, UTC) for number in (begin, end))
    counts = lake.query(
        "select stream, time, sum(rows) as rows, count(*) - count(rows) as lost from streams "  # noqa: S608 - literals
        f"where {of} and time >= {literal(since)} and time < {literal(until)} "
        "group by stream, time order by time, stream",
        STREAMS,
    )
    begun = counts["time"].cast(pa.timestamp("s", "UTC"), safe=False).cast(pa.int64()).to_numpy()
    names, index = np.unique(counts["stream"].to_numpy().astype(str), return_inverse=True)
    rows = pc.if_else(pc.equal(counts["lost"], 0), counts["rows"], None)  # a missing count is not 0
    return StreamCounts(
        version=version,
        since=since,
        until=until,
        period_s=period_s,
        stream=tuple(names.tolist()),
        period=tuple((begun // period_s - begin).tolist()),
        index=tuple(index.tolist()),
        rows=tuple(rows.to_pylist()),
    )


def _periods(lake: Lake, of: str, wanted: Admission, known: datetime | None, now: datetime) -> list[datetime]:
    """Return the starts of the newest periods with rows, the newest first; of those that are not taken in yet."""
    new = "" if known is None else f"and time >= {literal(known)} "
    sql = (
        f"select distinct time from streams where {of} and time <= {literal(now)} {new}"  # noqa: S608 - literals
        f"order by time desc limit {wanted.periods + wanted.unfinished}"
    )
    return [row["time"] for row in lake.rows(sql, STREAMS)]


def span(wanted: Admission, newest: Sequence[int], taken_in: datetime | None, period_s: int) -> tuple[int, int]:
    """Return the numbers of the first wanted period and of the one after the last; equal if there is none.

    Args:
        wanted: How many periods are wanted, and how many may still get rows.
        newest: Numbers of the newest periods with rows, from 1970-01-01 UTC on, the newest first.
        taken_in: Time up to which streams were taken in (UTC); None if they were not.
        period_s: Length of a period, seconds.
    """
    over = newest[wanted.unfinished :]
    if not over:
        return 0, 0
    begun = over[-1] if taken_in is None else _number(taken_in, period_s)
    return max(over[0] + 1 - wanted.periods, begun), over[0] + 1


def _number(time: datetime, period_s: int) -> int:
    return int(time.timestamp()) // period_s


def taken_in(spec: PipelineSpec, tables: ControlTables) -> datetime | None:
    """Return the time up to which the optimizer took streams in; None if it did not, or remembers something else."""
    taken_in = tables.memories.latest(spec.name, INGEST_OPTIMIZER).get(TAKEN_IN)
    try:
        return datetime.fromisoformat(taken_in) if isinstance(taken_in, str) else None
    except ValueError:
        return None
