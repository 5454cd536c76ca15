"""The training data of the Gaussian process: measured throughput by operator and parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.row_codec import observation_from_row, observation_row
from millrace.lake.store import Lake
from millrace.model.signals import Observation

TABLE = "control/observations"
KEEP_PER_LEVEL = 20
"""Newest points of each (operator, p) that an evaluation uses. Top-K (ContTune, Section 7) keeps fewer of them."""
MOST_POINTS = 50_000
"""Newest points that are searched for them: a month of one point per minute."""


@dataclass(frozen=True)
class ObservationStore:
    """Observations of all pipelines in ``control/observations``."""

    lake: Lake

    def add(self, pipeline: str, observations: Sequence[Observation], series: str, number: int) -> None:
        """Store an evaluation's observations once.

        Args:
            pipeline: Name of the pipeline.
            observations: Measured points.
            series: Name of the series that ``number`` counts, so a retried task adds nothing twice.
            number: Version of ``telemetry/batches`` up to which the evaluation read.
        """
        if observations:
            rows = [observation_row(pipeline, o) for o in observations]
            self.lake.append(TABLE, rows, {f"observations/{pipeline}/{series}": number})

    def recent(self, pipeline: str, per_level: int = KEEP_PER_LEVEL) -> tuple[Observation, ...]:
        """Return the most recent points of every (operator, p), oldest first."""
        newest = read_recent(self.lake, RowQuery(TABLE, pipeline, MOST_POINTS)).rows
        return newest_of_each([observation_from_row(row) for row in newest.to_pylist()], per_level)


def newest_of_each(points: Sequence[Observation], per_level: int = KEEP_PER_LEVEL) -> tuple[Observation, ...]:
    """Return the newest points of every (operator, p), oldest first.

    Args:
        points: Points, oldest first.
        per_level: Number of points of each to keep, >= 1.
    """
    counts: Counter[tuple[str, int]] = Counter()
    kept: list[Observation] = []
    for point in reversed(points):
        counts[point.operator, point.parallelism] += 1
        if counts[point.operator, point.parallelism] <= per_level:
            kept.append(point)
    return tuple(reversed(kept))
