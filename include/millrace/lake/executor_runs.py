"""The executors that drivers had, and how each ended."""

from __future__ import annotations

from datetime import datetime

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.row_codec import executor_from_row
from millrace.lake.store import Lake
from millrace.model.telemetry import ExecutorRun

TABLE = "telemetry/executors"
MOST_ROWS = 5_000
"""Maximum number of rows to read: at least two per executor."""


def executor_runs(lake: Lake, pipeline: str, since: datetime) -> tuple[ExecutorRun, ...]:
    """Return the executors of a pipeline that registered or ended since a time (UTC), each in its last known state."""
    newest: dict[tuple[str, int, str], ExecutorRun] = {}
    for row in read_recent(lake, RowQuery(TABLE, pipeline, MOST_ROWS, not_before=since)).rows.to_pylist():
        if row["time"] >= since:
            run = executor_from_row(row)
            newest[(run.app, run.generation, run.executor)] = run
    return tuple(newest.values())
