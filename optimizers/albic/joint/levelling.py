"""What is left of the budget goes into balance, with collocated groups moved as one.

The balancer takes loads as fixed, which they are as long as pairs that save something stay together. What it proposes
is taken only if it is better with the true loads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.albic.balancer import balance
from optimizers.albic.joint.climb import Scene, energy
from optimizers.albic.joint.target import kept_units
from optimizers.albic.problem import Bools, Ints, Problem
from optimizers.albic.units import contract, expand

FREE = 1e-6
"""Price of moving a unit whose groups all move anyway, as a share of the cheapest group's: the balancer wants one."""


def level(scene: Scene, node: Ints, seed: int) -> Ints:
    """Return a placement that is better balanced within the budget, shape (K,); the same if there is none.

    Args:
        scene: The scene.
        node: Placement, within the budget, shape (K,).
        seed: Of the balancer.
    """
    problem = scene.problem
    left = problem.budget - problem.spent(node)
    if left <= 0:
        return node
    found = rebalanced(scene, node, left, seed)
    return found if energy(scene, found) < energy(scene, node) else node


def rebalanced(scene: Scene, node: Ints, budget: float, seed: int) -> Ints:
    """Return the balancer's placement, binding pairs moved as one, shape (K,)."""
    problem = scene.problem
    units = kept_units(problem, scene.edges, node, np.inf)
    paid = (node != problem.node) | (problem.node < 0)
    cost = np.where(paid, FREE * float(problem.cost.min()), problem.cost)
    here = replace(problem, node=node, budget=budget)
    return expand(units, balance(contract(here, units, cost=cost), seed=seed).node)


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
    found = rebalanced(scene, start, problem.budget, seed)
    loads = problem.loads(start)
    off = problem.removed | (np.abs(loads - problem.mean(start)) > most) | over_caps(problem, start)
    urgent = off[start] | off[found] | ~placed
    kept = np.where(urgent, found, start)
    # where a move that could wait made room for one that could not, both are needed
    return found if (over_caps(problem, kept) & ~over_caps(problem, found)).any() else kept


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
        over |= np.bincount(node[placed], weights=used[placed], minlength=problem.nodes) > limit
    return over
