"""Synthetic clusters as the paper's Section 5.1 describes them.

Every node has the same number of key groups, of the mean load give or take 5 %. A fifth of the nodes is changed: half
of those get 0.5 ``varies`` more, the others as much less, by the load of some of their groups, drawn at random. How
many groups that are is not told; here 5 of 20 at least, and as many as it takes to lose that much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.optimizers.albic.problem import Floats, Ints, Problem

MEAN = 50.0
"""Points of a node."""

JITTER = 0.05
"""Part by which groups differ."""

CHANGED = 5
"""One node of so many is changed."""

FEWEST = 4
"""One group of so many is changed on such a node at least."""


@dataclass(frozen=True)
class Size:
    """A cluster of the paper.

    Attributes:
        nodes: How many.
        groups: Key groups of the whole cluster.
        operators: They belong to.
    """

    nodes: int
    groups: int
    operators: int


SMALL, MIDDLE, BIG = Size(20, 400, 10), Size(40, 800, 20), Size(60, 1200, 30)
SIZES = (SMALL, MIDDLE, BIG)


def instance(size: Size, varies: float, budget: float, seed: int) -> Problem:
    """Return a cluster that needs balance.

    Args:
        size: The cluster.
        varies: Points by which changed nodes differ, from those that lost to those that gained.
        budget: Moves.
        seed: Of the loads.
    """
    rng = np.random.default_rng([size.nodes, int(varies), seed])
    node = np.repeat(np.arange(size.nodes), size.groups // size.nodes)
    load = even(size, rng)
    for n, i in enumerate(rng.permutation(size.nodes)[: size.nodes // CHANGED]):
        _change(load, np.flatnonzero(node == i), 0.5 * varies * (-1 if n % 2 else 1), rng)
    return pose(size, load, node, budget)


def even(size: Size, rng: np.random.Generator) -> Floats:
    """Return loads of groups of the mean load, give or take a little."""
    load: Floats = MEAN * size.nodes / size.groups * (1 + rng.uniform(-JITTER, JITTER, size.groups))
    return load


def pose(size: Size, load: Floats, node: Ints, budget: float, removed: Ints | None = None) -> Problem:
    """Return the problem of a placement, moves counted."""
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
    """Spread a change over some groups: gains evenly, losses by what each has."""
    count = int(rng.integers(max(1, len(groups) // FEWEST), len(groups) + 1))
    if points < 0:
        enough = int(np.ceil(-points / load[groups].min() * (1 + JITTER)))
        count = min(max(count, enough), len(groups))
    picked = rng.permutation(groups)[:count]
    if points > 0:
        load[picked] += points / count
    else:
        load[picked] *= max(0.0, 1 + points / load[picked].sum())
