"""Savings of a group on a node: the sum over its partners there.

Symbols:
    s_e      points that each end of flow e saves while both are on one node
    S(k, j)  sum of s_e over the flows between group k and the groups on node j

Both ends save, so group k on node j takes 2 S(k, j) off the cost of the two sides: it adds full_k - 2 S(k, j) to the
load of j, and leaving j subtracts that again. Only the node that a group leaves and the one that it joins change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.optimizers.albic.contraction import total
from millrace.optimizers.albic.problem import Floats, Ints, Problem

DENSE = 3_000_000
"""Groups times nodes up to which S is stored whole; beyond that only its nonzero values are."""
UNKNOWN_SAVINGS = 0.1
"""Assumed worth of all flows together, as a share of all load, if only their rates are known."""


@dataclass(frozen=True)
class Edges:
    """All flows, each in both directions.

    Attributes:
        group: One end, shape (2E,).
        other: The other end, shape (2E,).
        saved: Load that each end saves, points, shape (2E,).
        worth: Worth of that to each end, points, shape (2E,); ``saved`` itself unless savings are unknown.
        flow: Index of the flow, shape (2E,).
    """

    group: Ints
    other: Ints
    saved: Floats
    worth: Floats
    flow: Ints


def edges(problem: Problem) -> Edges:
    """Return the flows of a problem in both directions, without flows of a group to itself."""
    flows = problem.flows
    value = worth(problem)
    real = (flows.producer != flows.consumer) & (value > 0)
    first, second = flows.producer[real], flows.consumer[real]
    saved = np.tile(flows.saved[real], 2)
    return Edges(
        np.concatenate([first, second]),
        np.concatenate([second, first]),
        saved,
        saved if value is flows.saved else np.tile(value[real], 2),
        np.tile(np.flatnonzero(real), 2),
    )


def worth(problem: Problem) -> Floats:
    """Return the worth of each flow to each end within a node, points, shape (E,).

    It is the load that the flow saves. If savings are unknown, rates stand in for them, so the busiest pairs still get
    together.
    """
    flows = problem.flows
    if flows.saved.any() or not flows.rate.any():
        return flows.saved
    return np.asarray(flows.rate * (UNKNOWN_SAVINGS * problem.load.sum() / flows.rate.sum() / 2))


class Savings:
    """S under one placement.

    Args:
        group: One end of each edge, shape (2E,).
        other: The other, shape (2E,).
        saved: s_e or another weight, shape (2E,).
        node: Node of each group, shape (K,); groups without one are near no other.
        nodes: N.
    """

    def __init__(self, group: Ints, other: Ints, saved: Floats, node: Ints, nodes: int) -> None:
        self._nodes = nodes
        at = node[other]
        placed = at >= 0
        keys, saved = group[placed] * nodes + at[placed], saved[placed]
        self._all: Floats | None = None
        if len(node) * nodes <= DENSE:
            self._all = total(keys, saved, len(node) * nodes)
        else:
            self._keys, inverse = np.unique(keys, return_inverse=True)
            self._sums = total(inverse, saved, len(self._keys))

    def at(self, group: Ints, node: Ints) -> Floats:
        """Return S(group, node), elementwise; 0 for nodes below 0."""
        keys = group * self._nodes + np.maximum(node, 0)
        if self._all is not None:
            sums = self._all[keys]
        elif not len(self._keys):
            sums = np.zeros(len(keys))
        else:
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            sums = np.where(self._keys[at] == keys, self._sums[at], 0.0)
        return np.where(node >= 0, sums, 0.0)
