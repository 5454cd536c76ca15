"""The fixed slots that a stream needs, by batch times measured on this machine: rivals get the best value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from benchmarks.delays_app import Feed
from benchmarks.elastic.pipeline import Pipeline

REPEATED = 2
SIZES_S = (1.0, 3.0)
"""Batches to measure, by the seconds of look-ups per slot."""
MOST_COMMITS = 8
"""A batch of the script takes at most 64 files, which hold this many seconds of a stream."""
UNBOUND_ROWS = (200, 4000)
"""Rows of the measured batches if rows wait for nothing."""


@dataclass(frozen=True)
class BatchTime:
    """Batch duration on some slots: ``fixed_s + rows * row_s``."""

    fixed_s: float
    row_s: float

    @property
    def rows_per_s(self) -> float:
        """Throughput of very large batches."""
        return 1 / self.row_s


def measure(pipeline: Pipeline, feed: Feed, levels: Sequence[int], wait_ms: float) -> dict[int, BatchTime]:
    """Measure a running pipeline's batches, small and large, on each number of slots.

    Args:
        pipeline: A running pipeline with an agent.
        feed: The only writer of its source table.
        levels: Slots.
        wait_ms: Duration of a row's look-up; 0 for compute-bound rows.
    """
    times = {}
    for slots in levels:
        if pipeline.latest().apps[pipeline.spec.app].slots != slots:
            pipeline.await_version(pipeline.resize(slots).version)
        sizes = [int(slots * size_s * 1000 / wait_ms) for size_s in SIZES_S] if wait_ms else UNBOUND_ROWS
        points = []
        for rows in (sizes[0], *(size for _ in range(REPEATED) for size in sizes)):  # the first warms up new executors
            since = datetime.now(UTC)
            feed.commit(rows)
            batch = next(b for b in pipeline.await_batches(1, since) if b.rows_in)
            points.append((batch.rows_in, batch.duration_s))
        times[slots] = fit(points[1:])
    return times


def fit(points: Sequence[tuple[float, float]]) -> BatchTime:
    """Fit batch times to points of rows and seconds; both parts are at least zero."""
    rows, seconds = np.array(points, dtype=float).T
    row_s, fixed_s = np.polyfit(rows, seconds, 1)
    return BatchTime(max(float(fixed_s), 0.0), max(float(row_s), 1e-6))


def longest_lag_s(counts: Sequence[int], batch: BatchTime) -> float:
    """Return the longest time that a row waits for the end of its batch, if a stream runs on fixed slots.

    Args:
        counts: Rows that arrive at the end of each second.
        batch: Duration of batches.
    """
    now, taken, longest = 1.0, 0, 0.0
    while taken < len(counts):
        come = min(int(now), len(counts))
        if come <= taken:
            now = float(taken + 1)
            continue
        through = min(come, taken + MOST_COMMITS)
        rows = sum(counts[taken:through])
        first = taken
        now += batch.fixed_s + rows * batch.row_s if rows else 0.0
        longest = max(longest, now - (first + 1) if rows else 0.0)
        taken = through
    return longest


def needed_slots(counts: Sequence[int], times: Mapping[int, BatchTime], max_lag_s: float) -> int:
    """Return the fewest slots on which a stream keeps the lag goal, or the most slots if none do."""
    keeping = (slots for slots in sorted(times) if longest_lag_s(counts, times[slots]) <= max_lag_s)
    return next(keeping, max(times))
