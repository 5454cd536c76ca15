"""Key groups that move as one, as the groups of a smaller problem.

A plan of the smaller problem is a plan of the whole one: same nodes, same cost, and the same load as long as pairs
within a unit are all that is saved. What pairs between units save now is taken as fixed, which is the load model of
[ALBIC] and of :func:`optimizers.albic.balancer.balance`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from include.contracts.errors import MillraceError
from optimizers.albic.problem import UNPLACED, Caps, Floats, Flows, Ints, Problem


def numbered(labels: Ints) -> Ints:
    """Return labels as 0..U-1 in their order, shape (K,)."""
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.intp).reshape(labels.shape)


def contract(problem: Problem, units: Ints, *, cost: Floats | None = None) -> Problem:
    """Return the problem whose groups are units.

    Args:
        problem: The whole problem.
        units: Unit of each group, 0..U-1 without gaps, shape (K,); members share a node.
        cost: Price of moving each group, shape (K,), >= 0, where it is not the problem's; a unit's may not be 0.

    Raises:
        MillraceError: If members of a unit sit on different nodes.
    """
    count = int(units.max()) + 1 if len(units) else 0
    node = np.full(count, UNPLACED, dtype=np.intp)
    node[units] = problem.node
    apart = np.flatnonzero(node[units] != problem.node)
    if len(apart):
        at = int(apart[0])
        raise MillraceError(f"units[{at}]", int(units[at]), "groups of one node", "Split the unit by nodes.")
    load = total(units, problem.own(problem.node), count)
    caps = problem.caps
    if caps is not None:
        caps = Caps(np.stack([total(units, used, count) for used in caps.load]).reshape(-1, count), caps.limit)
    return replace(
        problem,
        load=np.maximum(load, 0.0),  # rounding, where all of a load is saved
        node=node,
        cost=total(units, problem.cost if cost is None else cost, count),
        operator=np.zeros(0, dtype=np.intp),
        flows=Flows(),
        caps=caps,
    )


def expand(units: Ints, node: Ints) -> Ints:
    """Return the node of each group, shape (K,), from the node of each unit, shape (U,)."""
    return node[units]


def total(units: Ints, values: Floats, count: int) -> Floats:
    """Return the sum of values over each unit, shape (U,)."""
    return np.bincount(units, weights=values, minlength=count)
