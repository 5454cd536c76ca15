"""How far apart the batches of a driver are: queries wait for their triggers, and batches take time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.store import Lake

TABLE = "telemetry/batches"
NEWEST_ROWS = 50
"""Rows whose triggers and durations count."""
NEWEST_BATCHES = 3
"""Batches per query whose durations count: an app that has caught up returns to its own pace."""
LATE = 3.0
"""Paces after which the next batch is late: under a new load, it may take several times as long as the last one."""

Row = Mapping[str, Any]


def pace_s(rows: Iterable[Row]) -> float:
    """Return the longest usual time between the batches of a query, seconds; 0 if nothing is known.

    It is the trigger's interval, or the duration of the newest batches if they take longer.

    Args:
        rows: Rows of ``telemetry/batches`` of one pipeline, oldest first. Values may be missing or impossible.
    """
    queries: dict[tuple[Any, Any], list[Row]] = {}
    generations: dict[Any, float] = {}
    for row in rows:
        app, generation = row.get("app"), _number(row.get("generation"))
        queries.setdefault((app, row.get("query")), []).append(row)
        generations[app] = max(generations.get(app, 0.0), generation)
    running = [
        of_query
        for (app, _), of_query in queries.items()
        if _number(of_query[-1].get("generation")) == generations[app]
    ]
    return max((max(_trigger_s(of_query[-1]), _longest_s(of_query)) for of_query in running), default=0.0)


def read_pace_s(lake: Lake, pipeline: str) -> float:
    """Return the pace of a pipeline's newest batches, seconds; 0 if there are none.

    Raises:
        MillraceError: If the table's log cannot be read.
    """
    return pace_s(read_recent(lake, RowQuery(TABLE, pipeline, NEWEST_ROWS)).rows.to_pylist())


def late_after_s(pace_s: float, patience_s: float) -> float:
    """Return the time after the newest batch from which the next one is late, seconds.

    Args:
        pace_s: The pace of the batches, seconds.
        patience_s: The limit for batches without a pace, seconds.
    """
    return patience_s + LATE * pace_s


def at_least(span: timedelta, batches: float, pace_s: float) -> timedelta:
    """Return a span that is long enough for some batches at a pace."""
    return max(span, timedelta(seconds=batches * pace_s))


def _longest_s(rows: list[Row]) -> float:
    durations = [_number(dict(row.get("durations_ms") or ()).get("triggerExecution")) / 1000.0 for row in rows]
    return max([duration for duration in durations if duration > 0][-NEWEST_BATCHES:], default=0.0)


def _trigger_s(row: Row) -> float:
    return _number(row.get("trigger_s"))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and value > 0 else 0.0
