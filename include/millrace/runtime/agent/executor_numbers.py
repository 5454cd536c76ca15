"""Stable numbers for an app's executors, used by a Deployment's placement.

Spark's executor ids only increase, and mean nothing to the next driver. An executor that registers takes a free number
that the placement names, or else the lowest free one. So a replacement takes the lost executor's number, and its
partitions with it, and the executors of a new driver take the numbers of the former ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from millrace.model.deployment import NOWHERE
from millrace.runtime.agent.allocation import Executor


class ExecutorNumbers:
    """The numbers of one driver's executors."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._present: dict[int, Executor] = {}

    def update(self, executors: Sequence[Executor], placement: Mapping[str, Iterable[int]]) -> Mapping[int, Executor]:
        """Number new executors and return the registered ones by number, in ascending order.

        Args:
            executors: Registered executors, oldest first.
            placement: Executor numbers of each operator's partitions.
        """
        named = sorted(_partitions(placement))
        ids = {executor.id for executor in executors}
        taken = {number for number, executor in self._present.items() if executor.id in ids}
        for executor in executors:
            if executor.id not in self._numbers:
                self._numbers[executor.id] = next(n for n in (*named, *range(len(taken) + 1)) if n not in taken)
                taken.add(self._numbers[executor.id])
        self._present = {self._numbers[executor.id]: executor for executor in executors}
        return dict(sorted(self._present.items()))

    def number(self, executor_id: str) -> int | None:
        """Return the number that an executor has or had; None if it never registered here."""
        return self._numbers.get(executor_id)


def staying(present: Collection[int], placement: Mapping[str, Iterable[int]], count: int) -> set[int]:
    """Return the numbers of the executors that stay: those with the most partitions in a placement, then the lowest.

    Args:
        present: Numbers of the registered executors.
        placement: Executor numbers of each operator's partitions.
        count: How many executors are wanted, >= 1.
    """
    partitions = _partitions(placement)
    return set(sorted(present, key=lambda number: (-partitions[number], number))[:count])


def _partitions(placement: Mapping[str, Iterable[int]]) -> Counter[int]:
    """Return how many partitions a placement assigns to each executor that it names."""
    return Counter(number for executors in placement.values() for number in executors if number != NOWHERE)
