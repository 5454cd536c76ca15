"""A placement of groups on nodes during a search: every move updates loads, costs and use of caps.

Loads here are raw: sums of w in points of a node of capacity 1. A node's own load is raw / c.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from millrace.optimizers.albic.balance_problem import SLACK, BalanceProblem
from millrace.optimizers.arrays import Bools, Floats, Ints


class Assignment:
    """Node of each group, and the resulting loads and uses of the nodes.

    Attributes:
        problem: The problem that it solves.
        node: Node of each group, shape (K,).
        raw: Sum of loads on each node, shape (N,).
        spent: Cost of the moves so far.
        used: Use of the other resources, shape (R, N).
        ceiling: Allowed use of them: the limit, or the current use if that exceeds the limit.
        load_limit: Load that nodes may have, raw points, shape (N,); infinite unless set.
    """

    def __init__(self, problem: BalanceProblem, node: Ints | None = None) -> None:
        """Set up an assignment; without a placement, it is the problem's start."""
        self.problem = problem
        self.node = (problem.start if node is None else node).copy()
        self.raw = problem.raw(self.node)
        self.spent = float(problem.away(self.node).sum())
        self.used = problem.used(self.node)
        self.ceiling = np.maximum(problem.limit, self.used)
        self.load_limit: Floats = np.full(len(problem.capacity), np.inf)
        order = np.argsort(self.node, kind="stable")
        bounds = np.searchsorted(self.node[order], np.arange(len(problem.capacity) + 1))
        self._members = [order[a:b] for a, b in pairwise(bounds.tolist())]

    def copy_with(self, node: Ints, problem: BalanceProblem | None = None) -> Assignment:
        """Return another placement under the same limits; of a restricted problem if one is given."""
        other = Assignment(self.problem if problem is None else problem, node)
        other.ceiling, other.load_limit = self.ceiling.copy(), self.load_limit
        return other

    def overfull(self) -> bool:
        """Return whether a node has more load than allowed."""
        return bool((self.raw > self.load_limit * (1 + SLACK)).any())

    def within_caps(self) -> bool:
        """Return whether no cap is exceeded beyond its ceiling."""
        return bool((self.used <= self.ceiling * (1 + SLACK)).all())

    def members(self, node: int) -> Ints:
        """Return the groups on a node, unordered."""
        return self._members[node]

    def returnable(self) -> Ints:
        """Return the groups whose move can be taken back: they are free, and their home stays."""
        problem = self.problem
        moved = np.flatnonzero((self.node != problem.home) & (problem.home >= 0) & ~problem.fixed)
        return np.asarray(moved[problem.kept[problem.home[moved]]])

    def deviation(self) -> Floats:
        """Return how far each node is from the mean, points, shape (N,); 0 for removed ones."""
        problem = self.problem
        return np.where(problem.kept, self.raw / problem.capacity - problem.mean, 0.0)

    def distance(self) -> float:
        """Return the load distance, points."""
        return float(np.abs(self.deviation()).max())

    def price(self, groups: Ints, nodes: Ints) -> Floats:
        """Return the cost added by putting groups on nodes, shapes broadcast; negative if a group returns home."""
        problem = self.problem
        placed = problem.home[groups] >= 0
        after = placed & (problem.home[groups] != nodes)
        before = placed & (problem.home[groups] != self.node[groups])
        return np.asarray(problem.price[groups] * (after.astype(float) - before))

    def left(self) -> float:
        """Return the unspent budget, with a tolerance for rounding."""
        return self.problem.affordable - self.spent

    def fits(self, groups: Ints, nodes: Ints) -> Bools:
        """Return whether groups can be added to nodes without exceeding a cap, shapes broadcast."""
        allowed = np.ones(np.broadcast_shapes(groups.shape, nodes.shape), dtype=bool)
        for use, used, ceiling in zip(self.problem.use, self.used, self.ceiling, strict=True):
            allowed &= used[nodes] + use[groups] <= ceiling[nodes] * (1 + SLACK)
        return allowed

    def exchangeable(self, groups: Ints, others: Ints) -> Bools:
        """Return whether groups can change places with others without exceeding a cap, shapes broadcast."""
        shape = np.broadcast_shapes(groups.shape, others.shape)
        allowed = np.ones(shape, dtype=bool)
        here, there = self.node[groups], self.node[others]
        for use, used, ceiling in zip(self.problem.use, self.used, self.ceiling, strict=True):
            more = use[groups] - use[others]
            allowed &= (used[there] + more <= ceiling[there] * (1 + SLACK)) | (more <= 0)
            allowed &= (used[here] - more <= ceiling[here] * (1 + SLACK)) | (more >= 0)
        return allowed

    def move(self, group: int, to: int) -> None:
        """Put a group on a node."""
        problem, source = self.problem, int(self.node[group])
        if source == to:
            return
        self.spent += float(self.price(np.array(group), np.array(to)))
        if source >= 0:
            self.raw[source] -= problem.load[group]
            self.used[:, source] -= problem.use[:, group]
            members = self._members[source]
            self._members[source] = members[members != group]
        self.raw[to] += problem.load[group]
        self.used[:, to] += problem.use[:, group]
        self._members[to] = np.append(self._members[to], group)
        self.node[group] = to

    def exchange(self, group: int, other: int) -> None:
        """Swap the nodes of two groups."""
        here, there = int(self.node[group]), int(self.node[other])
        self.move(group, there)
        self.move(other, here)

    def tighten(self) -> None:
        """Lower the ceilings to the current use, but not below the limits."""
        self.ceiling = np.minimum(self.ceiling, np.maximum(self.problem.limit, self.used))
