"""Scale in first, balance afterwards: the rival of Section 5.1, which [ALBIC] integrates instead.

As long as a node marked for removal holds groups, they are spread evenly over the others. Nothing else is done, even if
nodes are overloaded. Only the rest of the budget is used for balancing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.problem import Plan, Problem


def place(problem: Problem, *, seed: int = 0) -> Plan:
    """Return a plan that drains marked nodes before it balances.

    Args:
        problem: The problem; caps are kept by the balancer only.
        seed: Seed of the balancer.
    """
    if (problem.node < 0).any():  # placing costs nothing
        problem = replace(problem, node=balance(replace(problem, budget=0.0), seed=seed).node)
    node, left = problem.node.copy(), problem.budget
    raw = problem.loads(node) * problem.capacity
    own = problem.own(node)
    capacity = problem.capacity[problem.kept]
    for group in _leaving(problem):
        if problem.cost[group] > left:
            continue
        goal = problem.kept[int(np.argmin((raw[problem.kept] + own[group]) / capacity))]
        raw[goal] += own[group]
        node[group] = goal
        left -= problem.cost[group]
    if problem.removed[node].any():
        return Plan(node, 0.0, "scaling in")
    return _balanced(problem, node, left, seed)


def _leaving(problem: Problem) -> list[int]:
    """Return the groups on marked nodes, the heaviest first."""
    groups = np.flatnonzero(problem.removed[problem.node])
    order = np.argsort(-problem.own(problem.node)[groups], kind="stable")
    return [int(g) for g in groups[order]]


def _balanced(problem: Problem, node: np.ndarray, left: float, seed: int) -> Plan:
    """Return the balancer's plan within the rest of the budget; groups that were just moved stay on their new nodes."""
    moved = np.where(node != problem.node, node, -1)
    pinned = moved if (moved >= 0).any() else None
    if pinned is None:
        return balance(problem, seed=seed)
    after = balance(replace(problem, node=node, budget=left), pinned=pinned, seed=seed)
    return Plan(after.node, 0.0, "scaled in, " + after.stage)
