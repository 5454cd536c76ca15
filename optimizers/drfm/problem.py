"""One period's admission problem: at which ingest node each stream enters.

Symbols:
    S    streams
    N    existing nodes, numbered 0..N-1; a plan numbers new ones from N on
    H    periods looked ahead
    C    capacity of a node; all nodes are equal

Rates and capacity have the same unit, tuples per second or tuples per period.

Reference:
    [DRFM] Balkesen, Tatbul, Ozsu, "Adaptive Input Admission and Management for Parallel Stream Processing", DEBS 2013,
    Section 2.1. Deviation: a stream may be faster than a node. It then has a node to itself, and the plan names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from millrace.model.errors import MillraceError
from millrace.optimizers.arrays import Bools, Floats, Ints, check_every

NEW = -1
"""Node of a stream that has none yet: assigning it is no redirection."""


@dataclass(frozen=True)
class Problem:
    """Input at the start of a period.

    Attributes:
        node: Present node of each stream, shape (S,); :data:`NEW` without one.
        rate: Rate of each stream in the period that ended, shape (S,), >= 0: what redirecting it has to buffer.
        mean: Expected rate in each of the next periods, shape (H, S), H >= 1, >= 0.
        variance: Variance of that, shape (H, S), >= 0; zeros if certain.
        capacity: C, > 0.
        nodes: N.
        latency_s: Moving average of the queueing delay of each node, shape (N,), >= 0; None if not measured.
        running: Numbers of the nodes that run even without streams, < N: to empty one saves nothing.

    Raises:
        MillraceError: With the field, its value, what is allowed and the remedy.
    """

    node: Ints
    rate: Floats
    mean: Floats
    variance: Floats
    capacity: float
    nodes: int
    latency_s: Floats | None = None
    running: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        streams = len(self.node)
        if not (np.isfinite(self.capacity) and self.capacity > 0):
            raise MillraceError("capacity", self.capacity, "a finite number > 0", "Measure the capacity of a node.")
        if self.mean.ndim != 2 or not len(self.mean):
            raise MillraceError("mean", self.mean.shape, f"shape (H, {streams}), H >= 1", "Forecast a period.")
        for name, actual, shape in (
            ("rate", self.rate.shape, (streams,)),
            ("mean", self.mean.shape, (len(self.mean), streams)),
            ("variance", self.variance.shape, self.mean.shape),
            ("latency_s", (self.nodes,) if self.latency_s is None else self.latency_s.shape, (self.nodes,)),
        ):
            if actual != shape:
                raise MillraceError(name, actual, f"shape {shape}", "Give one value each.")
        if streams and not (self.node.min() >= NEW and self.node.max() < self.nodes):
            raise MillraceError("node", int(self.node.max()), f"{NEW} to {self.nodes - 1}", "Number the nodes again.")
        if not all(0 <= number < self.nodes for number in self.running):
            raise MillraceError("running", self.running, f"0 to {self.nodes - 1}", "Number the nodes again.")
        for name, values in (
            ("rate", self.rate),
            ("mean", self.mean),
            ("variance", self.variance),
            ("latency_s", np.zeros(0) if self.latency_s is None else self.latency_s),
        ):
            check_every(name, values, values >= 0, "a finite number >= 0")

    @property
    def streams(self) -> int:
        """S."""
        return len(self.node)

    @cached_property
    def placed(self) -> Bools:
        """Which streams have a node, shape (S,)."""
        return self.node >= 0

    def ending(self, node: Ints) -> Ints:
        """Return the nodes of a placement, shape (S,), that would not run without their streams, in ascending order."""
        used = np.unique(node)
        return used[~np.isin(used, self.running)]

    def sums(self, sizes: Floats) -> Floats:
        """Return the sum of sizes, shape (S,), on each node, shape (N,)."""
        sums = np.bincount(self.node[self.placed], weights=sizes[self.placed], minlength=self.nodes)
        return np.asarray(sums, dtype=np.float64)


@dataclass(frozen=True)
class Plan:
    """The node of every stream.

    Attributes:
        node: Node of each stream, shape (S,); those from N on are new. Nodes without streams are to be released.
        oversized: Streams that are expected to be faster than a node, shape (M,); each has one to itself.
        optimal: Proven: no plan with as few nodes costs less, node-periods and redirections together.
    """

    node: Ints
    oversized: Ints
    optimal: bool = False

    @property
    def nodes(self) -> int:
        """Number of nodes in use."""
        return len(np.unique(self.node))

    def redirected(self, problem: Problem) -> Ints:
        """Return the streams that change their node, shape (R,); new ones do not."""
        return np.flatnonzero((self.node != problem.node) & problem.placed)


Planner = Callable[[Problem], Plan]
"""A way to assign streams: :func:`horizon.plan`, or a strategy of the paper."""


def oversized(problem: Problem) -> Ints:
    """Return the streams that are expected to be faster than a node in the next period, shape (M,)."""
    return np.flatnonzero(problem.mean[0] > problem.capacity)


def match_nodes(bins: Ints, before: Ints, nodes: int) -> Ints:
    """Number the bins of a packing from scratch in such a way that most streams keep their node.

    Bins and nodes that share the most streams are matched first: not always the best matching, but close to it, and
    fast for any number of nodes.

    Args:
        bins: Bin of each stream, 0..B-1, shape (S,).
        before: Its node, shape (S,), :data:`NEW` without one.
        nodes: N; bins that match no node are numbered from there on.

    Returns:
        Node of each stream, shape (S,).
    """
    number = np.full(int(bins.max()) + 1 if len(bins) else 0, -1, dtype=np.intp)
    placed = before >= 0
    pairs, count = np.unique(np.stack([bins[placed], before[placed]]), axis=1, return_counts=True)
    taken = np.zeros(nodes, dtype=bool)
    for at in np.argsort(-count, kind="stable"):
        b, n = pairs[:, at]
        if number[b] < 0 and not taken[n]:
            number[b], taken[n] = n, True
    rest = np.flatnonzero(number < 0)
    number[rest] = np.r_[np.flatnonzero(~taken), nodes + np.arange(len(rest))][: len(rest)]
    return number[bins]


def renumber(node: Ints, before: Ints, nodes: int, running: Sequence[int]) -> Ints:
    """Number the nodes of a placement like :func:`match_nodes`; those that always run get such numbers, others do not.

    Args:
        node: Node of each stream, shape (S,), >= 0.
        before: Its former node, shape (S,), :data:`NEW` without one.
        nodes: N; nodes that match none are numbered from there on.
        running: Numbers of the nodes that always run, < N.

    Returns:
        Node of each stream, shape (S,).
    """
    found, runs, always = np.zeros_like(node), np.isin(node, running), np.isin(np.arange(nodes), running)
    for part, numbers in ((runs, np.flatnonzero(always)), (~runs, np.flatnonzero(~always))):
        if part.any():
            place = np.full(nodes + 1, NEW, dtype=np.intp)  # the last one is for streams without a node
            place[numbers] = np.arange(len(numbers))
            bins = np.unique(node[part], return_inverse=True)[1]
            matched = match_nodes(bins, place[before[part]], len(numbers))
            found[part] = np.r_[numbers, nodes + np.arange(len(bins))][matched]
    return found
