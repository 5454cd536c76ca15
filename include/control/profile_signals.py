"""What key groups and input streams brought of late, from the tables that ``profile_<pipeline>`` or a feed writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from include.lake.control_tables import ControlTables
from include.lake.store import Lake, literal
from include.model.admission import INGEST_OPTIMIZER, TAKEN_IN, StreamCounts
from include.model.admission_spec import Admission
from include.model.placement import KeyGroups
from include.model.spec import PipelineSpec

GROUPS, FLOWS = "telemetry/key_groups", "telemetry/flows"
STREAMS = "telemetry/streams"


def key_groups(spec: PipelineSpec, lake: Lake, after: datetime | None) -> KeyGroups | None:
    """Return the key groups of the newest periods with rows; None if not measured anew, or not to be placed.

    A profile that was committed before an evaluation that ended without signals is left to the next one.

    Args:
        spec: The pipeline.
        lake: Its telemetry.
        after: End of the last evaluation (UTC): what was committed earlier is known; None for "nothing is known".
    """
    if spec.placement is None or spec.profile is None:
        return None
    committed = lake.committed_at(GROUPS)
    if committed is None or (after is not None and committed <= after):
        return None
    version, of = lake.version(GROUPS), f"pipeline = {literal(spec.name)}"
    newest = f"order by time desc limit {spec.placement.periods}"
    seen = lake.rows(f"select distinct time from key_groups where {of} {newest}", GROUPS)  # noqa: S608 - literals
    times = [row["time"] for row in seen]
    if not times:
        return None
    since, until = times[-1], times[0] + timedelta(seconds=spec.profile.period_s)
    inside = f"{of} and time >= {literal(since)}"
    groups = lake.rows(
        "select operator, key_group, max(app) as app, sum(rows_in) as rows, sum(bytes_in) as bytes, "  # noqa: S608 - literals
        "sum(cpu_ms) as cpu_ms, max(state_bytes) as state_bytes "
        f"from key_groups where {inside} group by operator, key_group order by operator, key_group",
        GROUPS,
    )
    flows = lake.rows(
        "select from_operator, from_group, to_operator, to_group, sum(rows) as rows "  # noqa: S608 - literals
        f"from flows where {inside} group by from_operator, from_group, to_operator, to_group "
        "order by from_operator, from_group, to_operator, to_group",
        FLOWS,
    )
    return _key_groups(version, (since, until), len(times) * spec.profile.period_s, groups, flows)


def _key_groups(
    version: int,
    span: tuple[datetime, datetime],
    span_s: float,
    groups: list[dict[str, Any]],
    flows: list[dict[str, Any]],
) -> KeyGroups:
    at = {(g["operator"], g["key_group"]): i for i, g in enumerate(groups)}
    ends = [((f["from_operator"], f["from_group"]), (f["to_operator"], f["to_group"]), f["rows"]) for f in flows]
    known = [(at[a], at[b], (rows or 0) / span_s) for a, b, rows in ends if a in at and b in at]
    return KeyGroups(
        version=version,
        since=span[0],
        until=span[1],
        operator=tuple(g["operator"] for g in groups),
        key_group=tuple(g["key_group"] for g in groups),
        app=tuple(g["app"] for g in groups),
        rows_per_s=tuple((g["rows"] or 0) / span_s for g in groups),
        bytes_per_s=tuple((g["bytes"] or 0) / span_s for g in groups),
        cpu_ratio=tuple(None if g["cpu_ms"] is None else g["cpu_ms"] / 1000 / span_s for g in groups),
        state_bytes=tuple(g["state_bytes"] for g in groups),
        producer=tuple(a for a, _, _ in known),
        consumer=tuple(b for _, b, _ in known),
        flow_rows_per_s=tuple(rows for _, _, rows in known),
    )


def stream_counts(
    spec: PipelineSpec, tables: ControlTables, after: datetime | None, now: datetime
) -> StreamCounts | None:
    """Return what streams brought in periods that are over and were not taken in yet.

    Times are those of the rows themselves, which may be years ago, so no clock says that a period is over: it is once
    as many newer ones have rows as the spec's ``unfinished`` says. Rows that several runs of the profile counted are
    added up; those that come for a period that was taken in already are lost, those from the future are left out.

    Args:
        spec: The pipeline.
        tables: What its optimizers remember, in the lake of its telemetry.
        after: End of the last evaluation (UTC): what was committed earlier is known; None for "nothing is known".
        now: The present (UTC).

    Returns:
        The counts; None if nothing was measured anew, no new period is over, or nobody wants streams admitted.
    """
    period_s = spec.stream_period_s
    if spec.admission is None or period_s is None:
        return None
    lake = tables.lake
    committed = lake.committed_at(STREAMS)
    if committed is None or (after is not None and committed <= after):
        return None
    version = lake.version(STREAMS)
    of = f"pipeline = {literal(spec.name)} and stream is not null"
    begin, end = _span(spec.admission, _periods(lake, of, spec, now), _taken_in(spec, tables), period_s)
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
    rows = pc.if_else(pc.equal(counts["lost"], 0), counts["rows"], None)  # a count that is not there is not 0
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


def _taken_in(spec: PipelineSpec, tables: ControlTables) -> datetime | None:
    """Return up to when the optimizer has taken streams in; None if it has not, or remembers something else."""
    taken_in = tables.memories.latest(spec.name, INGEST_OPTIMIZER).get(TAKEN_IN)
    try:
        return datetime.fromisoformat(taken_in) if isinstance(taken_in, str) else None
    except ValueError:
        return None
