"""Turn measured key groups into a placement problem on the planned executors.

Symbols:
    b_k    time that a batch keeps a core busy with group k, seconds
    a_ij   what group j saves of it while group i, a main source of its input, is on the same executor, seconds
    c      cores per executor
    s_w    speed of executor w, 1 for the mean one
    T      time of the stateful stages of a batch: the sum over stages of the max over executors of the time for their
           tasks by rising partition, each on the core that is free first, over s_w

[ALBIC] balances the load on a node from operators that run at the same time. Spark runs the stages of a micro-batch one
after another, and executors with equal total load may still idle in every stage. So each stage is balanced separately.
If groups get their input from few others, a placement next to those is a second start; the better result is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from millrace.model.placement import PartitionLoads, makespan_s
from millrace.optimizers.albic.last_executor import Stage, relieve
from millrace.optimizers.albic.limits import LEAST_MB, MB, held, left_by_others, limits, megabytes
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.paper.framework import emptiest
from millrace.optimizers.albic.problem import UNPLACED, Bools, Floats, Ints, Plan, Problem

HALF = 50.0
"""Points of an executor with the mean load of a stage."""


@dataclass(frozen=True)
class Pairs:
    """Groups that get their input from few others.

    Attributes:
        producer: Index of the group that emits, shape (E,).
        consumer: Index of the group that receives, shape (E,).
        bytes: Bytes passed per batch, shape (E,), > 0.
        saved_s: a_ij, shape (E,), >= 0.
    """

    producer: Ints
    consumer: Ints
    bytes: Floats
    saved_s: Floats

    def near(self, node: Ints) -> Bools:
        """Return which pairs are on one node, shape (E,)."""
        ends = node[self.producer]
        return np.asarray((ends == node[self.consumer]) & (ends >= 0))

    def near_share(self, node: Ints) -> float | None:
        """Return the share of their bytes that stays within a node, 0..1; None without pairs."""
        every = float(self.bytes.sum())
        return float(self.bytes[self.near(node)].sum()) / every if every > 0 else None


@dataclass(frozen=True)
class Cluster:
    """An app's key groups and executors.

    Attributes:
        problem: All groups, with their load in seconds per batch if no input is near; executors to remove are marked.
        executors: Executor number of each node.
        cores: Cores per executor.
        pairs: Groups that get their input from few others.
    """

    problem: Problem
    executors: tuple[int, ...]
    cores: int
    pairs: Pairs

    @property
    def even_cores(self) -> float:
        """Cores of the executors that stay, counted as cores of the mean executor."""
        return self.cores * float(self.problem.capacity[self.problem.kept].sum())

    @property
    def stages(self) -> list[Ints]:
        """Groups of each stage, by index."""
        return [np.flatnonzero(self.problem.operator == stage) for stage in np.unique(self.problem.operator)]

    def load(self, node: Ints) -> Floats:
        """Return b of every group under a placement, seconds, shape (K,)."""
        return self._without(self.pairs.near(node))

    def batch_s(self, node: Ints) -> float:
        """Return T under a placement, seconds; groups without a node cost nothing."""
        return sum(self.stage_s(stage, node) for stage in self.stages)

    def stage_s(self, stage: Ints, node: Ints) -> float:
        """Return the time of one stage under a placement, seconds."""
        return max(self.finish_s(self.load(node)[stage], node[stage]))

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
        least = self._without(np.ones(len(self.pairs.bytes), dtype=bool))
        loads = (least[stage] for stage in self.stages)
        return sum(max(float(load.sum()) / self.even_cores, float(load.max() / speed.max())) for load in loads)

    def _without(self, pairs: Bools) -> Floats:
        """Return the load of every group, minus what these pairs save."""
        saved = np.bincount(self.pairs.consumer[pairs], self.pairs.saved_s[pairs], self.problem.groups)
        return np.maximum(self.problem.load - saved, 0.0)


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
    pairs = _pairs(groups, options)
    near = pairs.near(node)
    speed = np.array([groups.speeds.of(number) for number in numbers])
    problem = Problem(
        load=np.array(groups.busy_s, dtype=float) + np.bincount(pairs.consumer[near], pairs.saved_s[near], len(node)),
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
    removed = np.isin(np.arange(len(numbers)), emptiest(problem, len(numbers) - executors))
    return Cluster(replace(problem, removed=removed), numbers, cores, pairs)


def plan_stages(cluster: Cluster, planner: Callable[[Problem], Plan], fixed: Ints) -> tuple[Ints, str]:
    """Return the executor of every group by index, shape (K,), and how far the search came.

    The stage that loses most by its placement is planned first; the next one gets the rest of the budget. If groups get
    their input from few others, the same is done from a placement next to those. The plan with the shortest batch wins;
    of equals, the one that moves less.

    Args:
        cluster: The cluster.
        planner: Places the groups of one stage.
        fixed: Groups that must not move, by index.
    """
    problem = cluster.problem
    movable = np.ones(problem.groups, dtype=bool)
    movable[fixed] = False
    found = [_balanced(cluster, planner, problem.node, movable)]
    if len(beside := _beside(cluster, movable)):
        found.append(_balanced(cluster, planner, beside, movable))
        if _is_allowed(problem, beside):
            found.append((beside, "collocated"))
    return min(found, key=lambda plan: (round(cluster.batch_s(plan[0]), 9), problem.spent(plan[0])))


def _balanced(cluster: Cluster, planner: Callable[[Problem], Plan], start: Ints, movable: Bools) -> tuple[Ints, str]:
    """Return a placement with every stage balanced, from a start that is already paid for."""
    problem, node = cluster.problem, start.copy()
    left, steps = problem.budget - problem.spent(start), []
    for stage in sorted(cluster.stages, key=lambda stage: -_lost_s(cluster, stage, start)):
        plan = planner(part := _stage_problem(cluster, stage, node, left, movable))
        node[stage] = _relieved(cluster, stage, node, part, plan.node, movable)
        left -= part.spent(node[stage]) if np.isfinite(left) else 0.0
        steps.append(plan.stage)
    return node, ", ".join(dict.fromkeys(steps))


def _relieved(cluster: Cluster, stage: Ints, node: Ints, part: Problem, planned: Ints, movable: Bools) -> Ints:
    """Return the shortest placement of a stage, given the order in which its tasks run.

    Args:
        cluster: The cluster.
        stage: Groups of the stage, by index.
        node: Executor of every group, shape (K,), for the other stages.
        part: The stage as a balancing problem.
        planned: Its balanced placement.
        movable: Groups that may move, shape (K,).
    """
    if part.caps is not None:  # swaps would have to be checked against caps, too
        return planned
    problem, near = cluster.problem, np.zeros(cluster.problem.groups, dtype=bool)
    near[cluster.pairs.consumer[cluster.pairs.near(node)]] = True
    of_stage = Stage(
        load=cluster.load(node)[stage],
        origin=part.node,
        movable=movable[stage] & ~near[stage],
        cost=problem.cost[stage],
        budget=part.budget,
        speed=part.capacity,
        kept=~part.removed,
        cores=cluster.cores,
    )
    stays = (part.node >= 0).all() and not part.removed[part.node].any()
    found = [planned, *(relieve(of_stage, start) for start in ([planned, part.node] if stays else [planned]))]
    return min(found, key=lambda of: (round(max(cluster.finish_s(of_stage.load, of)), 9), part.spent(of)))


def _beside(cluster: Cluster, movable: Bools) -> Ints:
    """Return the placement with as many groups next to their input as the budget allows; empty if none gains by it.

    Groups that save most for their price come first. Executors take turns: if half of the groups move, none gets too
    many.
    """
    problem, pairs = cluster.problem, cluster.pairs
    node, kept = problem.node.copy(), ~problem.removed[problem.node] & (problem.node >= 0)
    fed = kept[pairs.producer] & movable[pairs.consumer] & (pairs.saved_s > 0)
    places, place = np.unique(pairs.consumer[fed] * problem.nodes + node[pairs.producer[fed]], return_inverse=True)
    group, executor = np.divmod(places, problem.nodes)
    saved = np.bincount(place, pairs.saved_s[fed], len(places))
    here = np.zeros(problem.groups)
    stays = executor == node[group]
    here[group[stays]] = saved[stays]
    gain = saved - here[group]
    order = np.lexsort((-gain, group))
    order = order[np.unique(group[order], return_index=True)[1]]  # the best place of each group
    order = order[gain[order] > 0]
    order = order[np.argsort(-gain[order] / problem.cost[group[order]], kind="stable")]
    order = order[np.argsort(_turns(executor[order]), kind="stable")]
    price = np.where(node[group[order]] >= 0, problem.cost[group[order]], 0.0).cumsum()
    chosen = order[price <= problem.budget]
    node[group[chosen]] = executor[chosen]
    return node if len(chosen) else np.zeros(0, dtype=np.intp)


def _turns(executor: Ints) -> Ints:
    """Return how many groups before each one go to the same executor, shape (M,)."""
    by_executor = np.argsort(executor, kind="stable")
    _, first, sizes = np.unique(executor[by_executor], return_index=True, return_counts=True)
    turns = np.zeros(len(executor), dtype=np.intp)
    turns[by_executor] = np.arange(len(executor)) - np.repeat(first, sizes)
    return turns


def _is_allowed(problem: Problem, node: Ints) -> bool:
    """Return whether every group has an executor that stays, and no executor holds more than allowed."""
    if (node < 0).any() or problem.removed[node].any():
        return False
    return problem.caps is None or bool((held(problem.caps, node) <= problem.caps.limit).all())


def _pairs(groups: PartitionLoads, options: PlacementOptions) -> Pairs:
    flows = groups.flows
    measured = flows.s_per_mb or 0.0
    s_per_mb = measured if options.remote_s_per_mb is None else options.remote_s_per_mb
    size = np.array(flows.bytes, dtype=float)
    producer, consumer = (np.array(ends, dtype=np.intp) for ends in (flows.producer, flows.consumer))
    return Pairs(producer, consumer, size, s_per_mb * size / MB)


def _lost_s(cluster: Cluster, stage: Ints, node: Ints) -> float:
    even = float(cluster.load(node)[stage].sum()) / cluster.even_cores
    return cluster.stage_s(stage, node) - even


def _stage_problem(cluster: Cluster, stage: Ints, node: Ints, budget: float, movable: Bools) -> Problem:
    problem = cluster.problem
    load = cluster.load(node)[stage]
    whole = float(load.sum())
    price = problem.cost[stage]
    if not movable[stage].all() and np.isfinite(budget):
        price = np.where(movable[stage], price, budget + 1.0 + float(price.max()))
    return Problem(
        load=load / whole * (HALF * float(problem.capacity[problem.kept].sum())) if whole > 0 else load,
        node=problem.node[stage],
        capacity=problem.capacity,
        removed=problem.removed,
        cost=price,
        budget=max(0.0, budget),
        caps=None if problem.caps is None else left_by_others(problem.caps, stage, node),
    )
