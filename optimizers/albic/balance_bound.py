"""A load distance that no plan within the budget can undercut.

Symbols:
    d        load distance, points; node i has to end within c_i (mean - d) .. c_i (mean + d)
    p_i      least number of groups that node i must give away
    q_i      least number of groups that node i must get
    P_i, S_i load of this many heaviest, or lightest, groups of node i
    T, R     load of this many heaviest, or lightest, groups of all

A node that gives p and gets q groups ends between raw_i - P_i(p) + R(q) and raw_i - S_i(p) + T(q). To end in its band,
it needs at least the least p with P_i(p) >= raw_i + R(q) - c_i (mean + d), and the least q with
T(q) >= c_i (mean - d) - raw_i + S_i(p). Each only grows with the other, so raising them in turn from 0 ends at the
least of both. (A node 0.3 above the mean whose groups are all 2.5 cannot just give one: it has to get one as well.)

A distance d can only be reached if
    price of all p_i + price of what removed nodes must give for the kept ones to get their share <= budget   (1)
    price of all q_i <= budget                                                                                (2)
    nodes below the band get what they lack from groups of other nodes, which give p_i at least               (3)
All three only ease as d grows, so bisection finds the least d that meets them. If all prices are equal, groups are
counted. Otherwise a price is the greater of the fractional knapsack (heaviest per price first) and the count at the
lowest prices. Groups without a node cost nothing and can serve every node.

At any budget, every group is on some node (4), and some node has at least, or at most, its share of the heaviest groups
(5).

Caps are ignored, which only weakens the bound. Pinned groups count as being on their pins already.

Reference: own; Section 4.3.1 of [ALBIC] has only the solver's bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from millrace.optimizers.albic.balance_problem import BalanceProblem
from millrace.optimizers.albic.cheapest_groups import GRAIN, PiledGroups
from millrace.optimizers.albic.problem import UNPLACED
from millrace.optimizers.albic.subset_sums import WINDOW, SubsetSums, affordable
from millrace.optimizers.arrays import Bools, Floats, Ints

RESOLUTION = 1e-5
"""Points at which the bisection stops."""
SMALL = 100_000
"""Nodes times groups up to which single sums of groups are distinguished."""


def bound_of(problem: BalanceProblem) -> float:
    """Return a load distance that no plan of a balancer's problem can undercut, points, >= 0."""
    least = max(0.0, _giants(problem), _shares(problem))
    needs = Needs(problem)
    bound = _bisect(needs.met, least, needs.worst())
    bound = _bisect(needs.met_by_sums(bound), bound, needs.worst())
    return max(0.0, bound * (1 - GRAIN))


def _bisect(met: Callable[[float], bool], low: float, high: float) -> float:
    """Return the greatest d that is known to be unreachable, or ``low`` if ``low`` can be reached."""
    if high <= low or met(low):
        return low
    while high - low > RESOLUTION:
        middle = (low + high) / 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return low


def _giants(problem: BalanceProblem) -> float:
    """Return (4): the deviation that a single group forces on its node."""
    if not len(problem.load):
        return 0.0
    kept = problem.kept
    left = problem.affordable - float(problem.away(problem.start).sum())
    stuck = problem.fixed | ((problem.start >= 0) & (problem.price > left))
    on_removed = (problem.start >= 0) & ~kept[problem.start]
    roomiest = np.where(stuck, problem.capacity[problem.start], problem.capacity[kept].max())
    forced = np.where(on_removed, 0.0, problem.load / roomiest - problem.mean)
    return float(forced.max())


