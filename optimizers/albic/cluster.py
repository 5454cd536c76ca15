"""From measured key groups to a placement problem on the workers that there are to be.

Symbols:
    b_k    time that a batch keeps a core busy with group k, seconds
    a_ij   what group j saves of it while group i, which it gets much of its input from, is on its worker, seconds
    c      cores of a worker
    s_w    its speed, 1 for the mean one
    T      time of the stateful stages of a batch: the sum over stages of the max over workers of what a worker takes
           for its tasks by rising partition, each on the core that is free first, over s_w

[ALBIC] balances what operators that run at the same time put on a node. Spark runs the stages of a micro-batch one
after another, so workers that are evenly loaded in sum may still idle in every stage: each stage is balanced by itself.
Where groups are fed by few others, a placement beside those is a second start, and the better of both is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from millrace.model.placement import KeyGroups, makespan_s
from millrace.optimizers.albic.last_worker import Stage, relieve
from millrace.optimizers.albic.limits import LEAST_MB, MB, held, left_by_others, limits, megabytes
from millrace.optimizers.albic.options import PlacementOptions
from millrace.optimizers.albic.paper.framework import emptiest
from millrace.optimizers.albic.problem import UNPLACED, Bools, Floats, Ints, Plan, Problem

HALF = 50.0
"""Points of a worker with the mean load of a stage."""


@dataclass(frozen=True)
class Pairs:
    """Groups that are fed by few others.

    Attributes:
        producer: Index of the group that emits, shape (E,).
        consumer: Index of the group that receives, shape (E,).
        bytes: What passes in a batch, shape (E,), > 0.
        saved_s: a_ij, shape (E,), >= 0.
    """

    producer: Ints
    consumer: Ints
    bytes: Floats
    saved_s: Floats

    def near(self, node: Ints) -> Bools:
        """Say which pairs are on one node, shape (E,)."""
        ends = node[self.producer]
        return np.asarray((ends == node[self.consumer]) & (ends >= 0))

    def near_share(self, node: Ints) -> float | None:
        """Return the share of their bytes that stays within a node, 0..1; None without pairs."""
        every = float(self.bytes.sum())
        return float(self.bytes[self.near(node)].sum()) / every if every > 0 else None


@dataclass(frozen=True)
class Cluster:
    """An app's key groups and workers.

    Attributes:
        problem: All groups, their load in seconds a batch where no input is near; workers that are to go are marked.
        workers: Number of each node.
        cores: Cores of a worker.
        pairs: Groups that are fed by few others.
    """

    problem: Problem
    workers: tuple[int, ...]
    cores: int
    pairs: Pairs

    @property
    def even_cores(self) -> float:
        """Cores of the workers that stay, counted as cores of the mean worker."""
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
        """Return when each worker is ready with its part of a stage, seconds.

        Args:
            load: b of the stage's groups by rising partition, seconds.
            node: Worker of each, by index; -1 without one.
        """
        tasks: list[list[float]] = [[] for _ in self.workers]
        for worker, task_s in zip(node.tolist(), load.tolist(), strict=True):
            if worker >= 0:
                tasks[worker].append(task_s)
        speeds = self.problem.capacity.tolist()
        return [makespan_s(of_worker, self.cores) / speed for of_worker, speed in zip(tasks, speeds, strict=True)]

    def bound_s(self) -> float:
        """Return the least T of any placement on the workers that stay, seconds."""
        speed = self.problem.capacity[self.problem.kept]
        least = self._without(np.ones(len(self.pairs.bytes), dtype=bool))
        loads = (least[stage] for stage in self.stages)
        return sum(max(float(load.sum()) / self.even_cores, float(load.max() / speed.max())) for load in loads)

    def _without(self, pairs: Bools) -> Floats:
        """Return the load of every group, with what these pairs save taken off."""
        saved = np.bincount(self.pairs.consumer[pairs], self.pairs.saved_s[pairs], self.problem.groups)
        return np.maximum(self.problem.load - saved, 0.0)


def cluster(groups: KeyGroups, located: Sequence[int], workers: int, cores: int, options: PlacementOptions) -> Cluster:
    """Return the cluster as it is to be.

    Workers beyond those that hold state are new and empty, with the lowest numbers that are free. Where there are to be
    fewer, those with the least to do are marked ([ALBIC], Section 4.2).

    Args:
        groups: What was measured.
        located: Number of the worker that each group is on; -1 without one.
        workers: How many there are to be, >= 1.
        cores: Cores of each.
        options: Costs and limits.

    Raises:
        MillraceError: If the figures make no problem, or state that costs or is limited was not measured.
    """
    present = sorted({worker for worker in located if worker >= 0})
    free = (number for number in range(len(present) + workers) if number not in present)
    numbers = (*present, *(next(free) for _ in range(workers - len(present))))
    index = {number: i for i, number in enumerate(numbers)}
    node = np.array([index.get(worker, UNPLACED) for worker in located], dtype=np.intp)
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
    removed = np.isin(np.arange(len(numbers)), emptiest(problem, len(numbers) - workers))
    return Cluster(replace(problem, removed=removed), numbers, cores, pairs)


def plan_stages(cluster: Cluster, planner: Callable[[Problem], Plan], fixed: Ints) -> tuple[Ints, str]:
    """Return the worker of every group by index, shape (K,), and how far the search came.

    The stage that loses most by its placement is planned first; what it leaves of the budget is the next one's. Where
    groups are fed by few others, the same is done from a placement beside those. Whichever makes the batch shorter is
    taken, of two alike the one that moves less.

    Args:
        cluster: The cluster.
        planner: Places the groups of one stage.
        fixed: Groups that stay where they are, by index.
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
    """Return a placement on which each stage is balanced, from a start that was paid for already."""
    problem, node = cluster.problem, start.copy()
    left, steps = problem.budget - problem.spent(start), []
    for stage in sorted(cluster.stages, key=lambda stage: -_lost_s(cluster, stage, start)):
        plan = planner(part := _stage_problem(cluster, stage, node, left, movable))
        node[stage] = _relieved(cluster, stage, node, part, plan.node, movable)
        left -= part.spent(node[stage]) if np.isfinite(left) else 0.0
        steps.append(plan.stage)
    return node, ", ".join(dict.fromkeys(steps))


