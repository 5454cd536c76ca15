"""A lower bound on the load distance, whatever is collocated.

Symbols:
    m         budget
    c_j       capacity of node j, C their sum over kept nodes
    full_k    load of group k while no partner is near
    S_k       what it saves if all its partners are near
    here_k    what it saves where it is
    L_j       raw load of node j now (not divided by c_j)
    M         mean of the plan, unknown, but in [M_low, M_high]

A move changes the raw load of only two nodes: the one that the group leaves and the one that it joins. Together, the
moves of a plan lower
    a node by at most the sum of   full_k - here_k        over the groups that leave it (a pair that leaves whole is
                                                          counted from both sides, so here_k is taken off once)
                      and of       max(0, 2 S_k - full_k) over those that join it,
and raise
    a node by at most the sum of   full_k                   over the groups that join it
                      and of       max(0, 2 here_k - full_k) over those that leave it.
So the moves at a node cost at least as much as the best of these per unit of cost, the last one in part (a fractional
knapsack, which never costs more than whole moves). The second kind is taken as unlimited at its best rate. Every move
counts at two nodes at most, so the needs of all kept nodes sum to 2 m at most. If only leaving lowers, needs to lower
sum to m at most; if only joining raises, so do needs to raise. A distance d needs every kept node between c_j (M - d)
and c_j (M + d); the least d that the budget allows, over all M, is the bound.

M is (sum of full - what is saved) / C. Savings grow by at most 2 (S_k - here_k) and shrink by at most 2 here_k for each
group moved. The range of M is cut into slices, and each is judged at its better end for either side.

The distance is also at least the one forced by the group that is largest even next to all its partners.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from millrace.optimizers.albic.contraction import total
from millrace.optimizers.albic.problem import Floats, Ints, Problem
from millrace.optimizers.albic.savings import Edges, edges

SLICES = 12
"""Slices of the range of M."""
STEPS = 30
"""Halvings of d: to 10^-9 of the first distance."""
SAFE = 1e-9
"""Relative slack for rounding, always in favour of a lower bound."""


def joint_lower_bound(problem: Problem) -> float:
    """Return a lower bound on the load distance of every plan within the budget, points, >= 0.

    This covers plans that move no group onto a node marked for removal. If a group has no node, it returns 0.

    Args:
        problem: The problem.
    """
    if not problem.groups or (problem.node < 0).any():
        return 0.0
    facts = _facts(problem, edges(problem))
    if facts is None:
        return 0.0
    cuts = np.linspace(*facts.mean, SLICES + 1)
    slices = min(_least(facts, float(a), float(b)) for a, b in pairwise(cuts))
    return max(0.0, slices, facts.giant - facts.mean[1]) * (1 - SAFE)


@dataclass(frozen=True)
class _Facts:
    """Inputs of the bound; only kept nodes.

    Attributes:
        raw: L_j, shape (A,).
        capacity: c_j, shape (A,).
        budget: m.
        mean: M_low and M_high.
        giant: Least load of a node that has the largest group, points.
        leaving: How far leaving groups lower each node.
        joining: How far joining groups raise a node; the same for every node.
        lowers: Best rate at which joining lowers, points per unit of cost.
        raises: Best rate at which leaving raises.
    """

    raw: Floats
    capacity: Floats
    budget: float
    mean: tuple[float, float]
    giant: float
    leaving: _Knapsacks
    joining: _Knapsacks
    lowers: float
    raises: float


def _facts(problem: Problem, edges: Edges) -> _Facts | None:
    """Return the inputs; None if savings exceed loads, which no load model intends."""
    whole = total(edges.group, edges.saved, problem.groups)
    within = problem.node[edges.group] == problem.node[edges.other]
    here = total(edges.group[within], edges.saved[within], problem.groups)
    own, full, cost = problem.load - here, problem.load, problem.cost
    if (full - whole < -SAFE * (1 + full)).any():
        return None
    kept, at = problem.kept, problem.node
    index = np.full(problem.nodes, -1)
    index[kept] = np.arange(len(kept))
    stay = index[at] >= 0
    capacity = problem.capacity[kept]
    raw_all = total(at, own, problem.nodes)
    everything = np.zeros(problem.groups, dtype=np.intp)
    everything_raw, size = float(raw_all.sum()), float(capacity.sum())
    more = _Knapsacks(everything, 2 * here, cost, 1).most(problem.budget)
    less = _Knapsacks(everything, 2 * (whole - here), cost, 1).most(problem.budget)
    giant = float((full - whole)[stay].max() / capacity.max()) if stay.any() else 0.0
    lowers = max(0.0, float(((2 * whole - full) / cost).max()))
    raises = max(0.0, float(((2 * here - full) / cost).max()))
    return _Facts(
        raw=raw_all[kept],
        capacity=capacity,
        budget=problem.budget,
        mean=((everything_raw - less) / size, (everything_raw + more) / size),
        giant=giant,
        leaving=_Knapsacks(index[at][stay], own[stay], cost[stay], len(kept), lowers),
        joining=_Knapsacks(everything, full, cost, 1, raises),
        lowers=lowers,
        raises=raises,
    )


def _least(facts: _Facts, low: float, high: float) -> float:
    """Return the least d that the budget allows while M is between two values."""
    top = float(np.maximum(facts.raw / facts.capacity - high, low - facts.raw / facts.capacity).max())
    if top <= 0 or not np.isfinite(facts.budget):
        return 0.0
    bottom = 0.0
    for _ in range(STEPS):
        middle = (bottom + top) / 2
        if _allowed(facts, low, high, middle):
            top = middle
        else:
            bottom = middle
    return bottom


def _allowed(facts: _Facts, low: float, high: float, d: float) -> bool:
    budget = facts.budget * (1 + SAFE) + SAFE
    down = np.maximum(0.0, facts.raw - facts.capacity * (high + d))
    up = np.maximum(0.0, facts.capacity * (low - d) - facts.raw)
    first = facts.leaving.least(np.arange(len(down)), down)
    second = facts.joining.least(np.zeros(len(up), dtype=np.intp), up)
    needs, lowering, raising = np.maximum(first, second), float(first.sum()), float(second.sum())
    if needs.max() > budget or lowering + raising > 2 * budget:
        return False
    return (facts.lowers > 0 or lowering <= budget) and (facts.raises > 0 or raising <= budget)


class _Knapsacks:
    """Knapsacks of items, taken by value per cost, the best first and the last one in part.

    Args:
        knapsack: Knapsack of each item, 0..n-1, shape (T,).
        value: Value of each item, shape (T,); below 0 counts as 0.
        cost: Cost of each item, shape (T,), > 0.
        count: n.
        rate: Value per unit of cost that is available elsewhere without limit, >= 0.
    """

    def __init__(self, knapsack: Ints, value: Floats, cost: Floats, count: int, rate: float = 0.0) -> None:
        self._value = np.maximum(value, 0.0)
        self._rate = self._value / cost
        order = np.lexsort((-self._rate, knapsack))
        self._value, self._cost, self._rate = self._value[order], cost[order], self._rate[order]
        self._starts = np.searchsorted(knapsack[order], np.arange(count + 1))
        # items slower than the other source are replaced by it
        faster = np.concatenate([[0], np.cumsum(self._rate > rate)])
        self._ends = self._starts[:-1] + np.diff(faster[self._starts])
        self._elsewhere = rate
        self._values = np.concatenate([[0.0], np.cumsum(self._value)])
        self._costs = np.concatenate([[0.0], np.cumsum(self._cost)])

    def most(self, budget: float) -> float:
        """Return the most value that the first knapsack gives for a budget."""
        at = int(np.searchsorted(self._costs, budget, side="right")) - 1
        if at >= len(self._value):
            return float(self._values[-1])
        return float(self._values[at] + (budget - self._costs[at]) * self._rate[at])

    def least(self, knapsack: Ints, value: Floats) -> Floats:
        """Return the least cost of a value from each knapsack, infinite if it is not available.

        Args:
            knapsack: Knapsack to take from, shape (Q,).
            value: Value to take, shape (Q,), >= 0.
        """
        start, end = self._starts[knapsack], self._ends[knapsack]
        inside = np.minimum(value, self._values[end] - self._values[start])
        rest = value - inside
        own = self._cost_of(start, end, inside)
        if self._elsewhere > 0:
            return np.asarray(own + rest / self._elsewhere)
        return np.where(rest > SAFE * (1 + value), np.inf, own)

    def _cost_of(self, start: Ints, end: Ints, value: Floats) -> Floats:
        """Return the cost of a value that the items from ``start`` to ``end`` have."""
        if not len(self._rate):
            return np.zeros(len(value))
        wanted = self._values[start] + value
        # the first position with enough: items of no value before it cost nothing, because they are not taken
        at = np.clip(np.searchsorted(self._values, wanted, side="left"), start, end)
        last = np.maximum(at - 1, 0)
        pace = self._rate[last]
        over = np.where(pace > 0, np.maximum(0.0, self._values[at] - wanted) / np.where(pace > 0, pace, 1.0), 0.0)
        return np.asarray(np.where(at > start, np.maximum(0.0, self._costs[at] - self._costs[start] - over), 0.0))
