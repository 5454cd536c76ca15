"""The paper's mixed-integer linear program, corrected.

Symbols:
    x_ik, q_ik    group k is on node i, after and before
    d             maximum load deviation from the mean over kept nodes (A)
    d - d_u       maximum upper deviation, d - d_l maximum lower deviation
    w_1, w_2      weights

    minimise w_1 d - w_2 (d_u + d_l) subject to
    (1) sum_i x_ik = 1
    (2) sum_ik (1 - q_ik) x_ik mc_k <= maxMigrCost
    (3) sum_k x_ik gLoad_k <= mean + (d - d_u)         for every node
    (4) sum_k x_ik gLoad_k >= mean - (d - d_l)         for every kept node
    (5) mean - d >= 0

Reference:
    [ALBIC] Section 4.3.1. Deviations, each with the reason:
    - d_u, d_l in 0..d: with either sign they make d meaningless, and for w_1 < 2 w_2 the literal program is unbounded
      unless (5) holds it.
    - No (5): it leaves no plan if one node, or one group, is above twice the mean and the budget is small.
    - The exact mean: rounded up, 20 groups of 2.51 on two nodes have d = 0.9, though they split evenly.
    - x_ik <= q_ik on removed nodes: Lemma 1 is false, and minimising d can move groups onto a removed node.
    - Two phases instead of weights: first d, then d_u + d_l at that d. A weight small enough not to matter to d is
      lost in a solver's tolerance.
    - (3) only for kept nodes: while a removed node is being emptied, no load on it is too high for a plan.
    - Draining is a constraint of its own (:mod:`constraints` explains why): the program leaves no more groups on
      removed nodes than that does. Exceeded caps, and groups without a node, are treated as in the balancer.
    - Capacities multiply both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from ortools.math_opt.python import mathopt

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.balance_bound import bound_of
from millrace.optimizers.albic.balance_problem import balance_problem
from millrace.optimizers.albic.constraints import drain, ease_caps, place_unplaced
from millrace.optimizers.albic.problem import Plan, Problem
from millrace.optimizers.arrays import Floats, Ints

SEARCH_NODES = 2_000
"""Nodes of the solver's search tree per phase: a limit that is the same on every machine."""
TOLERANCE = 1e-6
"""Points by which the second phase may be worse than the first: the solver's own tolerance."""


@dataclass(frozen=True)
class MilpResult:
    """A solved program.

    Attributes:
        node: Node of each group, shape (K,); None without a solution.
        optimal: Proven best, not merely feasible.
        d: Maximum deviation, points; NaN without a solution.
        bound: The solver's proof for the first phase, points.
    """

    node: Ints | None
    optimal: bool
    d: float
    bound: float


def solve(problem: Problem, *, pinned: Ints | None = None, search_nodes: int = SEARCH_NODES) -> Plan:
    """Return the corrected program's plan; at the solver's limit the better of it and a merely feasible one.

    Meant for small problems: it has one variable per group and node.

    Args:
        problem: The problem. Loads are those under the present placement.
        pinned: As for :func:`millrace.optimizers.albic.balancer.balance`.
        search_nodes: Nodes of the solver's search tree per phase, >= 1.
    """
    fixed = balance_problem(problem, pinned)
    assignment = Assignment(fixed)
    place_unplaced(assignment)
    ease_caps(assignment)
    drain(assignment)
    result = program(assignment, search_nodes)
    node, stage = assignment.node, "kept"
    if result.node is not None and fixed.distance(result.node) <= assignment.distance():
        node, stage = result.node, "optimal" if result.optimal else "feasible"
    proven = max(bound_of(fixed), result.bound if _is_all(assignment) else 0.0)
    stages = ["pins dropped"] * fixed.dropped + [stage]
    return Plan(node=node, bound=min(proven, fixed.distance(node)), stage=", ".join(stages))


def program(assignment: Assignment, search_nodes: int) -> MilpResult:
    """Solve the program.

    Args:
        assignment: A placement that meets all constraints; the solver starts from it.
        search_nodes: Nodes of the solver's search tree per phase, >= 1.
    """
    built = _Program(assignment, search_nodes)
    first = built.solve(built.d * 1.0)
    if first.node is None:
        return first
    built.model.add_linear_constraint(built.d <= first.d + TOLERANCE)
    second = built.solve(-1.0 * (built.upper + built.lower))
    if second.node is None:
        return first
    return MilpResult(second.node, first.optimal and second.optimal, second.d, first.bound)


