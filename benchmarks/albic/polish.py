"""Make a plan better by exact search, and its bound sharper.

Three programs are tried while there is a gap, each bounded by CP-SAT's deterministic time and never by a clock, so that
the same plan comes out everywhere:
    1. a bound by counting groups of like load (:mod:`class_bound`)
    2. a choice for the groups on nodes that have to give at a load distance between the bound and the plan's, to the
       nodes that have to get; it is small even where the problem is not
    3. on small problems a choice for all groups, which proves as well as it finds

Reference: own; the aim is that of [ALBIC] Section 4.3.1 with the plan's own constraints: caps are exceeded no further,
and no group goes back to a removed node that the plan took it off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.albic.class_bound import bound_by_classes
from benchmarks.albic.exact_model import AssignmentModel, Solution
from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_bound import Needs
from millrace.optimizers.albic.balance_problem import balance_problem
from millrace.optimizers.albic.constraints import load_ceiling
from millrace.optimizers.albic.problem import Ints, Plan, Problem

WHOLE = 8_000
"""Nodes times groups up to which all groups are chosen for at once."""
WHOLE_EFFORT = 0.3
"""Deterministic time for that."""
LARGE = 200_000
"""Nodes times groups from which a plan is left as it is: the balancer is at the bound there, or the program too big."""
AIMS = (0.1, 0.5)
"""Parts of the gap, from the bound on, at which it is asked who has to give and to get."""
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
        pinned: As for :func:`millrace.optimizers.albic.balancer.balance`.
    """
    fixed = balance_problem(problem, pinned)
    if len(fixed.load) * len(fixed.capacity) > LARGE:
        return plan
    assignment = Assignment(fixed, plan.node)
    assignment.load_limit = load_ceiling(assignment)
    polishing = _Polishing(assignment, plan.bound, plan.seed)
    polishing.count()
    polishing.aim()
    polishing.choose()
    return polishing.result(plan)


class _Polishing:
    def __init__(self, assignment: Assignment, bound: float, seed: int) -> None:
        self._assignment, self._bound, self._seed = assignment, bound, seed
        self._better = self._optimal = False

    def _open(self) -> bool:
        return self._assignment.distance() > self._bound + NEAR

    def count(self) -> None:
        if self._open():
            assignment = self._assignment
            self._bound = bound_by_classes(assignment.problem, self._bound, assignment.distance(), EFFORT, self._seed)

    def aim(self) -> None:
        problem = self._assignment.problem
        needs = Needs(problem)
        for part in AIMS:
            if not self._open():
                return
            reached = self._assignment.distance()
            counts = needs.counts(self._bound + part * (reached - self._bound))
            if counts is None:
                continue
            p, q = counts
            at_home = problem.start >= 0
            gives = np.where(at_home, (p > 0)[problem.start], True)
            drained = at_home & ~problem.kept[problem.start] & problem.kept[self._assignment.node]
            free = ~problem.fixed & (gives | drained)
            targets = np.flatnonzero(q > 0)
            if 0 < int(free.sum()) * len(targets) <= CHOICES:
                model = AssignmentModel(self._assignment, free, targets, problem.start)
                self._take(model.solve(EFFORT, self._seed, self._bound, reached))

    def choose(self) -> None:
        problem = self._assignment.problem
        if not self._open() or problem.fixed.all() or len(problem.load) * len(problem.capacity) > WHOLE:
            return
        model = AssignmentModel(self._assignment, ~problem.fixed, np.flatnonzero(problem.kept), problem.start)
        solution = model.solve(WHOLE_EFFORT, self._seed, self._bound, self._assignment.distance())
        self._bound = max(self._bound, solution.bound)
        self._optimal = solution.optimal
        self._take(solution)

    def _take(self, solution: Solution) -> None:
        """Take a solution that is better, and holds for the real figures."""
        problem, assignment = self._assignment.problem, self._assignment
        if solution.node is None:
            return
        changed = assignment.copy_with(solution.node)
        within = changed.spent <= problem.affordable and changed.within_caps() and not changed.overfull()
        if within and changed.distance() < assignment.distance():
            self._assignment, self._better = changed, True

    def result(self, plan: Plan) -> Plan:
        distance = self._assignment.distance()
        stage = "optimal" if self._optimal else "polished" if self._better else None
        return replace(
            plan,
            node=self._assignment.node if self._better else plan.node,
            bound=min(self._bound, distance),
            stage=plan.stage if stage is None else f"{plan.stage}, {stage}",
        )