def _relieved(cluster: Cluster, stage: Ints, node: Ints, part: Problem, planned: Ints, movable: Bools) -> Ints:
    """Return the shortest of a stage's placements that tell in which order its tasks run.

    Args:
        cluster: The cluster.
        stage: Groups of the stage, by index.
        node: Worker of every group, shape (K,): what holds for other stages.
        part: The stage as a problem of balance.
        planned: How it was balanced.
        movable: Groups that may move, shape (K,).
    """
    if part.caps is not None:  # a swap would have to be checked against them, too
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
    """Return the placement with as many groups beside their input as the budget allows; empty if none gains by it.

    What saves most for its price comes first, and workers take turns: where half of them go, none gets too many.
    """
    problem, pairs = cluster.problem, cluster.pairs
    node, kept = problem.node.copy(), ~problem.removed[problem.node] & (problem.node >= 0)
    fed = kept[pairs.producer] & movable[pairs.consumer] & (pairs.saved_s > 0)
    places, place = np.unique(pairs.consumer[fed] * problem.nodes + node[pairs.producer[fed]], return_inverse=True)
    group, worker = np.divmod(places, problem.nodes)
    saved = np.bincount(place, pairs.saved_s[fed], len(places))
    here = np.zeros(problem.groups)
    stays = worker == node[group]
    here[group[stays]] = saved[stays]
    gain = saved - here[group]
    order = np.lexsort((-gain, group))
    order = order[np.unique(group[order], return_index=True)[1]]  # the best place of each group
    order = order[gain[order] > 0]
    order = order[np.argsort(-gain[order] / problem.cost[group[order]], kind="stable")]
    order = order[np.argsort(_turns(worker[order]), kind="stable")]
    price = np.where(node[group[order]] >= 0, problem.cost[group[order]], 0.0).cumsum()
    chosen = order[price <= problem.budget]
    node[group[chosen]] = worker[chosen]
    return node if len(chosen) else np.zeros(0, dtype=np.intp)


def _turns(worker: Ints) -> Ints:
    """Return how many groups before each one go to the same worker, shape (M,)."""
    by_worker = np.argsort(worker, kind="stable")
    _, first, sizes = np.unique(worker[by_worker], return_index=True, return_counts=True)
    turns = np.zeros(len(worker), dtype=np.intp)
    turns[by_worker] = np.arange(len(worker)) - np.repeat(first, sizes)
    return turns


def _is_allowed(problem: Problem, node: Ints) -> bool:
    """Say whether every group has a worker that stays, and no worker holds more than it may."""
    if (node < 0).any() or problem.removed[node].any():
        return False
    return problem.caps is None or bool((held(problem.caps, node) <= problem.caps.limit).all())


def _pairs(groups: KeyGroups, options: PlacementOptions) -> Pairs:
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