def _is_all(assignment: Assignment) -> bool:
    """Return whether the program allows every plan (no caps, no removed nodes), so its bound holds for all."""
    problem = assignment.problem
    return bool(problem.kept.all()) and not len(problem.use)


class _Program:
    def __init__(self, assignment: Assignment, search_nodes: int) -> None:
        self.assignment, self.search_nodes = assignment, search_nodes
        self.model = mathopt.Model()
        problem = assignment.problem
        groups, nodes = range(len(problem.load)), range(len(problem.capacity))
        self.d, self.upper, self.lower = (self.model.add_variable(lb=0.0) for _ in range(3))
        self.x = [[self.model.add_binary_variable() for _ in nodes] for _ in groups]
        for k in groups:
            self.model.add_linear_constraint(mathopt.fast_sum(self.x[k]) == 1)
        self._spend()
        self._balance()
        self._keep_off()
        self._cap()

    def _spend(self) -> None:
        problem = self.assignment.problem
        for k in np.flatnonzero(problem.fixed):
            self.model.add_linear_constraint(self.x[k][problem.start[k]] == 1)
        priced = np.flatnonzero((problem.home >= 0) & (problem.price > 0))
        if np.isfinite(problem.budget):
            moved = [problem.price[k] * (1 - self.x[k][problem.home[k]]) for k in priced]
            self.model.add_linear_constraint(mathopt.fast_sum(moved) <= problem.affordable)

    def _balance(self) -> None:
        problem, add = self.assignment.problem, self.model.add_linear_constraint
        for i in np.flatnonzero(problem.kept):
            total = mathopt.fast_sum(w * row[i] for w, row in zip(problem.load, self.x, strict=True))
            c = problem.capacity[i]
            add(total <= c * (problem.mean + self.d - self.upper))
            add(total >= c * (problem.mean - self.d + self.lower))
        add(self.upper <= self.d)
        add(self.lower <= self.d)

    def _keep_off(self) -> None:
        problem = self.assignment.problem
        removed = np.flatnonzero(~problem.kept)
        for i in removed:
            for k in np.flatnonzero(problem.home != i):
                self.model.add_linear_constraint(self.x[k][i] == 0)
        if len(removed):
            left = int(np.isin(self.assignment.node, removed).sum())
            on_removed = [row[i] for row in self.x for i in removed]
            self.model.add_linear_constraint(mathopt.fast_sum(on_removed) <= left)

    def _cap(self) -> None:
        assignment = self.assignment
        for use, ceiling in zip(assignment.problem.use, np.maximum(assignment.ceiling, assignment.used), strict=True):
            for i, limit in enumerate(ceiling):
                used = mathopt.fast_sum(u * row[i] for u, row in zip(use, self.x, strict=True))
                self.model.add_linear_constraint(used <= limit)

    def solve(self, objective: mathopt.LinearTypes) -> MilpResult:
        self.model.minimize(objective)
        parameters = mathopt.SolveParameters(node_limit=self.search_nodes, random_seed=0, relative_gap_tolerance=0.0)
        hint = mathopt.SolutionHint()
        for row, at in zip(self.x, self.assignment.node, strict=True):
            hint.variable_values.update({x: float(i == at) for i, x in enumerate(row)})
        model_parameters = mathopt.ModelSolveParameters(solution_hints=[hint])
        result = mathopt.solve(self.model, mathopt.SolverType.GSCIP, params=parameters, model_params=model_parameters)
        return self._milp_result(result)

    def _milp_result(self, result: mathopt.SolveResult) -> MilpResult:
        reason, ends = result.termination.reason, mathopt.TerminationReason
        proven = result.termination.objective_bounds.dual_bound
        bound = max(0.0, proven - TOLERANCE) if math.isfinite(proven) else 0.0
        if reason not in (ends.OPTIMAL, ends.FEASIBLE):
            return MilpResult(None, False, math.nan, bound)
        values: Floats = np.array([result.variable_values(row) for row in self.x])
        node = values.argmax(axis=1) if len(values) else np.zeros(0, dtype=np.intp)
        return MilpResult(node, reason == ends.OPTIMAL, result.variable_values([self.d])[0], bound)
