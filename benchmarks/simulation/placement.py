"""A simulated cluster on which key groups are placed: loads and flows vary by period, and moves have a cost.

Units:
    points         1/100 of the work that a node of capacity 1 can do in a period; unit of loads and savings
    rows/s         rates of flows
    state          size of a group's state, in any unit; pause and move cost are per unit of it

The load of a group is its full load less the saving for each partner on its own node. A move pauses its group for
``pause_s`` per unit of state, and costs both nodes ``move_points`` per unit of state in the period of the move. This is
the price for a method that moves everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from millrace.model.errors import MillraceError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class PeriodTraffic:
    """The traffic of one period.

    Attributes:
        load: Load of each group with no partner on its node, points, shape (K,), >= 0.
        producer: Group that emits, shape (E,).
        consumer: Group that receives, shape (E,).
        rate: Rows per second, shape (E,), >= 0.
        saved: Points that the receiver saves while both are on one node, shape (E,), >= 0.
    """

    load: Floats
    producer: Ints
    consumer: Ints
    rate: Floats
    saved: Floats


@dataclass(frozen=True)
class Cluster:
    """The constant parameters.

    Attributes:
        operator: Operator of each group, shape (K,).
        node: Node of each group at the beginning, shape (K,).
        capacity: Capacity of each node, shape (N,), > 0.
        state: Size of each group's state, shape (K,), > 0.
        pause_s: Seconds that a group pauses per unit of its state.
        move_points: Points that a move costs each of the two nodes per unit of state.
        removed: Nodes that are marked for removal, shape (N,); by default none.
    """

    operator: Ints
    node: Ints
    capacity: Floats
    state: Floats
    pause_s: float = 2.5
    move_points: float = 0.0
    removed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def __post_init__(self) -> None:
        """Reject shapes that do not match.

        Raises:
            MillraceError: With the field, its value, the allowed range and the remedy.
        """
        if not len(self.removed):
            object.__setattr__(self, "removed", np.zeros(len(self.capacity), dtype=bool))
        groups, nodes = self.node.shape, self.capacity.shape
        for name, shape, wanted in (
            ("operator", self.operator.shape, groups),
            ("state", self.state.shape, groups),
            ("removed", self.removed.shape, nodes),
        ):
            if shape != wanted:
                raise MillraceError(name, shape, f"shape {wanted}", "Give one value each.")


@dataclass(frozen=True)
class Outcome:
    """The result of a period, after its moves.

    Attributes:
        distance: Load distance right after the moves, points; excludes the cost of the moves.
        collocation: Share of rows that stayed within a node, 0..1.
        load_index: Load of the cluster, moves included, over that of the first period before any move.
        moves: Groups that were moved.
        spent: Total size of their state.
        pause_s: Total seconds of their pauses.
    """

    distance: float
    collocation: float
    load_index: float
    moves: int
    spent: float
    pause_s: float


class PlacementPlant:
    """A cluster in a sequence of periods: read ``traffic``, then :meth:`apply` a placement, which ends the period.

    Args:
        cluster: The constant parameters.
        traffic: Gives the traffic of a period by its number from 0, the same on every call.
    """

    def __init__(self, cluster: Cluster, traffic: Callable[[int], PeriodTraffic] | Sequence[PeriodTraffic]) -> None:
        self.cluster = cluster
        self._of = traffic if callable(traffic) else traffic.__getitem__
        self.node = cluster.node.copy()
        self.period = 0
        self.traffic = self._of(0)
        self._first = float(loads(self.traffic, self.node, cluster.capacity) @ cluster.capacity)

    def apply(self, node: Ints) -> Outcome:
        """Move groups to their new nodes, and continue with the next period.

        Args:
            node: Node of each group, shape (K,).

        Raises:
            MillraceError: If a group has no node of the cluster.
        """
        cluster = self.cluster
        if node.shape != self.node.shape or ((node < 0) | (node >= len(cluster.capacity))).any():
            allowed = f"{len(self.node)} nodes from 0 to {len(cluster.capacity) - 1}"
            raise MillraceError("placement", node.shape, allowed, "Place every group.")
        moved = node != self.node
        spent = float(cluster.state[moved].sum())
        self.node = node.copy()
        found = loads(self.traffic, node, cluster.capacity)
        total = float(found @ cluster.capacity) + 2 * cluster.move_points * spent
        outcome = Outcome(
            distance=distance(found, cluster.capacity, cluster.removed),
            collocation=collocation(self.traffic, node),
            load_index=total / self._first if self._first > 0 else 1.0,
            moves=int(moved.sum()),
            spent=spent,
            pause_s=cluster.pause_s * spent,
        )
        self.period += 1
        self.traffic = self._of(self.period)
        return outcome


def loads(traffic: PeriodTraffic, node: Ints, capacity: Floats) -> Floats:
    """Return the load of each node, points, shape (N,)."""
    together = node[traffic.producer] == node[traffic.consumer]
    full = np.bincount(node, weights=traffic.load, minlength=len(capacity))
    saved = np.bincount(node[traffic.producer[together]], weights=traffic.saved[together], minlength=len(capacity))
    return (full - saved) / capacity


def distance(found: Floats, capacity: Floats, removed: NDArray[np.bool_]) -> float:
    """Return the largest deviation from the mean of a node that stays, points."""
    mean = float(found @ capacity) / float(capacity[~removed].sum())
    return float(np.abs(found[~removed] - mean).max())


def collocation(traffic: PeriodTraffic, node: Ints) -> float:
    """Return the share of rows that stay within a node, 0..1; 0 without flows."""
    total = float(traffic.rate.sum())
    together = node[traffic.producer] == node[traffic.consumer]
    return float(traffic.rate[together].sum()) / total if total > 0 else 0.0
