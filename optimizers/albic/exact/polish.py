"""Make a plan better by exact search, and its bound sharper.

Three programs are tried while there is a gap, each bounded by CP-SAT's deterministic time and never by a clock, so that
the same plan comes out everywhere:
    1. a bound by counting groups of like load (:mod:`classes`)
    2. a choice for the groups on nodes that have to give at a load distance between the bound and the plan's, to the
       nodes that have to get; it is small even where the problem is not
    3. on small problems a choice for all groups, which proves as well as it finds

Reference: own; the aim is that of [ALBIC] Section 4.3.1 with the plan's own duties: caps are exceeded no further, and
no group goes back to a removed node that the plan took off it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.albic.balance.board import Board
from optimizers.albic.balance.bound import Needs
from optimizers.albic.balance.classes import bound_by_classes
from optimizers.albic.balance.drain import uncrowded
from optimizers.albic.balance.frame import SLACK, frame
from optimizers.albic.exact.model import Found, Model
from optimizers.albic.plan import Plan
from optimizers.albic.problem import Bools, Ints, Problem

WHOLE = 8_000
"""Nodes times groups up to which all groups are chosen for at once."""

WHOLE_EFFORT = 0.3
"""Deterministic time for that."""

LARGE = 200_000
"""Nodes times groups from which a plan is left as it is: the balancer is at the bound there, or the program too big."""

AIMS = (0.1, 0.5)
"""Parts of the gap, from the bound on, at which is told who has to give and to get."""

CHOICES = 8_000
"""Groups times nodes of such a choice, at most."""

EFFORT = 0.15
"""Deterministic time for each, and for the bound."""

NEAR = 0.01
"""Points above the bound that are as good as the bound."""


def polish(problem: Problem, plan: Plan, *, pinned: Ints | None = None) -> Plan:
    """Return a plan that is as good or better; the same one on problems too large for exact search.

    Args:
        problem: The problem.
        plan: A plan for it that keeps to the budget and the pins.
        pinned: As for :func:`optimizers.albic.balance.balancer.balance`.
    """
    start = frame(problem, pinned)
    if len(start.load) * len(start.capacity) > LARGE:
        return plan
    board = Board(start, plan.node)
    board.most = uncrowded(board)
    polishing = _Polishing(board, plan.bound, plan.seed)
    polishing.count()
    polishing.aim()
    polishing.choose()
    return polishing.result(plan)


class _Polishing:
    def __init__(self, board: Board, bound: float, seed: int) -> None:
        self._board, self._bound, self._seed = board, bound, seed
        self._better = self._optimal = False

    def _open(self) -> bool:
        return self._board.distance() > self._bound + NEAR

    def count(self) -> None:
        if self._open():
            board = self._board
            self._bound = bound_by_classes(board.frame, self._bound, board.distance(), EFFORT, self._seed)

    def aim(self) -> None:
        start = self._board.frame
        needs = Needs(start)
        for part in AIMS:
            if not self._open():
                return
            reached = self._board.distance()
            counts = needs.counts(self._bound + part * (reached - self._bound))
            if counts is None:
                continue
            p, q = counts
            at_home = start.start >= 0
            gives = np.where(at_home, (p > 0)[start.start], True)
            drained = at_home & ~start.kept[start.start] & start.kept[self._board.node]
            free = ~start.fixed & (gives | drained)
            targets = np.flatnonzero(q > 0)
            if 0 < int(free.sum()) * len(targets) <= CHOICES:
                self._take(self._choice(free, targets, start.start).solve(EFFORT, self._seed, self._bound, reached))

    def _choice(self, free: Bools, targets: Ints, base: Ints) -> Model:
        return Model(self._board, free, targets, base)

    def choose(self) -> None:
        start = self._board.frame
        if not self._open() or start.fixed.all() or len(start.load) * len(start.capacity) > WHOLE:
            return
        model = self._choice(~start.fixed, np.flatnonzero(start.kept), start.start)
        found = model.solve(WHOLE_EFFORT, self._seed, self._bound, self._board.distance())
        self._bound = max(self._bound, found.bound)
        self._optimal = found.optimal
        self._take(found)

    def _take(self, found: Found) -> None:
        """Take what was found if it is better, and holds for the real figures."""
        start, board = self._board.frame, self._board
        if found.node is None:
            return
        changed = board.again(found.node)
        within = changed.spent <= start.affordable and _capped(changed) and not changed.crowded()
        if within and changed.distance() < board.distance():
            self._board, self._better = changed, True

    def result(self, plan: Plan) -> Plan:
        distance = self._board.distance()
        stage = "optimal" if self._optimal else "polished" if self._better else None
        return replace(
            plan,
            node=self._board.node if self._better else plan.node,
            bound=min(self._bound, distance),
            stage=plan.stage if stage is None else f"{plan.stage}, {stage}",
        )


def _capped(board: Board) -> bool:
    return bool((board.used <= board.ceiling * (1 + SLACK)).all())
