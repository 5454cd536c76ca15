"""Assignments of streams to nodes with hindsight: what rivals with a fixed number of nodes get, and the optimum.

Rates are rows per second, shape (T, S): T periods, S streams.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.fleet.workloads import Floats
from benchmarks.simulation.admission import ROUNDING, least_nodes

Ints = npt.NDArray[np.intp]


def needed(rates: Floats, capacity: float) -> Ints:
    """Return the fewest nodes that the rates of each period need, shape (T,), >= 1: a lower bound of any assignment.

    Args:
        rates: Shape (T, S).
        capacity: Rows per second that a node takes.
    """
    return np.array([max(1, least_nodes(period, capacity)) for period in rates], dtype=np.intp)


def packed(rates: Floats, capacity: float, most: int) -> Ints:
    """Return an assignment that never changes, on the fewest nodes on which none is overloaded in any period.

    The stream with the highest peak comes first. Each goes to the node whose peak is then the lowest.

    Args:
        rates: Shape (T, S), known in advance.
        capacity: Rows per second that a node takes.
        most: Most nodes, >= 1. If these are not enough, they are used all the same.
    """
    for nodes in range(int(needed(rates, capacity).max()), most):
        node = _spread(rates, nodes)
        if not overloads(rates, np.broadcast_to(node, rates.shape), capacity):
            return node
    return _spread(rates, most)


def even(streams: int, nodes: int) -> Ints:
    """Return the node of each stream, shape (S,), as many streams on each node."""
    return np.arange(streams) % nodes


def overloads(rates: Floats, node: Ints, capacity: float) -> int:
    """Return the node-periods in which more arrives at a node than it takes.

    Args:
        rates: Shape (T, S).
        node: Node of each stream in each period, shape (T, S), >= 0.
        capacity: Rows per second that a node takes.
    """
    loads = (np.bincount(on, weights=period) for period, on in zip(rates, node, strict=True))
    return int(sum((load > capacity * (1 + ROUNDING)).sum() for load in loads))


def _spread(rates: Floats, nodes: int) -> Ints:
    sums, node = np.zeros((len(rates), nodes)), np.zeros(rates.shape[1], dtype=np.intp)
    for stream in np.argsort(-rates.max(axis=0), kind="stable"):
        node[stream] = (sums + rates[:, stream, None]).max(axis=0).argmin()
        sums[:, node[stream]] += rates[:, stream]
    return node
