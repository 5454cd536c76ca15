"""Plan all stages at once: which groups share an executor, and how the work of each stage is spread.

[ALBIC] balances the load on a node from operators that run at the same time. Spark runs the stages of a micro-batch one
after another, and executors with equal total load may still idle in every stage. So ``method: joint`` makes two plans:

even       Each stage is balanced by itself, the one that loses most by its placement first; the next one gets the rest
           of the budget.
collocated Groups are put next to their input by one search over all stages (:mod:`joint_search`). With the rest of the
           budget, groups that are not next to theirs balance the stages.

The plan is used that makes the shorter batch without a budget: with one, several plans in a row make up the whole, and
the first of them rarely shortens the batch by itself.

``method: albic`` runs the published algorithm on the same problem of all stages, and nothing else (:mod:`paper.albic`).
``method: balancer`` makes the even plan.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from millrace.optimizers.albic.balance_problem import FREE
from millrace.optimizers.albic.cluster import Cluster
from millrace.optimizers.albic.last_executor import Stage, relieve
from millrace.optimizers.albic.limits import left_by_others
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.arrays import Bools, Floats, Ints

HALF = 50.0
"""Points of an executor with the mean load."""
NOTHING = 1e-9
"""Share of the cheapest move's price that stands for nothing: prices must be above 0."""
LEAST_GAIN = 0.02
"""Share of a batch that collocation has to be able to save before it is searched for."""
MOST_GROUPS = 5_000
"""Groups up to which a plan within a budget is judged by the one without, which takes long to search."""
EFFORT = 400_000
"""Most tasks to sort when executors are relieved, over all stages: about a tenth of a second."""


class Planned(NamedTuple):
    """Executor of every group by index, shape (K,), and how far the search came."""

    node: Ints
    stage: str


def plan_placement(cluster: Cluster, method: str, fixed: Ints, seed: int) -> Planned:
    """Return the executor of every group.

    Args:
        cluster: The cluster.
        method: ``joint``, ``albic`` or ``balancer``, as in the options.
        fixed: Groups that must not move, by index.
        seed: Seed of the searches: the same cluster and seed give the same plan.
    """
    movable = np.ones(cluster.problem.groups, dtype=bool)
    movable[fixed] = False
    if method == "albic":
        return _published(cluster, movable, seed)
    if method == "balancer":
        return _even(cluster, movable, seed)
    return _joint(cluster, movable, seed)


def whole_problem(cluster: Cluster, movable: Bools) -> Problem:
    """Return one problem over all stages, with operators and flows, in points.

    Args:
        cluster: The cluster.
        movable: Groups that may move, shape (K,); the others cost more than the budget.
    """
    problem, flows = cluster.problem, cluster.problem.flows
    whole = float(problem.load.sum())
    points = HALF * float(problem.capacity[problem.kept].sum()) / whole if whole > 0 else 1.0
    # an assumed price per MB can exceed the whole load of a group
    every = np.bincount(flows.consumer, flows.saved, problem.groups)
    share = np.divide(problem.load, every, out=np.ones(problem.groups), where=every > problem.load)
    return replace(
        problem,
        load=problem.load * points,
        cost=_priced(problem.cost, movable, problem.budget),
        flows=replace(flows, saved=flows.saved * share[flows.consumer] * points),
    )


def _published(cluster: Cluster, movable: Bools, seed: int) -> Planned:
    from millrace.optimizers.albic.paper.albic import place
    from millrace.optimizers.albic.paper.options import LIVE

    plan = place(whole_problem(cluster, movable), seed=seed, options=LIVE)
    return Planned(plan.node, plan.stage)


def _joint(cluster: Cluster, movable: Bools, seed: int) -> Planned:
    """Return the collocated plan if it leads to a shorter batch than balance alone, otherwise the even one.

    A budget can end both before the batch is shorter, so they are compared without one: several plans lead there.
    """
    problem, even_s = cluster.problem, _spread_s(cluster)
    if not problem.flows.saved.any() or cluster.bound_s() > (1 - LEAST_GAIN) * even_s:
        return _even(cluster, movable, seed)
    if problem.groups <= MOST_GROUPS or np.isinf(problem.budget):
        whole = _collocated(replace(cluster, problem=replace(problem, budget=np.inf)), movable, seed)
        if whole is None or cluster.batch_s(whole.node) >= even_s:
            return _even(cluster, movable, seed)
        if np.isinf(problem.budget):
            return whole
        if problem.spent(whole.node) <= problem.budget:
            even = _even(cluster, movable, seed)
            return whole if _batch_s(cluster, whole) < _batch_s(cluster, even) else even
    return _collocated(cluster, movable, seed) or _even(cluster, movable, seed)


def _collocated(cluster: Cluster, movable: Bools, seed: int) -> Planned | None:
    """Return the plan that puts groups next to their input within the budget; None if that saves next to nothing."""
    from millrace.optimizers.albic.joint_search import collocate

    problem = cluster.problem
    node = collocate(whole_problem(cluster, movable), ~movable & (problem.node >= 0), seed=seed)
    if node is None:
        return None
    plan, apart = Planned(node, "collocated"), movable & ~cluster.near_groups(node)
    if not _has_budget(cluster, node, apart):
        return plan
    balanced = _balanced(cluster, node, apart, seed)
    more = Planned(balanced.node, f"collocated, {balanced.stage}")
    return min(plan, more, key=lambda of: (_batch_s(cluster, of), problem.spent(of.node)))


