"""Contract key groups that move together into the groups of a smaller problem.

A plan of the smaller problem is a plan of the whole one, ``node[units]``, with the same nodes, cost and loads. Savings
of pairs within a unit are subtracted from the unit's load permanently. Flows between units are the sums of their
groups' flows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.model.errors import MillraceError
from millrace.optimizers.albic.problem import UNPLACED, Caps, Flows, Problem
from millrace.optimizers.arrays import Floats, Ints


def numbered(labels: Ints) -> Ints:
    """Return labels as 0..U-1 in their order, shape (K,)."""
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.intp).reshape(labels.shape)


def contract(problem: Problem, units: Ints, *, cost: Floats | None = None) -> Problem:
    """Return the problem whose groups are units.

    Args:
        problem: The whole problem.
        units: Unit of each group, 0..U-1 without gaps, shape (K,); members share a node.
        cost: Price of moving each group, shape (K,), >= 0, if different from the problem's; a unit's must not be 0.

    Raises:
        MillraceError: If members of a unit are on different nodes.
    """
    count = int(units.max()) + 1 if len(units) else 0
    node = np.full(count, UNPLACED, dtype=np.intp)
    node[units] = problem.node
    apart = np.flatnonzero(node[units] != problem.node)
    if len(apart):
        at = int(apart[0])
        raise MillraceError(f"units[{at}]", int(units[at]), "groups of one node", "Split the unit by nodes.")
    inside = units[problem.flows.producer] == units[problem.flows.consumer]
    inside &= problem.flows.near(problem.node)  # groups without a node save nothing
    within = total(units[problem.flows.producer[inside]], problem.flows.saved[inside], count)
    caps = problem.caps
    if caps is not None:
        caps = Caps(np.stack([total(units, used, count) for used in caps.load]).reshape(-1, count), caps.limit)
    return replace(
        problem,
        load=np.maximum(total(units, problem.load, count) - within, 0.0),  # rounding, if all of a load is saved
        node=node,
        cost=total(units, problem.cost if cost is None else cost, count),
        operator=np.zeros(0, dtype=np.intp),
        flows=_between(problem.flows, units, count),
        caps=caps,
    )


def _between(flows: Flows, units: Ints, count: int) -> Flows:
    """Return the flows between units, each pair once; flows within a unit are dropped."""
    first, second = units[flows.producer], units[flows.consumer]
    apart = first != second
    pairs, edge = np.unique(first[apart] * count + second[apart], return_inverse=True)
    if not len(pairs):
        return Flows()
    rate, saved = (total(edge, values[apart], len(pairs)) for values in (flows.rate, flows.saved))
    return Flows(pairs // count, pairs % count, rate, saved)


def total(units: Ints, values: Floats, count: int) -> Floats:
    """Return the sum of values over each unit, shape (U,)."""
    return np.asarray(np.bincount(units, weights=values, minlength=count), dtype=np.float64)
