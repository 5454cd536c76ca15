"""Measure what moving state partitions cost: how many moved, what they loaded, and the longest batch since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.pace import at_least
from millrace.lake.partition_runs import partition_runs
from millrace.lake.row_codec import batch_from_row
from millrace.lake.store import Lake
from millrace.model.decision import Reconfiguration
from millrace.model.telemetry import PartitionRun

MOVED, LOADED, LONGEST = "moved_partitions", "loaded_mb", "longest_batch_s"
"""Keys of ``achieved``, in addition to the predicted ones."""
BEFORE = timedelta(minutes=3)
"""How long before a change to look for its partitions; drivers measure the size of states once a minute."""
BEFORE_BATCHES = 3
"""Fewest batches that this must cover."""
MOST_BATCHES = 2_000
"""Most batches to read."""
MB = 1e6


def placement_cost(lake: Lake, change: Reconfiguration, until: datetime, trigger_s: float = 0.0) -> Mapping[str, float]:
    """Return what the moves of a change cost; empty if no batch was sampled before it, or none after it.

    The size of what was loaded is missing if a partition's state was never measured.

    Args:
        lake: Lake of the telemetry.
        change: The change.
        until: End of the measurement (UTC), when the moves are over.
        trigger_s: Interval of the query's trigger, seconds.

    Raises:
        MillraceError: If a table's log cannot be read.
    """
    runs = [
        run
        for run in partition_runs(lake, change.pipeline, change.started - at_least(BEFORE, BEFORE_BATCHES, trigger_s))
        if (run.app, run.generation) == (change.app, change.generation) and run.time <= until
    ]
    before = _executors([run for run in runs if run.time <= change.started])
    after = _executors([run for run in runs if run.time > change.started])
    if not before or not after:
        return {}
    moved = [key for key in after if before.get(key, after[key]) != after[key]]
    sizes = {_key(run): run.state_bytes for run in runs if run.state_bytes is not None}
    cost = {MOVED: float(len(moved))}
    if sizes.keys() >= set(moved):
        cost[LOADED] = round(sum(sizes[key] for key in moved) / MB, 3)
    if (longest_s := _longest_batch_s(lake, change, until)) is not None:
        cost[LONGEST] = longest_s
    return cost


def _executors(runs: Sequence[PartitionRun]) -> Mapping[tuple[str, int, int], str]:
    """Return the last executor of each partition."""
    return {_key(run): run.executor for run in sorted(runs, key=lambda run: run.time)}


def _key(run: PartitionRun) -> tuple[str, int, int]:
    return run.query, run.operator, run.partition


def _longest_batch_s(lake: Lake, change: Reconfiguration, until: datetime) -> float | None:
    query = RowQuery("telemetry/batches", change.pipeline, MOST_BATCHES, not_before=change.started)
    rows = read_recent(lake, query).rows.to_pylist()
    batches = [batch_from_row(row) for row in rows if change.started < row["time"] <= until]
    times = [batch.duration_s for batch in batches if (batch.app, batch.generation) == (change.app, change.generation)]
    return max(times, default=None)
