"""Balance within the joint search, with collocated groups moved as one: first urgent work, last the rest of the budget.

The balancer takes loads as fixed, which holds as long as pairs that save something stay together. Its proposal is used
only if it is better with the true loads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.optimizers.albic.balancer import balance
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.search_context import SearchContext, contract_context, placement_state
from millrace.optimizers.arrays import Bools, Ints

LEAST_POINTS = 0.05
"""Least reduction of the load distance that is worth a move, points."""
EXCHANGE = 0.5
"""Savings, in loads of an average group, that may be lost per point of reduced load distance."""


def rebalance(context: SearchContext, node: Ints, seed: int) -> Ints:
    """Return a better balanced placement within the budget, shape (K,); the same one if there is none.

    Args:
        context: The context.
        node: Placement, within the budget, shape (K,).
        seed: Seed of the balancer.
    """
    problem = context.problem
    if problem.budget <= problem.spent(node):
        return node
    even = rebalance_units(context, node, seed)
    nearer = problem.distance(node) - problem.distance(even)
    lost = placement_state(context, node).worth - placement_state(context, even).worth
    return even if nearer >= LEAST_POINTS and lost <= nearer * context.prices.scale * EXCHANGE else node


def rebalance_units(context: SearchContext, node: Ints, seed: int) -> Ints:
    """Return the balancer's placement, with binding pairs moved as one, shape (K,)."""
    small, units = contract_context(context, node)
    return balance(small.problem, seed=seed, proven=False).node[units]


def place_urgent(context: SearchContext, most: float, seed: int) -> Ints:
    """Return the placement after urgent work, shape (K,): every group placed, marked nodes drained, caps kept.

    Other moves of the balancer are taken back, so the budget is left for collocation. Nodes that are off by more than
    ``most`` points are urgent, too.

    Args:
        context: The context; groups of its problem may have no node.
        most: Points.
        seed: Seed of the balancer.
    """
    problem = context.problem
    if not has_urgent(problem):
        return problem.node
    placed = problem.node >= 0
    start = problem.node if placed.all() else balance(replace(problem, budget=0.0), seed=seed).node
    target = rebalance_units(context, start, seed)
    over = over_caps(problem, target)
    if over.any():  # a pair may be too large for any node
        apart = balance(problem, seed=seed).node
        over_apart = over_caps(problem, apart)
        if over_apart.sum() < over.sum():
            target, over = apart, over_apart
    loads = problem.loads(start)
    off = problem.removed | (np.abs(loads - problem.mean(start)) > most) | over_caps(problem, start)
    urgent = off[start] | off[target] | ~placed
    kept = np.where(urgent, target, start)
    # if a move that could wait made room for an urgent one, both are needed
    return target if (over_caps(problem, kept) & ~over).any() else kept


def has_urgent(problem: Problem) -> bool:
    """Return whether there is urgent work: groups without a node, marked nodes, exceeded caps."""
    if (problem.node < 0).any() or problem.removed[problem.node].any():
        return True
    return bool(over_caps(problem, problem.node).any())


def over_caps(problem: Problem, node: Ints) -> Bools:
    """Return which nodes exceed a cap, shape (N,)."""
    if problem.caps is None:
        return np.zeros(problem.nodes, dtype=bool)
    return np.asarray((problem.caps.used(node) > problem.caps.limit).any(axis=0))