def _spread_s(cluster: Cluster) -> float:
    """Return the duration of a batch if no input is near, and each stage is spread whatever that costs, seconds.

    The longest task comes first, each goes to the executor that is free first. That stands for balance without a
    budget, which takes long to search and is shorter by a few percent at most.
    """
    problem, whole_s = cluster.problem, 0.0
    for stage in cluster.stages:
        load, ready = problem.load[stage], [(0.0, executor) for executor in problem.kept.tolist()]
        node = np.zeros(len(stage), dtype=np.intp)
        for task in np.argsort(-load, kind="stable").tolist():
            ready_s, node[task] = ready[0]
            heapq.heapreplace(ready, (ready_s + load[task] / problem.capacity[node[task]], int(node[task])))
        whole_s += max(cluster.finish_s(load, node))
    return whole_s


def _has_budget(cluster: Cluster, node: Ints, movable: Bools) -> bool:
    problem = cluster.problem
    return bool(problem.budget - problem.spent(node) >= problem.cost[movable].min(initial=np.inf))


def _batch_s(cluster: Cluster, plan: Planned) -> float:
    """Return the duration of a batch under a plan, seconds, without differences that are rounding."""
    return round(cluster.batch_s(plan.node), 9)


def _even(cluster: Cluster, movable: Bools, seed: int) -> Planned:
    return _balanced(cluster, cluster.problem.node, movable, seed)


def _balanced(cluster: Cluster, start: Ints, movable: Bools, seed: int) -> Planned:
    """Return a placement with every stage balanced.

    Args:
        cluster: The cluster.
        start: Placement that the rest of the budget may change; its moves are paid for.
        movable: Groups that may leave it, shape (K,).
        seed: Seed of the balancer.
    """
    from millrace.optimizers.albic.balancer import balance

    problem, node, steps = cluster.problem, start.copy(), []
    for stage in sorted(cluster.stages, key=lambda stage: -_lost_s(cluster, stage, start)):
        homeless = (node[stage] < 0) | problem.removed[node[stage]]
        if not (movable[stage] | homeless).any():
            continue
        left = problem.budget - problem.spent(node)
        part = _stage_problem(cluster, stage, node, left)
        held = ~movable[stage] & (part.node >= 0) & ~part.removed[part.node]
        plan = balance(part, pinned=np.where(held, part.node, FREE), seed=seed, rest=False)
        node[stage] = _relieved(cluster, stage, node, plan.node, movable)
        steps.append(plan.stage)
    return Planned(node, ", ".join(dict.fromkeys(steps)))


def _relieved(cluster: Cluster, stage: Ints, node: Ints, planned: Ints, movable: Bools) -> Ints:
    """Return the shortest placement of a stage, given the order in which its tasks run.

    Args:
        cluster: The cluster.
        stage: Groups of the stage, by index.
        node: Executor of every group before its plan, shape (K,).
        planned: Its balanced placement.
        movable: Groups that may move, shape (K,).
    """
    problem, before = cluster.problem, node[stage]
    if problem.caps is not None:  # swaps would have to be checked against caps, too
        return planned
    home, cost = problem.node[stage], problem.cost[stage]
    others = problem.spent(node) - _spent(home, cost, before)
    of_stage = Stage(
        load=problem.own(node)[stage],
        origin=home,
        movable=movable[stage] & ~cluster.near_groups(node)[stage],
        cost=cost,
        budget=problem.budget - others,
        speed=problem.capacity,
        kept=~problem.removed,
        cores=cluster.cores,
        effort=EFFORT // len(cluster.stages),
    )
    stays = (before >= 0).all() and not problem.removed[before].any()
    found = [planned, *(relieve(of_stage, start) for start in ([planned, before] if stays else [planned]))]
    return min(found, key=lambda of: (round(max(cluster.finish_s(of_stage.load, of)), 9), _spent(home, cost, of)))


def _spent(home: Ints, cost: Floats, node: Ints) -> float:
    return float(cost[(node != home) & (home >= 0)].sum())


def _lost_s(cluster: Cluster, stage: Ints, node: Ints) -> float:
    even = float(cluster.problem.own(node)[stage].sum()) / cluster.even_cores
    return cluster.stage_s(stage, node) - even


def _stage_problem(cluster: Cluster, stage: Ints, node: Ints, left: float) -> Problem:
    """Return a stage as a balancing problem: groups that have already moved may move again at no cost."""
    problem = cluster.problem
    load = problem.own(node)[stage]
    whole, here, home = float(load.sum()), node[stage], problem.node[stage]
    cost = problem.cost[stage]
    return Problem(
        load=load / whole * (HALF * float(problem.capacity[problem.kept].sum())) if whole > 0 else load,
        node=here,
        capacity=problem.capacity,
        removed=problem.removed,
        cost=np.where((here != home) & (home >= 0), NOTHING * float(cost.min(initial=1.0)), cost),
        budget=max(0.0, left),
        caps=None if problem.caps is None else left_by_others(problem.caps, stage, node),
    )


def _priced(cost: Floats, movable: Bools, budget: float) -> Floats:
    """Return the price of each group; no budget pays for one that must not move."""
    if movable.all() or not np.isfinite(budget):
        return cost
    return np.where(movable, cost, budget + 1.0 + float(cost.max()))
