"""From measured key groups to a placement problem on the workers that there are to be.

Symbols:
    b_k    time that a batch keeps a core busy with group k, seconds
    c      cores of a worker
    T      time of the stateful stages of a batch: the sum over stages of max over workers of max(sum b_k / c, max b_k)

[ALBIC] balances what operators that run at the same time put on a node. Spark runs the stages of a micro-batch one
after another, so workers that are evenly loaded in sum may still idle in every stage: each stage is balanced by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from include.model.errors import MillraceError
from include.model.placement import KeyGroups
from optimizers.albic.contraction import total
from optimizers.albic.options import PlacementOptions
from optimizers.albic.paper.framework import emptiest
from optimizers.albic.problem import UNPLACED, Bools, Caps, Floats, Ints, Plan, Problem

HALF = 50.0
"""Points of a worker with the mean load of a stage."""
MB = 1e6
LEAST_MB = 1e-6
"""What stands for no state, and for no room."""


@dataclass(frozen=True)
class Cluster:
    """An app's key groups and workers.

    Attributes:
        problem: All groups, their load in seconds a batch; workers that are to go are marked.
        workers: Number of each node.
        cores: Cores of a worker.
    """

    problem: Problem
    workers: tuple[int, ...]
    cores: int

    @property
    def stages(self) -> list[Ints]:
        """Groups of each stage, by index."""
        return [np.flatnonzero(self.problem.operator == stage) for stage in np.unique(self.problem.operator)]

    def batch_s(self, node: Ints) -> float:
        """Return T under a placement, seconds; groups without a node cost nothing."""
        return sum(self.stage_s(stage, node) for stage in self.stages)

    def stage_s(self, stage: Ints, node: Ints) -> float:
        """Return the time of one stage under a placement, seconds."""
        load, at = self.problem.load[stage], node[stage]
        placed = at >= 0
        if not placed.any():
            return 0.0
        return max(
            float(total(at[placed], load[placed], len(self.workers)).max()) / self.cores, float(load[placed].max())
        )

    def bound_s(self) -> float:
        """Return the least T of any placement on the workers that stay, seconds."""
        cores = self.cores * len(self.problem.kept)
        loads = (self.problem.load[stage] for stage in self.stages)
        return sum(max(float(load.sum()) / cores, float(load.max())) for load in loads)


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
    problem = Problem(
        load=np.array(groups.busy_s, dtype=float),
        node=np.array([index.get(worker, UNPLACED) for worker in located], dtype=np.intp),
        capacity=np.ones(len(numbers)),
        removed=np.zeros(len(numbers), dtype=bool),
        cost=_state_mb(groups) + LEAST_MB if options.cost == "state" else np.ones(len(groups.busy_s)),
        budget=options.budget,
        operator=np.unique(np.array(groups.operator, dtype=str), return_inverse=True)[1].astype(np.intp),
        caps=_caps(groups, len(numbers), options),
    )
    removed = np.isin(np.arange(len(numbers)), emptiest(problem, len(numbers) - workers))
    return Cluster(replace(problem, removed=removed), numbers, cores)


def plan_stages(cluster: Cluster, planner: Callable[[Problem], Plan], fixed: Ints) -> tuple[Ints, str]:
    """Return the worker of every group by index, shape (K,), and how far the search came.

    The stage that loses most by its placement is planned first; what it leaves of the budget is the next one's.

    Args:
        cluster: The cluster.
        planner: Places the groups of one stage.
        fixed: Groups that stay where they are, by index.
    """
    problem, node = cluster.problem, cluster.problem.node.copy()
    movable = np.ones(problem.groups, dtype=bool)
    movable[fixed] = False
    left, steps = problem.budget, []
    for stage in sorted(cluster.stages, key=lambda stage: -_lost_s(cluster, stage)):
        plan = planner(part := _stage_problem(problem, stage, node, left, movable))
        node[stage] = plan.node
        left -= part.spent(plan.node) if np.isfinite(left) else 0.0
        steps.append(plan.stage)
    return node, ", ".join(dict.fromkeys(steps))


def _lost_s(cluster: Cluster, stage: Ints) -> float:
    load = cluster.problem.load[stage]
    even = float(load.sum()) / cluster.cores / len(cluster.problem.kept)
    return cluster.stage_s(stage, cluster.problem.node) - even


def _stage_problem(problem: Problem, stage: Ints, node: Ints, budget: float, movable: Bools) -> Problem:
    load = problem.load[stage]
    whole = float(load.sum())
    price = problem.cost[stage]
    if not movable[stage].all() and np.isfinite(budget):
        price = np.where(movable[stage], price, budget + 1.0 + float(price.max()))
    return Problem(
        load=load / whole * (HALF * len(problem.kept)) if whole > 0 else load,
        node=problem.node[stage],
        capacity=problem.capacity,
        removed=problem.removed,
        cost=price,
        budget=max(0.0, budget),
        caps=None if problem.caps is None else _left_by_others(problem.caps, stage, node, problem.nodes),
    )


def _left_by_others(caps: Caps, stage: Ints, node: Ints, nodes: int) -> Caps:
    """Return the caps of one stage: what the groups of the others leave."""
    others = np.ones(len(node), dtype=bool)
    others[stage] = False
    others &= node >= 0
    used = np.array([total(node[others], load[others], nodes) for load in caps.load])
    return Caps(caps.load[:, stage], np.maximum(caps.limit - used, LEAST_MB))


def _caps(groups: KeyGroups, workers: int, options: PlacementOptions) -> Caps | None:
    if options.max_state_mb is None:
        return None
    return Caps(_state_mb(groups)[None, :], np.full((1, workers), options.max_state_mb))


def _state_mb(groups: KeyGroups) -> Floats:
    if any(size is None for size in groups.state_bytes):
        remedy = "Leave cost: state and max_state_mb out of placement.options, or wait for it to be measured."
        raise MillraceError("key_groups.state_bytes", None, "a size for every partition", remedy)
    return np.array(groups.state_bytes, dtype=float) / MB
