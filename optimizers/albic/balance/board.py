"""A placement that is being changed: loads, costs and caps kept up with every move.

Loads here are raw, that is sums of w in points of a node of capacity 1; a node's own load is raw / c.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from optimizers.albic.balance.frame import SLACK, Frame
from optimizers.albic.problem import Bools, Floats, Ints


class Board:
    """A placement under change.

    Attributes:
        frame: What it started from.
        node: Node of each group, shape (K,).
        raw: Sum of loads on each node, shape (N,).
        spent: What the moves cost so far.
        used: Use of the other resources, shape (R, N).
        ceiling: What may be used of them: the limit, or where it was exceeded already, no more than that.
        most: Load that nodes may have, raw points, shape (N,); infinite unless set.
    """

    def __init__(self, frame: Frame, node: Ints | None = None) -> None:
        """Set up a placement; that of the frame's start without one."""
        self.frame = frame
        self.node = (frame.start if node is None else node).copy()
        self.raw = frame.raw(self.node)
        self.spent = float(frame.away(self.node).sum())
        self.used = frame.used(self.node)
        self.ceiling = np.maximum(frame.limit, self.used)
        self.most: Floats = np.full(len(frame.capacity), np.inf)
        order = np.argsort(self.node, kind="stable")
        bounds = np.searchsorted(self.node[order], np.arange(len(frame.capacity) + 1))
        self._members = [order[a:b] for a, b in pairwise(bounds.tolist())]

    def again(self, node: Ints, frame: Frame | None = None) -> Board:
        """Return another placement under the same limits; of another frame of the same problem if one is given."""
        found = Board(self.frame if frame is None else frame, node)
        found.ceiling, found.most = self.ceiling.copy(), self.most
        return found

    def crowded(self) -> bool:
        """Say whether a node has more load than it may."""
        return bool((self.raw > self.most * (1 + SLACK)).any())

    def members(self, node: int) -> Ints:
        """Return the groups on a node, in no order."""
        return self._members[node]

    def deviation(self) -> Floats:
        """Return how far each node is from the mean, points, shape (N,); 0 for removed ones."""
        frame = self.frame
        found: Floats = np.where(frame.kept, self.raw / frame.capacity - frame.mean, 0.0)
        return found

    def distance(self) -> float:
        """Return the load distance, points."""
        return float(np.abs(self.deviation()).max())

    def price(self, groups: Ints, nodes: Ints) -> Floats:
        """Return what it adds to the cost to put groups on nodes, shapes broadcast; negative on the way home."""
        frame = self.frame
        placed = frame.home[groups] >= 0
        after = placed & (frame.home[groups] != nodes)
        before = placed & (frame.home[groups] != self.node[groups])
        found: Floats = frame.price[groups] * (after.astype(float) - before)
        return found

    def left(self) -> float:
        """Return what may still be spent, rounding errors forgiven."""
        return self.frame.affordable - self.spent

    def fits(self, groups: Ints, nodes: Ints) -> Bools:
        """Say whether groups may be added to nodes without exceeding a cap, shapes broadcast."""
        found = np.ones(np.broadcast_shapes(groups.shape, nodes.shape), dtype=bool)
        for use, used, ceiling in zip(self.frame.use, self.used, self.ceiling, strict=True):
            found &= used[nodes] + use[groups] <= ceiling[nodes] * (1 + SLACK)
        return found

    def exchangeable(self, groups: Ints, others: Ints) -> Bools:
        """Say whether groups may change places with others without exceeding a cap, shapes broadcast."""
        shape = np.broadcast_shapes(groups.shape, others.shape)
        found = np.ones(shape, dtype=bool)
        here, there = self.node[groups], self.node[others]
        for use, used, ceiling in zip(self.frame.use, self.used, self.ceiling, strict=True):
            more = use[groups] - use[others]
            found &= (used[there] + more <= ceiling[there] * (1 + SLACK)) | (more <= 0)
            found &= (used[here] - more <= ceiling[here] * (1 + SLACK)) | (more >= 0)
        return found

    def move(self, group: int, to: int) -> None:
        """Put a group on a node."""
        frame, source = self.frame, int(self.node[group])
        if source == to:
            return
        self.spent += float(self.price(np.array(group), np.array(to)))
        if source >= 0:
            self.raw[source] -= frame.load[group]
            self.used[:, source] -= frame.use[:, group]
            members = self._members[source]
            self._members[source] = members[members != group]
        self.raw[to] += frame.load[group]
        self.used[:, to] += frame.use[:, group]
        self._members[to] = np.append(self._members[to], group)
        self.node[group] = to

    def exchange(self, group: int, other: int) -> None:
        """Let two groups change places."""
        here, there = int(self.node[group]), int(self.node[other])
        self.move(group, there)
        self.move(other, here)

    def tighten(self) -> None:
        """Let no cap be exceeded further than it is now."""
        self.ceiling = np.minimum(self.ceiling, np.maximum(self.frame.limit, self.used))
