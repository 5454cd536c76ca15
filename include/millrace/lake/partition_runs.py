"""State partitions of running queries as drivers sampled them, and what passed between them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.row_codec import partition_flow_from_row, partition_run_from_row
from millrace.lake.store import Lake
from millrace.model.telemetry import PartitionFlow, PartitionRun

RUNS, FLOWS = "telemetry/partitions", "telemetry/flows"
MOST_ROWS = 100_000
"""Maximum number of rows to read of a table, the newest: an hour of 64 partitions of two operators, sampled every 5 s,
or 24 minutes of flows between all of them."""


def partition_runs(lake: Lake, pipeline: str, since: datetime) -> list[PartitionRun]:
    """Return the state partitions in a pipeline's batches sampled since a time, in the order of commits.

    Args:
        lake: The lake.
        pipeline: Name of the pipeline.
        since: Earliest end of a batch (UTC).

    Raises:
        MillraceError: If the table's log cannot be read.
    """
    return [partition_run_from_row(row) for row in _rows(lake, RUNS, pipeline, since)]


def partition_flows(lake: Lake, pipeline: str, since: datetime) -> list[PartitionFlow]:
    """Return what state partitions passed on in a pipeline's batches sampled since a time.

    Args:
        lake: The lake.
        pipeline: Name of the pipeline.
        since: Earliest end of a batch (UTC).

    Raises:
        MillraceError: If the table's log cannot be read.
    """
    return [partition_flow_from_row(row) for row in _rows(lake, FLOWS, pipeline, since)]


def _rows(lake: Lake, table: str, pipeline: str, since: datetime) -> list[dict[str, Any]]:
    rows = read_recent(lake, RowQuery(table, pipeline, MOST_ROWS, not_before=since)).rows.to_pylist()
    return [row for row in rows if row["time"] >= since]
