"""Lets executors leave: first without their state partitions, then after their tasks, then without their blocks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.runtime.agent.allocation import Allocation, Executor
from millrace.runtime.agent.placement import StatePlacement
from millrace.runtime.triggers import runs_batch

DRAIN_S = 60.0
"""Longest time that leaving executors may keep state. An executor that leaves in the middle of a batch takes map output
with it that the batch still needs, and stages run again."""

END_S = 30.0
"""Time for a decommissioned executor to hand over its blocks before it is killed, after its last task."""

TASKS_S = 600.0
"""Longest time that a decommissioned executor may run tasks: one of them may hang."""


@dataclass(frozen=True)
class Wait:
    """How long state partitions may stay elsewhere, and the batch of each query that ends the wait, by run."""

    until_s: float
    batches: Mapping[str, int]


@dataclass
class _Gone:
    """Until when a decommissioned executor may run tasks, and when it last ran one."""

    until_s: float
    busy_s: float


class Departures:
    """Follows the executors that an app no longer needs.

    Args:
        allocation: The app's executors.
        placement: Its state partitions.
    """

    def __init__(self, allocation: Allocation, placement: StatePlacement) -> None:
        self._allocation, self._placement = allocation, placement
        self._drains: dict[str, Wait] = {}
        self._gone: dict[str, _Gone] = {}

    def remaining(self, registered: Sequence[Executor]) -> list[Executor]:
        """Return the executors that were not decommissioned, and kill those that do not end after their last task."""
        now, gone = time.monotonic(), [executor for executor in registered if executor.id in self._gone]
        busy = self._allocation.busy() if gone else ()
        self._gone = {executor.id: self._gone[executor.id] for executor in gone}
        for executor in gone:
            times = self._gone[executor.id]
            if executor.id in busy and now < times.until_s:
                times.busy_s = now
            elif now - times.busy_s > END_S:
                times.busy_s = now
                self._allocation.kill(executor)
        return [executor for executor in registered if executor.id not in self._gone]

    def let_go(self, leaving: Sequence[Executor], queries: Sequence[Any], batches: Mapping[str, int]) -> int:
        """Decommission each executor once a whole batch has run without state on it, or after ``DRAIN_S``.

        Args:
            leaving: Executors whose state partitions have been assigned to others.
            queries: The queries that run.
            batches: The last finished batch of each, by run.

        Returns:
            How many were decommissioned.
        """
        now = time.monotonic()
        # two batches: the one that ran during the assignment, and one that followed it
        begun = Wait(now + DRAIN_S, {run: newest + 2 for run, newest in batches.items()})
        self._drains = {executor.id: self._drains.get(executor.id, begun) for executor in leaving}
        late = {id for id, drain in self._drains.items() if now >= drain.until_s}
        due = {id for id, drain in self._drains.items() if _have_run(queries, drain.batches, batches)} - late
        if due:
            due -= {self._placement.executor_of(p) for query in queries for p in self._placement.partitions(query)}
        going = [executor for executor in leaving if executor.id in due | late]
        for executor in going:
            self._allocation.let_go(executor)
            self._gone[executor.id] = _Gone(now + TASKS_S, now)
        return len(going)


def _have_run(queries: Sequence[Any], due: Mapping[str, int], batches: Mapping[str, int]) -> bool:
    """Return whether each query that runs a batch has ended the one that is due, by run."""
    runs = [str(query.runId) for query in queries if runs_batch(query._jsq)]
    return all(batches.get(run, -1) >= due.get(run, 1) for run in runs)
