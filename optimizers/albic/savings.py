"""Savings of a group on a node: what the flows between it and its partners there save, by the stage that saves it.

Symbols:
    a_e        points that the receiver of flow e saves while both ends are on one node
    S_s(k, j)  sum of a_e over the flows between group k and the groups on node j whose receiver is of stage s

Group k on node j adds full_k to the load of j in its own stage, and takes S_s(k, j) off the load of j in each stage s:
it saves as a receiver, and lets others save as a producer. Leaving j reverts that. Only the node that a group leaves
and the one that it joins change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.optimizers.albic.contraction import total
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.arrays import Floats, Ints

DENSE = 3_000_000
"""Stages times groups times nodes up to which S is stored whole; beyond that only its nonzero values are."""


@dataclass(frozen=True)
class Edges:
    """All flows, each in both directions.

    Attributes:
        group: One end, shape (2E,).
        other: The other end, shape (2E,).
        saved: a_e, points, shape (2E,), > 0.
        stage: Stage of the receiver, shape (2E,).
        flow: Index of the flow, shape (2E,).
    """

    group: Ints
    other: Ints
    saved: Floats
    stage: Ints
    flow: Ints

    @property
    def half_saved(self) -> Floats:
        """Half of what each flow saves, shape (2E,): both of its directions together save it once."""
        return self.saved / 2


def edges(problem: Problem, stage: Ints) -> Edges:
    """Return the flows of a problem in both directions, without flows of a group to itself or that save nothing.

    Args:
        problem: The problem.
        stage: Stage of each group, shape (K,).
    """
    flows = problem.flows
    real = (flows.producer != flows.consumer) & (flows.saved > 0)
    first, second = flows.producer[real], flows.consumer[real]
    return Edges(
        np.concatenate([first, second]),
        np.concatenate([second, first]),
        np.tile(flows.saved[real], 2),
        np.tile(stage[second], 2),
        np.tile(np.flatnonzero(real), 2),
    )


class Savings:
    """S under one placement.

    Args:
        edges: All flows.
        node: Node of each group, shape (K,); groups without one are near no other.
        nodes: N.
        stages: Number of stages.
    """

    def __init__(self, edges: Edges, node: Ints, nodes: int, stages: int) -> None:
        self._nodes, self._stages, self._groups = nodes, stages, len(node)
        at = node[edges.other]
        placed = at >= 0
        keys = (edges.stage[placed] * self._groups + edges.group[placed]) * nodes + at[placed]
        saved = edges.saved[placed]
        self._all: Floats | None = None
        if stages * self._groups * nodes <= DENSE:
            self._all = total(keys, saved, stages * self._groups * nodes)
        else:
            self._keys, inverse = np.unique(keys, return_inverse=True)
            self._sums = total(inverse, saved, len(self._keys))

    def at(self, group: Ints, node: Ints) -> Floats:
        """Return S(group, node) of each stage, shape (S, M) for groups and nodes of shape (M,); 0 for nodes below 0."""
        stages = np.arange(self._stages)[:, None] * self._groups
        keys = (stages + group) * self._nodes + np.maximum(node, 0)
        if self._all is not None:
            sums = self._all[keys]
        elif not len(self._keys):
            sums = np.zeros(keys.shape)
        else:
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            sums = np.where(self._keys[at] == keys, self._sums[at], 0.0)
        return np.where(node >= 0, sums, 0.0)
