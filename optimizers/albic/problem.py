"""Which key groups are on which node, their cost there, and what a plan may change.

Units:
    load      points of a node: 1/100 of what a node of capacity 1 can do of the bottleneck resource in a period
    budget    limit of the total cost of one plan's moves, in the unit of ``cost``

A node of capacity c has load (sum of its groups' load) / c, which makes loads of unequal nodes comparable.

Reference:
    [ALBIC] Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", 2016,
    Sections 3 and 4.3. Deviations: the mean is exact, not rounded up; the load of a group depends on the groups next to
    it, while the paper takes it as fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millrace.model.errors import MillraceError
from millrace.optimizers.arrays import Bools, Floats, Ints, check_every

UNPLACED = -1
"""Node of a group that has none yet: placing it costs nothing and is not limited by the budget."""


def _no_ints() -> Ints:
    return np.zeros(0, dtype=np.intp)


def _no_floats() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True)
class Flows:
    """Which key groups pass rows to which; each pair once.

    Attributes:
        producer: Index of the group that emits, shape (E,).
        consumer: Index of the group that receives, shape (E,).
        rate: Rows or bytes passed, shape (E,), >= 0: ALBIC scores pairs by it.
        saved: Load that the receiver saves while both are on one node, shape (E,), >= 0.
    """

    producer: Ints = field(default_factory=_no_ints)
    consumer: Ints = field(default_factory=_no_ints)
    rate: Floats = field(default_factory=_no_floats)
    saved: Floats = field(default_factory=_no_floats)

    def near(self, node: Ints) -> Bools:
        """Return which flows stay within a node, shape (E,).

        Args:
            node: Node of each group, shape (K,).
        """
        ends = node[self.producer]
        return np.asarray((ends == node[self.consumer]) & (ends >= 0))

    def near_share(self, node: Ints) -> float | None:
        """Return the share of all rows that stays within a node, 0..1; None without flows."""
        every = float(self.rate.sum())
        return float(self.rate[self.near(node)].sum()) / every if every > 0 else None


@dataclass(frozen=True)
class Caps:
    """Other resources than the bottleneck, which a plan keeps below their limits.

    Attributes:
        load: Use of each resource by each group, shape (R, K), >= 0.
        limit: Capacity of each node in each resource, shape (R, N), > 0.
    """

    load: Floats
    limit: Floats

    def used(self, node: Ints) -> Floats:
        """Return the use of each resource on each node, shape (R, N); groups without a node use nothing."""
        placed, nodes = node >= 0, self.limit.shape[1]
        rows = [np.bincount(node[placed], weights=load[placed], minlength=nodes) for load in self.load]
        return np.asarray(np.array(rows, dtype=np.float64).reshape(len(rows), nodes))


@dataclass(frozen=True)
class Problem:
    """One period's placement problem: K key groups on N nodes.

    Attributes:
        load: Points of each group while none of its partners is near, shape (K,), >= 0.
        node: Present node of each group, shape (K,); :data:`UNPLACED` without one.
        capacity: Capacity of each node, shape (N,), > 0; 1 for the node that points refer to.
        removed: Nodes that are marked for removal (the paper's B), shape (N,); at least one is not.
        cost: Price of moving each group, shape (K,), > 0: 1 to count moves, or its state's size.
        budget: Limit of the total cost of moves, >= 0; infinite for no limit.
        operator: Operator of each group, shape (K,); zeros if it does not matter.
        flows: Which groups pass rows to which.
        caps: Other resources; None for none.

    Raises:
        MillraceError: With the field, its value, what is allowed and the remedy.
    """

    load: Floats
    node: Ints
    capacity: Floats
    removed: Bools
    cost: Floats
    budget: float
    operator: Ints = field(default_factory=_no_ints)
    flows: Flows = field(default_factory=Flows)
    caps: Caps | None = None

    def __post_init__(self) -> None:
        groups, nodes = len(self.load), len(self.capacity)
        if nodes == 0:
            raise MillraceError("nodes", 0, ">= 1", "Give the cluster a node.")
        self._check_shapes(groups, nodes)
        check_every("load", self.load, self.load >= 0, ">= 0")
        check_every("capacity", self.capacity, self.capacity > 0, "> 0")
        check_every("cost", self.cost, self.cost > 0, "> 0")
        check_every("node", self.node, (self.node >= UNPLACED) & (self.node < nodes), f"{UNPLACED} to {nodes - 1}")
        if not self.budget >= 0:
            raise MillraceError("budget", self.budget, ">= 0", "Allow 0 to forbid every move.")
        if self.removed.all():
            raise MillraceError("removed", nodes, f"0 to {nodes - 1} nodes", "Keep a node.")
        self._check_flows(groups)
        if self.caps is not None:
            check_every("caps.load", self.caps.load, self.caps.load >= 0, ">= 0")
            check_every("caps.limit", self.caps.limit, self.caps.limit > 0, "> 0")

    def _check_shapes(self, groups: int, nodes: int) -> None:
        resources = 0 if self.caps is None else len(self.caps.load)
        edges = len(self.flows.producer)
        expected: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
            "node": (self.node, (groups,)),
            "cost": (self.cost, (groups,)),
            "removed": (self.removed, (nodes,)),
            "flows.consumer": (self.flows.consumer, (edges,)),
            "flows.rate": (self.flows.rate, (edges,)),
            "flows.saved": (self.flows.saved, (edges,)),
        }
        if len(self.operator):
            expected["operator"] = (self.operator, (groups,))
        if self.caps is not None:
            expected["caps.load"] = (self.caps.load, (resources, groups))
            expected["caps.limit"] = (self.caps.limit, (resources, nodes))
        for name, (actual, shape) in expected.items():
            if actual.shape != shape:
                raise MillraceError(name, actual.shape, f"shape {shape}", "Give one value each.")

    def _check_flows(self, groups: int) -> None:
        flows = self.flows
        for name, ends in (("flows.producer", flows.producer), ("flows.consumer", flows.consumer)):
            check_every(name, ends, (ends >= 0) & (ends < groups), f"0 to {groups - 1}")
        check_every("flows.rate", flows.rate, flows.rate >= 0, ">= 0")
        check_every("flows.saved", flows.saved, flows.saved >= 0, ">= 0")
        pairs = flows.producer * groups + flows.consumer
        if len(np.unique(pairs)) < len(pairs):
            raise MillraceError("flows", len(pairs) - len(np.unique(pairs)), "0 doubles", "Sum each pair's traffic.")

    @property
    def groups(self) -> int:
        """K."""
        return len(self.load)

    @property
    def nodes(self) -> int:
        """N."""
        return len(self.capacity)

    @cached_property
    def kept(self) -> Ints:
        """Indices of the nodes that stay (the paper's A)."""
        return np.flatnonzero(~self.removed)

    def loads(self, node: Ints) -> Floats:
        """Return the load of each node under a placement, points, shape (N,).

        Args:
            node: Node of each group, shape (K,); groups without one load nothing.
        """
        placed = node >= 0
        return np.bincount(node[placed], weights=self.own(node)[placed], minlength=self.nodes) / self.capacity

    def own(self, node: Ints) -> Floats:
        """Return the load of each group under a placement, minus its savings next to its partners, shape (K,)."""
        return self._without(self.flows.near(node))

    def least(self) -> Floats:
        """Return the load of each group next to all its partners, shape (K,)."""
        return self._without(np.ones(len(self.flows.rate), dtype=bool))

    def _without(self, near: Bools) -> Floats:
        """Return the load of each group, minus what these flows save."""
        saved = np.bincount(self.flows.consumer[near], self.flows.saved[near], self.groups)
        return np.asarray(np.maximum(self.load - saved, 0.0))

    def mean(self, node: Ints) -> float:
        """Return the load that every kept node would have if all were equally loaded and removed ones empty, points."""
        loads = self.loads(node)
        return float(loads @ self.capacity / self.capacity[self.kept].sum())

    def distance(self, node: Ints) -> float:
        """Return the load distance: the largest deviation of a kept node from the mean, points."""
        loads = self.loads(node)
        mean = loads @ self.capacity / self.capacity[self.kept].sum()
        return float(np.abs(loads[self.kept] - mean).max())

    def moved(self, node: Ints) -> Ints:
        """Return the groups that a placement moves away from a node, shape (M,)."""
        return np.flatnonzero((node != self.node) & (self.node >= 0))

    def spent(self, node: Ints) -> float:
        """Return the cost of a placement's moves."""
        return float(self.cost[self.moved(node)].sum())


@dataclass(frozen=True)
class Plan:
    """The planned node of every key group.

    Attributes:
        node: Node of each group, shape (K,); every group has one.
        bound: No plan within the same constraints has a smaller load distance than this, points, >= 0.
        stage: How far the search came, for example ``balanced`` or ``optimal``.
    """

    node: Ints
    bound: float
    stage: str
