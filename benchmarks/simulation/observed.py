"""The most recent observations of every (operator, level), stored for access without a search."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from millrace.model.signals import Observation

PER_LEVEL = 10
"""Most recent points of each (operator, p) in an evaluation."""


class Observed:
    """Points in the order of measurement; the newest of a level replaces its oldest."""

    def __init__(self) -> None:
        self._kept: dict[int, Observation] = {}
        self._numbers: dict[tuple[str, int], deque[int]] = {}
        self._next = 0

    def add(self, points: Iterable[Observation]) -> None:
        """Add an evaluation's points."""
        for point in points:
            numbers = self._numbers.setdefault((point.operator, point.parallelism), deque())
            if len(numbers) == PER_LEVEL:
                del self._kept[numbers.popleft()]
            numbers.append(self._next)
            self._kept[self._next] = point
            self._next += 1

    def recent(self) -> tuple[Observation, ...]:
        """Return all stored points, oldest first."""
        return tuple(self._kept.values())
