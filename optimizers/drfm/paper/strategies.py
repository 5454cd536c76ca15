"""Algorithm 1 of the paper and the five strategies that fill it in: PAR, ARI, ARD, DRF, DRF-M.

Overloaded nodes give streams away; the others take them and the new streams, best fit decreasing:

    PAR    all streams placed from scratch by last rates, every period
    ARI    overloaded nodes give away the slowest streams
    ARD    overloaded nodes give away the fastest streams
    DRF    overloaded nodes give away the streams that will rise most, by forecasts
    DRF-M  the same, by expectations with metadata

DRF and DRF-M differ only in the problem's ``mean``.

Reference: [DRFM] Sections 2.2, 2.5 and 6.1.2. If the text is silent: a stream that is alone on a node stays; ties go to
the lower number; nodes that could be empty are drained afterwards (:func:`drain`), otherwise their number only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pydantic import Field

from millrace.optimizers.api import Options
from millrace.optimizers.arrays import Bools, Floats, Ints
from millrace.optimizers.drfm.paper.best_fit import ROUNDING, pack
from millrace.optimizers.drfm.problem import Plan, Problem, match_nodes, oversized

BINS = 256
"""Emptiest nodes that a node can be drained to: sorting all of a large cluster for each would dominate the time."""


class StrategyOptions(Options):
    """Options of Algorithm 1.

    Attributes:
        ahead: Periods that forecasts look ahead (the paper's k), >= 1; no further than the problem does.
        accepts: Share of the capacity below which a node takes streams, (0, 1].
        full: Share of the capacity that may be used, (0, 1]; the paper uses all.
        drains: Share of the capacity below which a node is drained if its streams fit elsewhere, [0, 1].
        tries: Most attempts to drain a node per period, >= 1.
        latency_s: Delay from which a node counts as overloaded (the QoS bound L), > 0.
    """

    section: ClassVar[str] = "admission.options"

    ahead: int = Field(2, ge=1)
    accepts: float = Field(0.9, gt=0, le=1)
    full: float = Field(1.0, gt=0, le=1)
    drains: float = Field(0.8, ge=0, le=1)
    tries: int = Field(16, ge=1)
    latency_s: float = Field(5.0, gt=0, allow_inf_nan=True)


Sizes = Callable[[Problem, StrategyOptions], Floats]
"""Size of each stream, shape (S,): it is summed per node, and streams are placed by decreasing size."""
Urgency = Callable[[Problem, StrategyOptions], Floats]
"""Urgency of each stream, shape (S,): an overloaded node gives the most urgent ones away first."""


def last_rate(problem: Problem, _: StrategyOptions) -> Floats:
    """Size: the average rate of the last period."""
    return np.where(problem.placed, problem.rate, problem.mean[0])


def expected_rate(problem: Problem, options: StrategyOptions) -> Floats:
    """Size: the greater of the rates expected in the next and in the k-th period.

    The paper sums forecasts without naming a period; both ends keep a node from filling up in between.
    """
    return np.asarray(np.maximum(problem.mean[0], _furthest(problem, options)))


def least_rate(problem: Problem, _: StrategyOptions) -> Floats:
    """PickStreamsToMove of ARI: the slowest first."""
    return -problem.rate


def greatest_rate(problem: Problem, _: StrategyOptions) -> Floats:
    """PickStreamsToMove of ARD: the fastest first."""
    return problem.rate


def greatest_rise(problem: Problem, options: StrategyOptions) -> Floats:
    """PickStreamsToMove of DRF and DRF-M: the greatest expected increase first, X(t+k) - X(t+1)."""
    return np.asarray(_furthest(problem, options) - problem.mean[0])


def _furthest(problem: Problem, options: StrategyOptions) -> Floats:
    """Return the expected rates in the k-th period, or in the last one that the problem has, shape (S,)."""
    return np.asarray(problem.mean[min(options.ahead, len(problem.mean)) - 1])


@dataclass(frozen=True)
class Strategy:
    """A way to fill in Algorithm 1.

    Attributes:
        sizes: PlacementOrder, and the terms of a node's load: last rates for PAR, ARI and ARD, expectations for DRF and
            DRF-M.
        urgency: PickStreamsToMove.
        from_scratch: PAR: every node counts as overloaded and none accepts streams, so all go to new ones.
        options: The options.
    """

    sizes: Sizes
    urgency: Urgency
    from_scratch: bool = False
    options: StrategyOptions = field(default_factory=StrategyOptions)

    def plan(self, problem: Problem) -> Plan:
        """Return the node of every stream."""
        options, capacity = self.options, self.options.full * problem.capacity
        sizes = self.sizes(problem, options)
        sums = problem.sums(sizes)
        over = self._overloaded(problem, sums)
        taking = np.flatnonzero(~over & (sums < options.accepts * options.full * problem.capacity))
        moving = problem.placed if self.from_scratch else self._pick(problem, sizes, sums, over)
        items = np.flatnonzero(moving | ~problem.placed)
        node = problem.node.copy()
        node[items] = pack(sizes[items], capacity - sums[taking], taking, capacity, problem.nodes)
        if self.from_scratch:
            node = match_nodes(node - problem.nodes, problem.node, problem.nodes)
        else:
            node = drain(problem, node, sizes, over, options)
        return Plan(node, oversized(problem))

    def _overloaded(self, problem: Problem, sums: Floats) -> Bools:
        """IsOverloaded: the sum is beyond capacity, or the delay beyond the bound, shape (N,).

        Section 2.5 has only the delay, Figure 5 the sum (12 > 10); either is enough here.
        """
        if self.from_scratch:
            return np.ones(len(sums), dtype=bool)
        over = sums > problem.capacity * self.options.full
        if problem.latency_s is not None:
            over = over | (problem.latency_s > self.options.latency_s)
        return np.asarray(over)

    def _pick(self, problem: Problem, sizes: Floats, sums: Floats, over: Bools) -> Bools:
        """PickStreamsToMove: which streams leave overloaded nodes, the most urgent first, until the rest fits."""
        picked = np.zeros(problem.streams, dtype=bool)
        held = problem.placed.copy()
        held[problem.placed] = over[problem.node[problem.placed]]
        index = np.flatnonzero(held)
        if not len(index):
            return picked
        order = index[np.lexsort((-self.urgency(problem, self.options)[index], problem.node[index]))]
        node = problem.node[order]
        gone = np.cumsum(sizes[order]) - sizes[order]
        first = np.flatnonzero(np.r_[True, node[1:] != node[:-1]])
        gone -= np.repeat(gone[first], np.diff(np.r_[first, len(node)]))
        last = np.r_[node[1:] != node[:-1], True]
        limit = self.options.full * problem.capacity * (1 + ROUNDING)
        picked[order[(sums[node] - gone > limit) & ~last]] = True
        return picked


def drain(problem: Problem, node: Ints, sizes: Floats, over: Bools, options: StrategyOptions) -> Ints:
    """Return a placement with fewer nodes, if the streams of a node all fit elsewhere.

    Reference: ours. [DRFM] adds nodes (Algorithm 1, line 12) and never says when one is released; its Figure 11 is
    impossible without. Deviation: the emptiest nodes below a share of the capacity are tried, and only whole nodes are
    emptied; nodes that run even without streams are not.

    Args:
        problem: The period's problem.
        node: The placement so far, shape (S,).
        sizes: Sizes of the streams, shape (S,).
        over: Nodes that were overloaded, shape (N,): neither drained nor filled.
        options: The options.
    """
    count = max(problem.nodes, int(node.max()) + 1 if len(node) else 0)
    sums = np.bincount(node, weights=sizes, minlength=count)
    running = np.isin(np.arange(count), problem.running)
    used = np.bincount(node, minlength=count) > 0
    open_ = (used | running) & ~np.r_[over, np.zeros(count - len(over), dtype=bool)]
    light = np.flatnonzero(open_ & ~running & (sums < options.drains * problem.capacity))
    node = node.copy()
    for n in light[np.argsort(sums[light], kind="stable")][: options.tries].tolist():
        others = open_.copy()
        others[n] = False
        level = options.accepts * options.full * problem.capacity
        bins = np.flatnonzero(others & (sums < level))
        if len(bins) > BINS:
            bins = np.sort(bins[np.argpartition(sums[bins], BINS)[:BINS]])
        items = np.flatnonzero(node == n)
        free = np.maximum(level - sums[bins], 0.0)
        if sizes[items].sum() > free.sum():
            continue
        target = pack(sizes[items], free, bins, options.full * problem.capacity, count)
        if (target < count).all():
            node[items] = target
            np.add.at(sums, target, sizes[items])
            sums[n], open_[n] = 0.0, False
    return node


def _strategy(sizes: Sizes, urgency: Urgency, from_scratch: bool = False) -> Callable[[StrategyOptions], Strategy]:
    return lambda options: Strategy(sizes, urgency, from_scratch, options)


STRATEGIES: Mapping[str, Callable[[StrategyOptions], Strategy]] = {
    "par": _strategy(last_rate, greatest_rate, from_scratch=True),
    "ari": _strategy(last_rate, least_rate),
    "ard": _strategy(last_rate, greatest_rate),
    "drf": _strategy(expected_rate, greatest_rise),
    "drfm": _strategy(expected_rate, greatest_rise),
}
"""Constructors of the strategies by name."""