def _shares(problem: BalanceProblem) -> float:
    """Return (5): with K groups on n nodes, some node has K / n or more, and some K / n or fewer."""
    if not problem.kept.all() or not len(problem.load):
        return 0.0
    nodes, groups = len(problem.capacity), len(problem.load)
    heaviest = np.concatenate([[0.0], np.cumsum(np.sort(problem.load)[::-1])])
    few = groups // nodes
    under = problem.mean - heaviest[few] / problem.capacity.min()
    each = np.arange(1, (groups - 1) // nodes + 1)
    among = each * nodes + 1
    over = (heaviest[among] - heaviest[among - each - 1]) / problem.capacity.max() - problem.mean
    return float(max(under, over.max(initial=0.0)))


class Needs:
    """Conditions (1) to (3) of a problem, and their sharper form."""

    def __init__(self, problem: BalanceProblem) -> None:
        self.problem = problem
        self.left = problem.affordable - float(problem.away(problem.start).sum())
        self.raw = problem.raw(problem.start)
        movable = ~problem.fixed & (problem.start >= 0) & (problem.price <= self.left)
        loose = problem.start == UNPLACED
        self.loose_groups = bool(loose.any())
        self.loose = float(problem.load[loose].sum())
        self._kept = np.flatnonzero(problem.kept)
        nodes = len(problem.capacity)
        place = np.where(problem.kept[problem.start], problem.start, nodes)  # removed nodes are one pile
        self._outs = PiledGroups(problem.load[movable], problem.price[movable], place[movable], nodes + 1)
        any_ = movable | loose
        price = np.where(loose, 0.0, problem.price)[any_]
        self._ins = PiledGroups(problem.load[any_], price, np.zeros(int(any_.sum()), dtype=np.intp), 1)
        order = np.argsort(-problem.load[movable], kind="stable")
        self._load, self._price = problem.load[movable][order], problem.price[movable][order]
        self._place = place[movable][order]
        # position of each group in its pile, heaviest first
        rank = np.empty(len(order), dtype=np.intp)
        inner = np.argsort(self._place, kind="stable")
        firsts = np.searchsorted(self._place[inner], np.arange(nodes + 1))
        rank[inner] = np.arange(len(order)) - firsts[self._place[inner]]
        self._rank = rank

    def worst(self) -> float:
        """Return a distance that can always be met."""
        problem = self.problem
        loads = self.raw[problem.kept] / problem.capacity[problem.kept]
        return float(max(np.abs(loads - problem.mean).max(), problem.mean))

    def met(self, d: float) -> bool:
        """Return whether a distance meets all conditions."""
        problem = self.problem
        kept, share = self._kept, problem.capacity[self._kept]
        above = self.raw[kept] - share * (problem.mean + d)
        below = share * (problem.mean - d) - self.raw[kept]
        counted = self._least(kept, above, below)
        if counted is None:
            return False
        p, q, above, below = counted
        short = float((share * (problem.mean - d)).sum() - self.raw[kept].sum()) - self.loose
        gives = float(self._outs.least(kept, p, above).sum()) + self._drained(short)
        gets = float(self._ins.least(np.zeros_like(kept), q, below).sum())
        if max(gives, gets) > self.left:
            return False
        cold = (q > 0) & (p == 0)
        return not cold.any() or self._pool(kept[cold], float(below[cold].sum()), kept, p)

    def met_by_sums(self, bound: float) -> Callable[[float], bool]:
        """Return a sharper test for distances above a bound; it always passes if it does not apply."""
        problem, kept = self.problem, self._kept
        moves = self.left / self._outs.unit if self._outs.equal and self._outs.unit > 0 else np.inf
        share = problem.capacity[kept]
        need = self.raw[kept] - share * problem.mean
        d = bound + 2 * RESOLUTION
        counted = self._least(kept, need - share * d, -need - share * d)
        small = len(problem.load) * len(problem.capacity) <= SMALL and not self.loose_groups
        if counted is None or not small or not np.isfinite(moves):
            return lambda _: True
        p, q = counted[:2]
        loads = [self._load[self._place == i] for i in kept]
        removed = self._load[self._place == len(problem.capacity)]
        sums = SubsetSums(
            [*loads, removed],
            np.append(need, 0.0),
            np.append(share, 1.0),
            np.append(p, 0) + WINDOW,
            int(q.max()) + WINDOW,
        )

        def met(d: float) -> bool:
            counted = self._least(kept, need - share * d, -need - share * d)
            if counted is None or not self.met(d):
                return False
            short = float((share * (problem.mean - d)).sum() - self.raw[kept].sum())
            drained = round(self._drained(short) / self._outs.unit)
            options = [sums.options(i, int(a), int(b), d) for i, (a, b) in enumerate(zip(*counted[:2], strict=True))]
            return affordable(options, int(moves) - drained, int(moves))

        return met

    def _least(self, kept: Ints, above: Floats, below: Floats) -> tuple[Ints, Ints, Floats, Floats] | None:
        """Return p, q, and the loads that they must cover, shape of ``kept`` each; None if no number does."""
        one = np.zeros_like(kept)
        p, q = np.zeros_like(kept), np.zeros_like(kept)
        most = self._ins.heavy.size(one)
        while True:
            give, get = above + self._ins.light.weight(one, q), below + self._outs.light.weight(kept, p)
            more_p = np.maximum(p, self._outs.heavy.count(kept, give))
            more_q = np.maximum(q, self._ins.heavy.count(one, get))
            if (more_p > self._outs.heavy.size(kept)).any() or (more_q > most).any():
                return None
            if (more_p == p).all() and (more_q == q).all():
                return p, q, give, get
            p, q = more_p, more_q

    def _drained(self, short: float) -> float:
        """Return the least price at which removed nodes give the load that kept nodes lack; infinite if they cannot."""
        if short <= GRAIN * (self.raw.sum() + 1.0):
            return 0.0
        removed, need = np.array([len(self.problem.capacity)]), np.array([short])
        count = self._outs.heavy.count(removed, need)
        return float(self._outs.least(removed, count, need)[0])

    def _pool(self, cold: Ints, need: float, kept: Ints, p: Ints) -> bool:
        """Return whether (3) holds."""
        need -= self.loose
        if need <= GRAIN * (self.raw.sum() + 1.0):
            return True
        outside = np.ones(len(self.problem.capacity) + 1, dtype=bool)
        outside[cold] = False
        usable = outside[self._place]
        if not self._outs.equal or self._outs.unit <= 0:
            return self._bought(usable, need)
        forced = np.zeros(len(outside), dtype=np.intp)
        forced[kept] = p
        taken = usable & (self._rank < forced[self._place])
        spare = self.left / self._outs.unit - int(p.sum())
        rest = self._load[usable & ~taken]
        more = rest[: int(min(max(spare, 0), len(rest)))]
        return bool(self._load[taken].sum() + more.sum() >= need * (1 - GRAIN))

    def _bought(self, usable: Bools, need: float) -> bool:
        if not usable.any():
            return False
        load, price = self._load[usable], self._price[usable]
        one, needs = np.zeros(1, dtype=np.intp), np.array([need])
        prices = PiledGroups(load, price, np.zeros(len(load), dtype=np.intp), 1)
        return float(prices.least(one, prices.heavy.count(one, needs), needs)[0]) <= self.left
