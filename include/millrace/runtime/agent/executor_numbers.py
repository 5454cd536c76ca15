"""Stable numbers for an app's executors, used by a Deployment's placement.

Spark's executor ids only increase, and mean nothing to the next driver. An executor takes the lowest free number when
it registers. So a replacement takes the lost executor's number, and its partitions with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from millrace.runtime.agent.allocation import Executor


class ExecutorNumbers:
    """The numbers of one driver's executors."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._present: dict[int, Executor] = {}

    def update(self, executors: Sequence[Executor]) -> Mapping[int, Executor]:
        """Number new executors and return the registered ones by number, in ascending order.

        Args:
            executors: Registered executors, oldest first.
        """
        ids = {executor.id for executor in executors}
        taken = {number for number, executor in self._present.items() if executor.id in ids}
        for executor in executors:
            if executor.id not in self._numbers:
                self._numbers[executor.id] = next(n for n in range(len(taken) + 1) if n not in taken)
                taken.add(self._numbers[executor.id])
        self._present = {self._numbers[executor.id]: executor for executor in executors}
        return dict(sorted(self._present.items()))

    def number(self, executor_id: str) -> int | None:
        """Return the number that an executor has or had; None if it never registered here."""
        return self._numbers.get(executor_id)


def staying(present: Collection[int], placement: Mapping[str, Iterable[int]], count: int) -> set[int]:
    """Return the numbers of the executors that stay: first those that a placement names, then the lowest.

    Args:
        present: Numbers of the registered executors.
        placement: Executor numbers of each operator's partitions.
        count: How many executors are wanted, >= 1.
    """
    named = {executor for executors in placement.values() for executor in executors}
    return set(sorted(present, key=lambda number: (number not in named, number))[:count])
