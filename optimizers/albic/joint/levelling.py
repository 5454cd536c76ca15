"""What is left of the budget goes into balance, with collocated groups moved as one.

The balancer takes loads as fixed, which they are as long as pairs that save something stay together. What it proposes
is taken only if it is better with the true loads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.albic.balance.balancer import balance
from optimizers.albic.joint.climb import Scene, view
from optimizers.albic.joint.coarse import coarse
from optimizers.albic.problem import Bools, Ints, Problem
from optimizers.albic.units import expand, total


def level(scene: Scene, node: Ints, seed: int) -> Ints:
    """Return a placement that is better balanced within the budget, shape (K,); the same if there is none.

    Args:
        scene: The scene.
        node: Placement, within the budget, shape (K,).
        seed: Of the balancer.
    """
    problem = scene.problem
    if problem.budget <= problem.spent(node):
        return node
    found = rebalanced(scene, node, seed)
    nearer = problem.distance(node) - problem.distance(found)
    lost = float(view(scene, node).worth.sum() - view(scene, found).worth.sum())
    return found if nearer >= LEAST_POINTS and lost <= nearer * scene.prices.scale * EXCHANGE else node


LEAST_POINTS = 0.05
"""A load distance that is nearer by less is not worth a move."""
EXCHANGE = 0.5
"""Loads of an average group that may be saved no more for each point that the load distance is nearer."""


def rebalanced(scene: Scene, node: Ints, seed: int) -> Ints:
    """Return the balancer's placement, binding pairs moved as one, shape (K,)."""
    small, units = coarse(scene, node)
    return expand(units, balance(small.problem, seed=seed).node)


def first(problem: Problem, scene: Scene, most: float, seed: int) -> Ints:
    """Return the placement after what cannot wait, shape (K,): every group placed, marked nodes drained, caps kept.

    What the balancer moves beside that is taken back, so that its budget is there for collocation. Nodes that are
    off by more than ``most`` points cannot wait either.

    Args:
        problem: The problem; groups may have no node.
        scene: Its scene.
        most: Points.
        seed: Of the balancer.
    """
    if not waiting(problem):
        return problem.node
    placed = problem.node >= 0
    start = problem.node if placed.all() else balance(replace(problem, budget=0.0), seed=seed).node
    found = rebalanced(scene, start, seed)
    over = over_caps(problem, found)
    if over.any():  # a pair may be too large for any node
        apart = balance(problem, seed=seed).node
        over_apart = over_caps(problem, apart)
        if over_apart.sum() < over.sum():
            found, over = apart, over_apart
    loads = problem.loads(start)
    off = problem.removed | (np.abs(loads - problem.mean(start)) > most) | over_caps(problem, start)
    urgent = off[start] | off[found] | ~placed
    kept = np.where(urgent, found, start)
    # where a move that could wait made room for one that could not, both are needed
    return found if (over_caps(problem, kept) & ~over).any() else kept


def waiting(problem: Problem) -> bool:
    """Say whether something comes before everything else: groups without a node, marked nodes, caps exceeded."""
    if (problem.node < 0).any() or problem.removed[problem.node].any():
        return True
    return bool(over_caps(problem, problem.node).any())


def over_caps(problem: Problem, node: Ints) -> Bools:
    """Say which nodes exceed a cap, shape (N,)."""
    over = np.zeros(problem.nodes, dtype=bool)
    if problem.caps is None:
        return over
    placed = node >= 0
    for used, limit in zip(problem.caps.load, problem.caps.limit, strict=True):
        over |= total(node[placed], used[placed], problem.nodes) > limit
    return over
