"""Measure one period of a stream join, from the tables that its job writes with every micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from millrace.lake.store import Lake, literal
from millrace.model.join import JoinSettings, JoinSignals
from millrace.model.spec import PipelineSpec

WORKERS, STREAMS = "telemetry/workers", "telemetry/streams"

REACH = timedelta(days=1)
"""How far back to look for the newest micro-batch; a join whose streams are silent for longer is unknown."""

MOST_ROWS = 10_000
"""Most rows of one micro-batch: twice the workers that a spec allows, as some may be leaving."""

MOST_COUNT = 2**53
"""Largest count that is believed; above it, neighbouring integers share one float."""


@dataclass(frozen=True)
class _Window:
    """What the workers kept after one micro-batch."""

    settings: JoinSettings
    capacity: int
    tuples: tuple[int | None, ...]
    offered: int | None
    partitions: int | None


def join_signals(spec: PipelineSpec, lake: Lake, since: datetime, until: datetime) -> JoinSignals | None:
    """Return what a period measured of a pipeline's join.

    A lost or impossible count is unknown: None for a worker's window and for what was offered, left out for a stream.
    If the settings in force, the workers or their messages are wrong, none of the rows is believed.

    Args:
        spec: The pipeline.
        lake: Its telemetry.
        since: Start of the period (UTC), exclusive.
        until: End of the period (UTC), inclusive.

    Returns:
        The signals; None without a join, before its first micro-batch, and if the telemetry is not believed.
    """
    if spec.join is None:
        return None
    now, before = _window(spec, lake, until), _window(spec, lake, since)
    passed = _passed(spec, lake, since, until)
    if now is None or passed is None:
        return None
    arrived, dropped = _streams(spec, lake, since, until)
    return JoinSignals(
        workers=now.settings.workers,
        block=now.settings.block,
        shed=now.settings.shed,
        capacity=now.capacity,
        window_s=spec.join.window_s,
        window_tuples=now.tuples,
        offered=now.offered,
        until=until,
        period_s=(until - since).total_seconds(),
        offered_before=before.offered if before else None,
        arrived=arrived,
        dropped=dropped,
        messages=passed[0],
        bytes=passed[1],
        partitions=now.partitions,
    )


def _window(spec: PipelineSpec, lake: Lake, at: datetime) -> _Window | None:
    """Return what the workers kept after the newest micro-batch at a time; None if there is none, or none believed."""
    rows = lake.rows(
        "select generation, batch_id, worker, window_tuples, capacity, offered, workers, block, shed_ratio, partitions "  # noqa: S608 - literals
        f"from workers where {_between(spec, at - REACH, at)} and generation is not null and batch_id is not null "
        f"order by generation desc, batch_id desc, worker limit {MOST_ROWS}",
        WORKERS,
    )
    newest = [row for row in rows if _batch(row) == _batch(rows[0])]
    settings = {(row["workers"], row["block"], row["shed_ratio"], row["capacity"]) for row in newest}
    ids = {row["worker"] for row in newest}
    if len(settings) != 1 or None in ids or len(ids) < len(newest):
        return None
    workers, block, shed, capacity = settings.pop()
    if None in (workers, block, shed, capacity) or not _can_be(workers, block, shed, capacity) or len(ids) < workers:
        return None
    offered = [_count(row["offered"]) for row in newest]
    return _Window(
        JoinSettings(workers, block, shed),
        capacity,
        tuple(_count(row["window_tuples"]) for row in newest),
        None if None in offered else sum(filter(None, offered)),
        _partitions(newest, workers),
    )


def _partitions(rows: Sequence[Mapping[str, Any]], workers: int) -> int | None:
    """Return the number of state partitions; None if the workers disagree, or it is less than the workers."""
    counts = {row["partitions"] for row in rows}
    (count,) = counts if len(counts) == 1 else (None,)
    return count if count is not None and workers <= count <= MOST_COUNT else None


def _batch(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["generation"], row["batch_id"]


def _can_be(workers: int, block: int, shed: float, capacity: int) -> bool:
    return workers >= 1 and block >= 1 and 0.0 <= shed <= 1.0 and 2 <= capacity <= MOST_COUNT


def _passed(spec: PipelineSpec, lake: Lake, since: datetime, until: datetime) -> tuple[int, int] | None:
    """Return a period's messages and their bytes; None if a count was lost or is impossible."""
    rows = lake.rows(
        f"select count(*) as rows, {_sums('messages', 'bytes')} from workers "  # noqa: S608 - literals
        f"where {_between(spec, since, until)}",
        WORKERS,
    )
    if not rows or not rows[0]["rows"]:
        return 0, 0
    messages, size = _sum(rows[0], "messages"), _sum(rows[0], "bytes")
    return None if messages is None or size is None else (messages, size)


def _streams(
    spec: PipelineSpec, lake: Lake, since: datetime, until: datetime
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the rows that arrived and the rows that were shed in a period, by stream."""
    known: Sequence[str] = list(spec.join.streams) if spec.join else []
    rows = lake.rows(
        f"select stream, count(*) as rows, {_sums('rows', 'shed_rows')} from streams "  # noqa: S608 - literals
        f"where {_between(spec, since, until)} group by stream order by stream",
        STREAMS,
    )
    arrived: dict[str, int] = {}
    dropped: dict[str, int] = {}
    for row in rows:
        came, shed = _sum(row, "rows"), _sum(row, "shed_rows")
        if row["stream"] not in known or came is None or (shed or 0) > came:
            continue
        arrived[row["stream"]] = came
        if shed is not None:
            dropped[row["stream"]] = shed
    return arrived, dropped


def _between(spec: PipelineSpec, since: datetime, until: datetime) -> str:
    """Return the condition on rows of the pipeline's app in a span of time."""
    return (
        f"pipeline = {literal(spec.name)} and app = {literal(spec.app)} "
        f"and time > {literal(since)} and time <= {literal(until)} "
        f"and date >= cast({literal(f'{since:%Y-%m-%d}')} as date)"
    )


def _sums(*columns: str) -> str:
    """Return sums of columns that cannot overflow, each column's minimum, and how many values are lost."""
    return ", ".join(
        f"sum(cast({c} as double)) as {c}_sum, min({c}) as {c}_min, count(*) - count({c}) as {c}_lost" for c in columns
    )


def _sum(row: Mapping[str, Any], column: str) -> int | None:
    total, least = row[f"{column}_sum"], row[f"{column}_min"]
    return int(total) if not row[f"{column}_lost"] and least >= 0 and total <= MOST_COUNT else None


def _count(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= MOST_COUNT else None
