"""Find the input streams that bring the most rows, if a profile of the source counts them."""

from __future__ import annotations

from datetime import datetime, timedelta

from millrace.lake.store import Lake, literal
from millrace.model.spec import PipelineSpec

STREAMS = "telemetry/streams"
PERIODS, MOST = 12, 3
"""Newest periods that count, and most streams that are named."""
NOTABLE = 2.0
"""A stream is hot if its share is more than this multiple of the mean share."""


def hot_streams(lake: Lake, spec: PipelineSpec, now: datetime) -> tuple[tuple[str, float], ...]:
    """Return the streams with far more rows than the mean, the largest first, each with its share of all rows.

    Args:
        lake: The telemetry.
        spec: The pipeline.
        now: The present (UTC).
    """
    if spec.stream_period_s is None or lake.committed_at(STREAMS) is None:
        return ()
    of = f"pipeline = {literal(spec.name)} and stream is not null and time <= {literal(now)}"
    newest = lake.rows(f"select max(time) as time from streams where {of}", STREAMS)  # noqa: S608 - literals
    if not newest or newest[0]["time"] is None:
        return ()
    since = newest[0]["time"] - timedelta(seconds=PERIODS * spec.stream_period_s)
    sql = (
        f"select stream, sum(rows) as rows from streams where {of} and time > {literal(since)} "  # noqa: S608 - literals
        "group by stream"
    )
    rows = {row["stream"]: row["rows"] or 0 for row in lake.rows(sql, STREAMS)}
    every = sum(rows.values())
    hot = [(name, count / every) for name, count in rows.items() if count * len(rows) > NOTABLE * every]
    return tuple(sorted(hot, key=lambda stream: (-stream[1], stream[0]))[:MOST])
