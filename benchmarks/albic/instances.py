"""Synthetic clusters as described in Section 5.1 of the paper.

Every node has the same number of key groups, each with the mean load give or take 5 %. A fifth of the nodes is changed:
half of them gain 0.5 ``varies``, the others lose as much, through some of their groups, drawn at random. The paper does
not state the number of these groups. Here it is at least 5 of 20, and as many as are needed to lose that much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.arrays import Floats, Ints

MEAN = 50.0
"""Points per node."""

JITTER = 0.05
"""Relative difference between groups."""

CHANGED = 5
"""One node in this many is changed."""

FEWEST = 4
"""On a changed node, at least one group in this many is changed."""


@dataclass(frozen=True)
class Size:
    """A cluster of the paper.

    Attributes:
        nodes: Number of nodes.
        groups: Key groups of the whole cluster.
        operators: Operators of these groups.
    """

    nodes: int
    groups: int
    operators: int


SMALL, MIDDLE, BIG = Size(20, 400, 10), Size(40, 800, 20), Size(60, 1200, 30)
SIZES = (SMALL, MIDDLE, BIG)


def instance(size: Size, varies: float, budget: float, seed: int) -> Problem:
    """Return a cluster that needs balancing.

    Args:
        size: The cluster.
        varies: Difference between nodes that lost and nodes that gained load, points.
        budget: Moves.
        seed: Seed of the loads.
    """
    rng = np.random.default_rng([size.nodes, int(varies), seed])
    node = np.repeat(np.arange(size.nodes), size.groups // size.nodes)
    load = even(size, rng)
    for n, i in enumerate(rng.permutation(size.nodes)[: size.nodes // CHANGED]):
        _change(load, np.flatnonzero(node == i), 0.5 * varies * (-1 if n % 2 else 1), rng)
    return pose(size, load, node, budget)


def even(size: Size, rng: np.random.Generator) -> Floats:
    """Return group loads close to the mean load."""
    load: Floats = MEAN * size.nodes / size.groups * (1 + rng.uniform(-JITTER, JITTER, size.groups))
    return load


def pose(size: Size, load: Floats, node: Ints, budget: float, removed: Ints | None = None) -> Problem:
    """Return the problem of a placement whose budget counts moves."""
    marked = np.zeros(size.nodes, dtype=bool)
    if removed is not None:
        marked[removed] = True
    return Problem(
        load=load,
        node=node,
        capacity=np.ones(size.nodes),
        removed=marked,
        cost=np.ones(len(load)),
        budget=float(budget),
        operator=np.arange(len(load)) % size.operators,
    )


def _change(load: Floats, groups: Ints, points: float, rng: np.random.Generator) -> None:
    """Spread a change over some groups: gains evenly, losses in proportion to each group's load."""
    count = int(rng.integers(max(1, len(groups) // FEWEST), len(groups) + 1))
    if points < 0:
        enough = int(np.ceil(-points / load[groups].min() * (1 + JITTER)))
        count = min(max(count, enough), len(groups))
    picked = rng.permutation(groups)[:count]
    if points > 0:
        load[picked] += points / count
    else:
        load[picked] *= max(0.0, 1 + points / load[picked].sum())
