"""The same scene with collocated groups that bind one another as one group each.

Where a group has found its partner, neither can go anywhere alone without losing more than it gains; together they can.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.albic.joint.climb import Scene
from optimizers.albic.joint.near import edges
from optimizers.albic.joint.prices import Prices
from optimizers.albic.joint.target import LOOSE, Target, kept_units
from optimizers.albic.problem import Ints
from optimizers.albic.units import contract, total

FREE = 1e-6
"""Price of moving a unit whose groups all move anyway, as a share of the cheapest group's: a price must be above 0."""


def coarse(scene: Scene, node: Ints) -> tuple[Scene, Ints]:
    """Return the scene of units, which begins where a placement is and has what is left of the budget, and the units.

    Args:
        scene: The scene of groups.
        node: Placement, within the budget, shape (K,).
    """
    problem = scene.problem
    units = kept_units(problem, scene.edges, node, np.inf)
    paid = (node != problem.node) | (problem.node < 0)
    cost = np.where(paid, FREE * float(problem.cost.min()), problem.cost)
    left = problem.budget - problem.spent(node)
    small = contract(replace(problem, node=node, budget=max(0.0, left)), units, cost=cost)
    found = edges(small)
    keys = found.group * small.groups + found.other
    heavy = units[scene.edges.group[scene.heavy]] * small.groups + units[scene.edges.other[scene.heavy]]
    price = total(units, np.where(paid, 0.0, scene.prices.move), small.groups)
    return Scene(
        problem=small,
        edges=found,
        heavy=np.flatnonzero(np.isin(keys, heavy)),
        prices=Prices(scene.prices.scale, scene.prices.tolerance, price),
        fixed=total(units, scene.fixed.astype(float), small.groups) > 0,
        target=None if scene.target is None else _common(scene.target, units, small.groups),
    ), units


def _common(target: Target, units: Ints, count: int) -> Target:
    """Return a target for units: that of the member to which its target is worth most."""
    node = np.full(count, LOOSE, dtype=np.intp)
    order = np.argsort(np.where(target.node >= 0, target.credit, -1.0), kind="stable")
    node[units[order]] = target.node[order]  # the last one written is the greatest
    agrees = target.node == node[units]
    return Target(node, total(units, np.where(agrees, target.credit, 0.0), count), target.rate)
