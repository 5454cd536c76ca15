"""The balancer's problem: every group has one fixed load, and pinned groups are already on their pins.

Symbols (shapes):
    w (K,)   load of each group, points of a node of capacity 1
    c (N,)   capacity
    mean     sum w / sum of c over kept nodes

Reference:
    [ALBIC] Section 4.3.1. Deviation: groups without a node are part of the load, because every plan places them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from millrace.optimizers.albic.problem import UNPLACED, Caps, Problem
from millrace.optimizers.arrays import Bools, Floats, Ints

FREE = -1
"""Pin of a group that may go anywhere."""
SLACK = 1e-9
"""Relative tolerance of sums of costs and loads."""


@dataclass(frozen=True)
class BalanceProblem:
    """Groups with fixed loads on nodes, and what a plan may change.

    Attributes:
        load: w, shape (K,), >= 0.
        home: Present node of each group, shape (K,), UNPLACED without one.
        start: Node of each group before the search: its pin, or home, shape (K,).
        fixed: Groups that the search must leave where they start, shape (K,).
        price: Cost of each group away from home, shape (K,); 0 for groups without a home.
        budget: Limit of the total cost, pinned groups included.
        capacity: c, shape (N,).
        kept: Nodes that stay, shape (N,).
        mean: Load of every kept node if all were equally loaded, points.
        use: Use of the other resources by each group, shape (R, K).
        limit: Capacity of the nodes in them, shape (R, N).
        dropped: The pins could not be met together, so no pinned group moves.
    """

    load: Floats
    home: Ints
    start: Ints
    fixed: Bools
    price: Floats
    budget: float
    capacity: Floats
    kept: Bools
    mean: float
    use: Floats
    limit: Floats
    dropped: bool

    @property
    def affordable(self) -> float:
        """Budget, with a tolerance for rounding."""
        return self.budget + SLACK * max(1.0, self.budget) if np.isfinite(self.budget) else np.inf

    def away(self, node: Ints) -> Floats:
        """Return the cost of each group under a placement, shape (K,)."""
        return np.where((self.home >= 0) & (node != self.home), self.price, 0.0)

    def raw(self, node: Ints) -> Floats:
        """Return the sum of loads on each node, not divided by its capacity, shape (N,)."""
        placed = node >= 0
        sums = np.bincount(node[placed], weights=self.load[placed], minlength=len(self.capacity))
        return sums.astype(np.float64)

    def used(self, node: Ints) -> Floats:
        """Return the use of the other resources on each node, shape (R, N)."""
        return Caps(self.use, self.limit).used(node)

    def distance(self, node: Ints) -> float:
        """Return the load distance of a placement, points."""
        return float(np.abs(self.raw(node)[self.kept] / self.capacity[self.kept] - self.mean).max())


def balance_problem(problem: Problem, pinned: Ints | None = None) -> BalanceProblem:
    """Fix the loads as they are under the present placement, and put pinned groups on their pins.

    All pins are dropped if together they cost more than the budget, lead onto a removed node, or exceed a cap further
    than it is exceeded already. Pinned groups belong together, so none moves alone.

    Args:
        problem: The problem.
        pinned: Node that each group must be on afterwards, shape (K,); :data:`FREE` for any. None pins nothing.
    """
    home = problem.node
    caps = problem.caps
    load = problem.own(home)
    empty = np.zeros((0, problem.groups)), np.zeros((0, problem.nodes))
    use, limit = (caps.load, caps.limit) if caps is not None else empty
    pins = np.full(problem.groups, FREE) if pinned is None else pinned
    plain = BalanceProblem(
        load=load,
        home=home,
        start=home,
        fixed=np.zeros(problem.groups, dtype=bool),
        price=np.where(home >= 0, problem.cost, 0.0),
        budget=problem.budget,
        capacity=problem.capacity,
        kept=~problem.removed,
        mean=float(load.sum() / problem.capacity[problem.kept].sum()),
        use=use,
        limit=limit,
        dropped=False,
    )
    return _pin(plain, pins)


def _pin(plain: BalanceProblem, pins: Ints) -> BalanceProblem:
    asked = pins >= 0
    if not asked.any():
        return plain
    start = np.where(asked, pins, plain.home)
    dropped = not _meets(plain, start)
    if dropped:
        start = plain.home
    fixed = asked & (start >= 0)
    return replace(plain, start=start, fixed=fixed, dropped=dropped)


def _meets(plain: BalanceProblem, start: Ints) -> bool:
    moves = (start != plain.home) & (start != UNPLACED)
    into_removed = not plain.kept[start[moves]].all()
    exceeded = np.maximum(plain.limit, plain.used(plain.home)) * (1 + SLACK)
    caps_hold = bool((plain.used(start) <= exceeded).all())
    return not into_removed and caps_hold and float(plain.away(start).sum()) <= plain.affordable
