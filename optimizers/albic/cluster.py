"""Turn measured key groups into a placement problem on the planned executors.

Symbols:
    b_k    time that a batch keeps a core busy with group k, seconds
    a_ij   what group j saves of it while group i, a main source of its input, is on the same executor, seconds
    c      cores per executor
    s_w    speed of executor w, 1 for the mean one
    T      time of the stateful stages of a batch: the sum over stages of the max over executors of the time for their
           tasks by rising partition, each on the core that is free first, over s_w
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from millrace.model.placement import PartitionLoads, makespan_s
from millrace.optimizers.albic.limits import LEAST_MB, MB, limits, megabytes
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.problem import UNPLACED, Flows, Problem
from millrace.optimizers.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Cluster:
    """An app's key groups and executors.

    Attributes:
        problem: All groups, with their load in seconds per batch if no input is near, and as flows those that get their
            input from few others, with a_ij; executors to remove are marked.
        executors: Executor number of each node.
        cores: Cores per executor.
    """

    problem: Problem
    executors: tuple[int, ...]
    cores: int

    @property
    def even_cores(self) -> float:
        """Cores of the executors that stay, counted as cores of the mean executor."""
        return self.cores * float(self.problem.capacity[self.problem.kept].sum())

    @property
    def stages(self) -> list[Ints]:
        """Groups of each stage, by index."""
        return [np.flatnonzero(self.problem.operator == stage) for stage in np.unique(self.problem.operator)]

    def near_groups(self, node: Ints) -> Bools:
        """Return which groups save something next to others, or let others save, under a placement, shape (K,)."""
        flows = self.problem.flows
        near = flows.near(node) & (flows.saved > 0)
        found = np.zeros(self.problem.groups, dtype=bool)
        found[flows.producer[near]] = found[flows.consumer[near]] = True
        return found

    def batch_s(self, node: Ints) -> float:
        """Return T under a placement, seconds; groups without a node cost nothing."""
        return sum(self.stage_s(stage, node) for stage in self.stages)

    def stage_s(self, stage: Ints, node: Ints) -> float:
        """Return the time of one stage under a placement, seconds."""
        return max(self.finish_s(self.problem.own(node)[stage], node[stage]))

    def finish_s(self, load: Floats, node: Ints) -> list[float]:
        """Return when each executor finishes its part of a stage, seconds.

        Args:
            load: b of the stage's groups by rising partition, seconds.
            node: Executor of each, by index; -1 without one.
        """
        tasks: list[list[float]] = [[] for _ in self.executors]
        for executor, task_s in zip(node.tolist(), load.tolist(), strict=True):
            if executor >= 0:
                tasks[executor].append(task_s)
        speeds = self.problem.capacity.tolist()
        return [makespan_s(of_executor, self.cores) / speed for of_executor, speed in zip(tasks, speeds, strict=True)]

    def bound_s(self) -> float:
        """Return the least T of any placement on the executors that stay, seconds."""
        speed = self.problem.capacity[self.problem.kept]
        least = self.problem.least()
        loads = (least[stage] for stage in self.stages)
        return sum(max(float(load.sum()) / self.even_cores, float(load.max() / speed.max())) for load in loads)


def cluster(
    groups: PartitionLoads, located: Sequence[int], executors: int, cores: int, options: PlacementOptions
) -> Cluster:
    """Return the planned cluster.

    Executors beyond those that hold state are new and empty, with the lowest free numbers. If there are to be fewer,
    the least loaded ones are marked ([ALBIC], Section 4.2).

    Args:
        groups: The measured groups.
        located: Number of the executor that each group is on; -1 without one.
        executors: Planned number of executors, >= 1.
        cores: Cores of each.
        options: Costs and limits.

    Raises:
        MillraceError: If the figures are no valid problem, or state that costs or is limited was not measured.
    """
    present = sorted({executor for executor in located if executor >= 0})
    free = (number for number in range(len(present) + executors) if number not in present)
    numbers = (*present, *(next(free) for _ in range(executors - len(present))))
    index = {number: i for i, number in enumerate(numbers)}
    node = np.array([index.get(executor, UNPLACED) for executor in located], dtype=np.intp)
    flows = _flows(groups, options)
    near = flows.near(node)
    speed = np.array([groups.speeds.of(number) for number in numbers])
    problem = Problem(
        load=np.array(groups.busy_s, dtype=float) + np.bincount(flows.consumer[near], flows.saved[near], len(node)),
        node=node,
        capacity=speed,
        removed=np.zeros(len(numbers), dtype=bool),
        cost=megabytes("state_bytes", groups.state_bytes) + LEAST_MB
        if options.cost == "state"
        else np.ones(len(groups.busy_s)),
        budget=options.budget,
        operator=np.unique(np.array(groups.operator, dtype=str), return_inverse=True)[1].astype(np.intp),
        caps=limits(groups, speed, cores, options),
    )
    removed = np.isin(np.arange(len(numbers)), _emptiest(problem, len(numbers) - executors))
    return Cluster(replace(problem, removed=removed, flows=flows), numbers, cores)


def _emptiest(problem: Problem, count: int) -> Ints:
    """Return the nodes with the least load to move, in ascending order, shape (count,)."""
    loads = problem.loads(problem.node) * problem.capacity
    return np.argsort(loads, kind="stable")[: max(0, count)]


def _flows(groups: PartitionLoads, options: PlacementOptions) -> Flows:
    measured = groups.flows.s_per_mb or 0.0
    s_per_mb = measured if options.remote_s_per_mb is None else options.remote_s_per_mb
    size = np.array(groups.flows.bytes, dtype=float)
    producer, consumer = (np.array(ends, dtype=np.intp) for ends in (groups.flows.producer, groups.flows.consumer))
    return Flows(producer, consumer, rate=size, saved=s_per_mb * size / MB)
