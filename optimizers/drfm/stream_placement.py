"""A placement of streams on nodes during planning: the load of every node in each of the next periods.

Symbols:
    F, V     mean and variance of the streams' rates, shape (S, H)
    M, W     sums of them on nodes, shape (B, H); B nodes, some of them empty
    z        margin, C capacity

A set of streams fits on a node in a period if M + z sqrt(W) <= C. Its *window* is the number of periods, from now on,
for which it fits. A queue counts as load of the next period: the rate at which it has to be worked off.

Reference: ours. [DRFM] compares one number per node, the sum of forecasts, with C.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from millrace.optimizers.api import Options
from millrace.optimizers.arrays import Bools, Floats, Ints
from millrace.optimizers.drfm.problem import Problem

Snapshot = tuple[int, Ints, Floats, Floats]
"""A stream, the nodes that it is moved from and to, and their rows of M and W before that, shape (2, H)."""

ROUNDING = 1e-9
QUEUED = 0.5
"""Largest share of a node that its queue may take: leaving streams wait for the queue too, so not all need to leave."""


class HorizonOptions(Options):
    """Options of the horizon planner.

    Attributes:
        ahead: Periods looked ahead (H), >= 1; twice the longest part of a cycle shows every opposite.
        margin: Standard deviations that a node keeps free (z), >= 0.
        patience: Share of the margin that may be used up before a node counts as overloaded, [0, 1].
        act: Periods ahead within which an overload is relieved, >= 1; later ones can wait and may not come.
        catch_up_s: Seconds in which a node must work its queue off, > 0.
        move_price: Node-periods that a redirection has to save, >= 0.
        pairing: Least share of two streams' peaks that they save together to be placed as one, (0, 1]; 1 for no pairs.
        pair_limit: New streams beyond which no pairs are formed, >= 1: the time grows with their square.
        drains: Most attempts to drain a node per period, >= 1.
        swaps: Streams elsewhere that an overloaded node may be offered in exchange, >= 1.
        polish: Let CP-SAT look for the best plan.
        effort: Deterministic time of CP-SAT per period, > 0.
    """

    section: ClassVar[str] = "admission.options"

    ahead: int = Field(48, ge=1)
    margin: float = Field(3.5, ge=0)
    patience: float = Field(0.15, ge=0, le=1)
    act: int = Field(1, ge=1)
    catch_up_s: float = Field(60.0, gt=0)
    move_price: float = Field(0.7, ge=0)
    pairing: float = Field(0.1, gt=0, le=1)
    pair_limit: int = Field(2000, ge=1)
    drains: int = Field(16, ge=1)
    swaps: int = Field(256, ge=1)
    polish: bool = False
    effort: float = Field(1.0, gt=0)


class StreamPlacement:
    """Node of each stream, and the load of each node.

    Args:
        problem: The period's problem.
        margin: z.
        catch_up_s: Seconds in which a queue must be worked off, > 0; infinite to ignore it.
        spare: Empty nodes in addition to the existing ones, >= 0; more are opened on demand.
    """

    def __init__(self, problem: Problem, margin: float, catch_up_s: float = math.inf, spare: int = 4) -> None:
        self.mean = np.ascontiguousarray(problem.mean.T)
        self.variance = np.ascontiguousarray(problem.variance.T)
        self.capacity, self.margin = problem.capacity, margin
        self.running = np.array(problem.running, dtype=np.intp)
        self.node = problem.node.copy()
        self.home, self.cost = problem.node, 1.0 + problem.rate / problem.capacity
        size = problem.nodes + spare
        self.sums = np.zeros((size, len(problem.mean)))
        self.noise = np.zeros_like(self.sums)
        placed = np.flatnonzero(problem.placed)
        if len(placed):
            order = placed[np.argsort(self.node[placed], kind="stable")]
            at = self.node[order]
            first = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])
            self.sums[at[first]] = np.add.reduceat(self.mean[order], first, axis=0)
            self.noise[at[first]] = np.add.reduceat(self.variance[order], first, axis=0)
        self.count = np.bincount(self.node[placed], minlength=size)
        self.sums[: problem.nodes, 0] += catch_up_rate(problem, catch_up_s)

    @property
    def ahead(self) -> int:
        """H."""
        return self.sums.shape[1]

    @property
    def used(self) -> Ints:
        """Nodes that hold a stream."""
        return np.flatnonzero(self.count)

    @property
    def offered(self) -> Ints:
        """Nodes that get streams before others are opened: those that hold a stream, and those that always run."""
        return np.union1d(self.used, self.running) if len(self.running) else self.used

    @property
    def ending(self) -> Ints:
        """Nodes that hold a stream and would not run without one."""
        return np.setdiff1d(self.used, self.running) if len(self.running) else self.used

    def members(self, node: int) -> Ints:
        """Return the streams on a node."""
        return np.flatnonzero(self.node == node)

    def total(self, streams: Ints) -> tuple[Floats, Floats]:
        """Return mean and variance of streams together, shape (H,) each."""
        return self.mean[streams].sum(axis=0), self.variance[streams].sum(axis=0)

    def need(self, mean: Floats, variance: Floats, share: float = 1.0) -> Floats:
        """Return the capacity that sums need, with a share of the margin; all of one shape."""
        return np.asarray(mean + share * self.margin * np.sqrt(np.maximum(variance, 0.0)))

    def window(self, mean: Floats, variance: Floats, share: float = 1.0) -> Ints:
        """Return for how many periods from now on sums fit a node, shape (...,), of sums of shape (..., H).

        A share of the margin can be used instead of all of it.
        """
        over = self.need(mean, variance, share) > self.capacity * (1 + ROUNDING)
        return np.asarray(np.where(over.any(axis=-1), over.argmax(axis=-1), over.shape[-1]))

    def peaks(self, nodes: Ints, periods: int) -> Floats:
        """Return the most that each node needs within the next periods, shape of ``nodes``."""
        return np.asarray(self.need(self.sums[nodes, :periods], self.noise[nodes, :periods]).max(axis=1))

    def windows(self, share: float = 1.0) -> Ints:
        """Return how many periods each node holds out, shape (B,); a node with a single stream does so forever."""
        return np.where(self.count > 1, self.window(self.sums, self.noise, share), self.ahead)

    def put(self, stream: int, node: int) -> None:
        """Move a stream to a node, or place it there."""
        before = self.node[stream]
        if before >= 0:
            self.count[before] -= 1
            self.sums[before] -= self.mean[stream]
            self.noise[before] -= self.variance[stream]
            if not self.count[before]:
                self.sums[before] = self.noise[before] = 0.0
        self.node[stream] = node
        self.count[node] += 1
        self.sums[node] += self.mean[stream]
        self.noise[node] += self.variance[stream]

    def open(self) -> int:
        """Return the first empty node, or a new one; an empty node that runs anyway comes before others."""
        idle = self.running[self.count[self.running] == 0]
        if len(idle):
            return int(idle[0])
        empty = np.flatnonzero(self.count == 0)
        if len(empty):
            return int(empty[0])
        more = len(self.count)
        self.count = np.r_[self.count, np.zeros(more, dtype=self.count.dtype)]
        self.sums, self.noise = (np.concatenate([v, np.zeros_like(v)]) for v in (self.sums, self.noise))
        return more

    def snapshot(self, stream: int, node: int) -> Snapshot:
        """Return the data that :meth:`restore` needs to undo moving a stream, which has a node, to another one."""
        nodes = np.array([self.node[stream], node])
        return stream, nodes, self.sums[nodes], self.noise[nodes]

    def restore(self, before: Snapshot) -> None:
        """Undo the latest move that was not undone yet."""
        stream, nodes, sums, noise = before
        self.node[stream] = nodes[0]
        self.count[nodes] += (1, -1)
        self.sums[nodes], self.noise[nodes] = sums, noise

    def least_nodes(self, periods: int) -> int:
        """Return the least number of nodes that all rates together need within the next periods."""
        total = self.mean[:, :periods].sum(axis=0)
        return int(np.ceil(total.max(initial=0.0) / self.capacity - ROUNDING))

    def least_ending(self, periods: int) -> int:
        """Return the least number of nodes that rates need within the next periods, without those that always run."""
        return max(0, self.least_nodes(periods) - len(self.running))

    def has_room(self, nodes: Ints, need: float) -> Bools:
        """Return which nodes have room for a need in the next period, shape of ``nodes``: a quick first test."""
        room = self.capacity * (1 + ROUNDING) - self.need(self.sums[nodes, 0], self.noise[nodes, 0])
        return np.asarray(room >= need)


def catch_up_rate(problem: Problem, catch_up_s: float) -> Floats:
    """Return the rate at which each node has to work its queue off, shape (N,).

    Args:
        problem: The period's problem.
        catch_up_s: Seconds in which that must be done, > 0.
    """
    if problem.latency_s is None:
        return np.zeros(problem.nodes)
    return problem.capacity * np.minimum(problem.latency_s / catch_up_s, QUEUED)
