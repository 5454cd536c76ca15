"""What each input stream brought of late, from the table that ``profile_<pipeline>`` writes, or a feed."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from include.lake.memories import MemoryStore
from include.lake.store import Lake, literal
from include.model.admission import ADVISER, TAKEN_IN, StreamCounts
from include.model.admission_spec import Admission
from include.model.spec import PipelineSpec

STREAMS = "telemetry/streams"


def stream_counts(spec: PipelineSpec, lake: Lake, after: datetime | None, now: datetime) -> StreamCounts | None:
    """Return what streams brought in periods that are over and were not taken in yet.

    Times are those of the rows themselves, which may be years ago, so no clock says that a period is over: it is once
    as many newer ones have rows as the spec's ``unfinished`` says. Rows that several runs of the profile counted are
    added up; those that come for a period that was taken in already are lost, those from the future are left out.

    Args:
        spec: The pipeline.
        lake: Its telemetry, and what its optimizers remember.
        after: End of the last look (UTC): what was committed earlier is known; None for "nothing is known".
        now: The present (UTC).

    Returns:
        The counts; None if nothing was measured anew, no new period is over, or nobody wants streams admitted.
    """
    period_s = spec.stream_period_s
    if spec.admission is None or period_s is None:
        return None
    committed = lake.committed_at(STREAMS)
    if committed is None or (after is not None and committed <= after):
        return None
    version = lake.version(STREAMS)
    of = f"pipeline = {literal(spec.name)} and stream is not null"
    begin, end = _span(spec.admission, _periods(lake, of, spec, now), _taken_in(spec, lake), period_s)
    if begin >= end:
        return None
    since, until = (datetime.fromtimestamp(number * period_s, UTC) for number in (begin, end))
    found = lake.query(
        "select stream, time, sum(rows) as rows, count(*) - count(rows) as lost from streams "  # noqa: S608 - literals
        f"where {of} and time >= {literal(since)} and time < {literal(until)} "
        "group by stream, time order by time, stream",
        STREAMS,
    )
    begun = found["time"].cast(pa.timestamp("s", "UTC"), safe=False).cast(pa.int64()).to_numpy()
    names, index = np.unique(found["stream"].to_numpy().astype(str), return_inverse=True)
    rows = pc.if_else(pc.equal(found["lost"], 0), found["rows"], None)  # a count that is not there is not 0
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


def _periods(lake: Lake, of: str, spec: PipelineSpec, now: datetime) -> list[datetime]:
    """Return the begins of the newest periods with rows, the newest first."""
    wanted = spec.admission
    most = wanted.periods + wanted.unfinished if wanted else 0
    sql = (
        f"select distinct time from streams where {of} and time <= {literal(now)} "  # noqa: S608 - literals
        f"order by time desc limit {most}"
    )
    return [row["time"] for row in lake.rows(sql, STREAMS)]


def _span(wanted: Admission, times: list[datetime], taken_in: datetime | None, period_s: int) -> tuple[int, int]:
    """Return the first period that is asked for and the first that is not, as numbers; equal if there is none."""
    over = times[wanted.unfinished :]
    if not over:
        return 0, 0
    end = _number(over[0], period_s) + 1
    begun = over[-1] if taken_in is None else taken_in
    return max(end - wanted.periods, _number(begun, period_s)), end


def _number(time: datetime, period_s: int) -> int:
    return int(time.timestamp()) // period_s


def _taken_in(spec: PipelineSpec, lake: Lake) -> datetime | None:
    """Return up to when the optimizer has taken streams in; None if it has not, or remembers something else."""
    told = MemoryStore(lake).latest(spec.name, ADVISER).get(TAKEN_IN)
    try:
        return datetime.fromisoformat(told) if isinstance(told, str) else None
    except ValueError:
        return None
