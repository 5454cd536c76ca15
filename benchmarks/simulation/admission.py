"""A simulated cluster of split nodes through which streams enter: queues, redirections, and the cost of both.

Units:
    rates, capacity    tuples per second
    period             the time between two evaluations, ``period_s`` seconds

An evaluation lists all streams that are connected in the period that begins. Streams that connect and leave between two
evaluations are never seen; their feed keeps their tuples. An overloaded node queues the excess. Streams of one node are
redirected one after another, streams of different nodes in parallel: the j-th stream of a node waits for j hand-overs,
and for the queue before it, because tuples must not overtake each other. Its feed buffers its tuples in the meantime.

Reference: Balkesen, Tatbul, Ozsu, "Adaptive Input Admission and Management for Parallel Stream Processing", DEBS 2013,
Section 6.1. The optimum is a lower bound of the nodes that any assignment needs. Deviation: the paper uses the bound of
Korf (AAAI 2002), we use L2 of Martello and Toth, "Lower bounds and reduction procedures for the bin packing problem",
1990.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millrace.model.errors import MillraceError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

ROUNDING = 1e-9


@dataclass(frozen=True)
class SplitNodes:
    """The constant parameters.

    Attributes:
        capacity: Capacity of a node, > 0.
        period_s: Length of a period, > 0.
        handover_s: Time to redirect one stream, >= 0.
    """

    capacity: float = 10_000.0
    period_s: float = 10.0
    handover_s: float = 0.02

    def __post_init__(self) -> None:
        """Reject values out of range.

        Raises:
            MillraceError: With the field, its value, the allowed range and the remedy.
        """
        for name, value, least in (
            ("capacity", self.capacity, 0.0),
            ("period_s", self.period_s, 0.0),
            ("handover_s", self.handover_s, -math.inf),
        ):
            if not (math.isfinite(value) and value > least and value >= 0):
                raise MillraceError(name, value, "a finite number, not negative", "Set a value within the range.")


@dataclass(frozen=True)
class ObservedStreams:
    """The state at the beginning of a period.

    Attributes:
        period: Its number, from 0.
        streams: Ids of the S connected streams.
        rate: Rate of each in the period that ended, shape (S,); NaN for streams that just joined.
        node: Node of each, shape (S,); -1 for streams that just joined.
        nodes: N.
        latency_s: Moving average of the queueing delay of each node, shape (N,).
    """

    period: int
    streams: tuple[str, ...]
    rate: Floats
    node: Ints
    nodes: int
    latency_s: Floats


@dataclass(frozen=True)
class Outcome:
    """The result of a period.

    Attributes:
        redirections: Streams that changed their node.
        buffered: Tuples that their feeds buffered in the meantime.
        nodes: Nodes in use.
        overloaded: Nodes of these that got more than their capacity.
        optimum: No assignment of this period's rates needs fewer nodes.
        latency_s: The longest queueing delay at the end.
        delay_s: Total seconds that redirected streams waited.
    """

    redirections: int
    buffered: float
    nodes: int
    overloaded: int
    optimum: int
    latency_s: float
    delay_s: float


@dataclass(frozen=True)
class Score:
    """The score of a run.

    Attributes:
        redirections_per_period: Streams redirected per period, mean.
        buffered_tuples: Tuples buffered per period, mean.
        above_optimum_ratio: Node-periods over those of the optimum, less 1.
        overloaded_ratio: Share of node-periods that were overloaded, 0..1.
        latency_p95_s: 95 % of periods had no longer queueing delay.
        node_periods: Total node-periods.
        redirection_delay_s: Seconds that a redirected stream waited, mean; 0 without any.
    """

    redirections_per_period: float
    buffered_tuples: float
    above_optimum_ratio: float
    overloaded_ratio: float
    latency_p95_s: float
    node_periods: float
    redirection_delay_s: float


class AdmissionPlant:
    """Streams on split nodes: :meth:`observe`, then :meth:`apply` an assignment, which ends the period.

    Args:
        streams: Ids, one for each column of ``rates``.
        rates: Rate of each stream in each period, shape (T, K), >= 0; NaN while it is not connected.
        cluster: The constant parameters.

    Raises:
        MillraceError: If shapes do not match, or a rate is negative or infinite.
    """

    def __init__(self, streams: Sequence[str], rates: Floats, cluster: SplitNodes | None = None) -> None:
        if rates.ndim != 2 or rates.shape[1] != len(streams):
            raise MillraceError("rates", rates.shape, f"shape (T, {len(streams)})", "Give a column a stream.")
        if (rates < 0).any() or np.isinf(rates).any():
            raise MillraceError("rates", float(np.nanmin(rates)), ">= 0 and finite", "Correct the workload.")
        self.cluster = cluster or SplitNodes()
        self._streams, self._rates = np.array(streams, dtype=object), rates
        self._node = np.full(rates.shape[1], -1, dtype=np.intp)
        self._queue, self._latency = np.zeros(0), np.zeros(0)
        self.period = 0

    @property
    def over(self) -> bool:
        """The workload has ended."""
        return self.period >= len(self._rates)

    def observe(self) -> ObservedStreams:
        """Return the state at the beginning of the period."""
        here = self._here
        before = self._rates[self.period - 1] if self.period else np.full(len(here), np.nan)
        rate = np.where(self._node >= 0, before, np.nan)
        ids = tuple(self._streams[here])
        return ObservedStreams(self.period, ids, rate[here], self._node[here], len(self._queue), self._latency.copy())

    @property
    def _here(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = ~np.isnan(self._rates[self.period])
        return found

    def apply(self, node: Ints) -> Outcome:
        """Redirect streams to their assigned nodes, and let the period pass.

        Args:
            node: Node of each connected stream, shape (S,); numbers from N on are new nodes.

        Raises:
            MillraceError: If a stream has no node.
        """
        here = np.flatnonzero(self._here)
        if node.shape != here.shape or (node < 0).any():
            raise MillraceError("assignment", node.shape, f"{len(here)} nodes >= 0", "Assign every stream.")
        cluster, rate = self.cluster, self._rates[self.period, here]
        before = self._node[here]
        moved = np.flatnonzero((before >= 0) & (before != node))
        wait = self._wait(before[moved])
        used, index = np.unique(node, return_inverse=True)
        queue, latency = (np.r_[v, np.zeros(int(used.max(initial=-1)) + 1)][used] for v in (self._queue, self._latency))
        load = np.bincount(index, weights=rate, minlength=len(used))
        self._queue = np.maximum(queue + (load - cluster.capacity) * cluster.period_s, 0.0)
        self._latency = (latency + self._queue / cluster.capacity) / 2
        self._node[:] = -1
        self._node[here] = index
        self.period += 1
        return Outcome(
            redirections=len(moved),
            buffered=float(rate[moved] @ wait),
            nodes=len(used),
            overloaded=int((load > cluster.capacity * (1 + ROUNDING)).sum()),
            optimum=least_nodes(rate, cluster.capacity),
            latency_s=float((self._queue / cluster.capacity).max(initial=0.0)),
            delay_s=float(wait.sum()),
        )

    def _wait(self, source: Ints) -> Floats:
        """Return the seconds that each redirected stream waits, shape (R,)."""
        if not len(source):
            return np.zeros(0)
        order = np.argsort(source, kind="stable")
        starts = np.r_[True, np.diff(source[order]) != 0]
        turn = np.arange(len(source)) - np.maximum.accumulate(np.where(starts, np.arange(len(source)), 0)) + 1
        wait = np.empty(len(source))
        wait[order] = turn * self.cluster.handover_s
        waits: Floats = wait + self._queue[source] / self.cluster.capacity
        return waits


def least_nodes(rate: Floats, capacity: float) -> int:
    """Return a lower bound of the nodes that rates, shape (S,), need: Martello and Toth's L2.

    A stream that is faster than a node counts as a full node.
    """
    share = np.minimum(rate[rate > 0] / capacity, 1.0)
    best = math.ceil(float(share.sum()) - ROUNDING)
    for small in np.unique(np.r_[share[share <= 0.5], 0.0]):
        large = share > 1 - small + ROUNDING
        half = ~large & (share > 0.5)
        rest = share[(share >= small) & (share <= 0.5)].sum() - (half.sum() - share[half].sum())
        best = max(best, int(large.sum() + half.sum() + max(0, math.ceil(float(rest) - ROUNDING))))
    return best


def score(outcomes: Sequence[Outcome]) -> Score:
    """Return the score of a run.

    Raises:
        MillraceError: If there was no period.
    """
    if not outcomes:
        raise MillraceError("outcomes", 0, ">= 1 period", "Let a period pass.")
    nodes, best = sum(o.nodes for o in outcomes), sum(o.optimum for o in outcomes)
    redirections = sum(o.redirections for o in outcomes)
    return Score(
        redirections_per_period=redirections / len(outcomes),
        buffered_tuples=float(np.mean([o.buffered for o in outcomes])),
        above_optimum_ratio=nodes / best - 1 if best else 0.0,
        overloaded_ratio=sum(o.overloaded for o in outcomes) / nodes if nodes else 0.0,
        latency_p95_s=float(np.quantile([o.latency_s for o in outcomes], 0.95)),
        node_periods=float(nodes),
        redirection_delay_s=sum(o.delay_s for o in outcomes) / redirections if redirections else 0.0,
    )
