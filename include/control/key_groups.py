"""What each key group brought of late, from the tables that ``profile_<pipeline>`` writes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from include.lake.store import Lake, literal
from include.model.placement import KeyGroups
from include.model.spec import PipelineSpec

GROUPS, FLOWS = "telemetry/key_groups", "telemetry/flows"


def key_groups(spec: PipelineSpec, lake: Lake, after: datetime | None) -> KeyGroups | None:
    """Return the key groups of the newest periods with rows; None if not measured anew, or not to be placed.

    A profile that was committed before a look that ended without signals is left to the next one.

    Args:
        spec: The pipeline.
        lake: Its telemetry.
        after: End of the last look (UTC): what was committed earlier is known; None for "nothing is known".
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
    return _told(version, (since, until), len(times) * spec.profile.period_s, groups, flows)


def _told(
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
