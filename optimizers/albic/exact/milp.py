"""The paper's mixed-integer linear program, corrected; its literal forms are kept, to show what they do.

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
    - d_u, d_l in 0..d: of any sign they make d meaningless, and for w_1 < 2 w_2 the literal program is unbounded
      unless (5) holds it.
    - No (5): it leaves no plan where one node, or one group, is above twice the mean and the budget is small.
    - The exact mean: rounded up, 20 groups of 2.51 on two nodes have d = 0.9, though they split evenly.
    - x_ik <= q_ik on removed nodes: Lemma 1 is false, and minimising d can move groups onto a removed node.
    - Two phases instead of weights: first d, then d_u + d_l at that d. A weight small enough not to matter to d is
      lost in a solver's tolerance.
    - (3) only for kept nodes: no load on a removed node is too much for a plan, while it is emptied.
    - Draining is a duty of its own (:mod:`drain` says why): the program leaves no more groups on
      removed nodes than that does. Exceeded caps, and groups without a node, are treated as in the balancer.
    - Capacities multiply both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
from ortools.math_opt.python import mathopt

from optimizers.albic.balance.board import Board
from optimizers.albic.balance.bound import bound_of
from optimizers.albic.balance.drain import drain
from optimizers.albic.balance.duties import ease, place
from optimizers.albic.balance.frame import frame
from optimizers.albic.plan import Plan
from optimizers.albic.problem import Floats, Ints, Problem

NODE_LIMIT = 2_000
"""Nodes of the solver's search tree for each phase: a limit that is the same on every machine."""

TOLERANCE = 1e-6
"""Points by which the second phase may be worse than the first: the solver's own tolerance."""


@dataclass(frozen=True)
class Form:
    """How the program is put; the default is the corrected one.

    Attributes:
        weights: (w_1, w_2) to minimise both at once; None for two phases.
        signed: d_u and d_l may have any sign, and be greater than d.
        floor: With (5).
        rounded_mean: The mean is rounded up.
        into_removed: Groups may move onto removed nodes, and (3) holds for those too.
        drains: No more groups are left on removed nodes than draining leaves.
    """

    weights: tuple[float, float] | None = None
    signed: bool = False
    floor: bool = False
    rounded_mean: bool = False
    into_removed: bool = False
    drains: bool = True


LITERAL = Form(weights=(1000.0, 1.0), signed=True, floor=True, rounded_mean=True, into_removed=True, drains=False)
"""The paper's text."""


class Status(Enum):
    """What came of a program."""

    SOLVED = "solved"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome:
    """A solved program.

    Attributes:
        status: How the solver ended; figures are NaN and ``node`` is None without a solution.
        node: Node of each group, shape (K,).
        d: Maximum deviation, by the program's own mean, points.
        upper: d_u.
        lower: d_l.
        bound: The solver's proof for the first phase, points.
    """

    status: Status
    node: Ints | None
    d: float
    upper: float
    lower: float
    bound: float


def solve(problem: Problem, *, pinned: Ints | None = None) -> Plan:
    """Return the corrected program's plan; at the solver's limit the better of what it found and of what is owed.

    Meant for small problems: a variable for each group on each node.

    Args:
        problem: The problem. Loads are those under the present placement.
        pinned: As for :func:`optimizers.albic.balance.balancer.balance`.
    """
    start = frame(problem, pinned)
    board = Board(start)
    place(board)
    ease(board)
    drain(board)
    outcome = program(board, Form())
    node, stage = board.node, "kept"
    if outcome.node is not None and start.distance(outcome.node) <= board.distance():
        node, stage = outcome.node, "optimal" if outcome.status is Status.SOLVED else "feasible"
    proven = max(bound_of(start), outcome.bound if _is_all(board) else 0.0)
    stages = ["pins dropped"] * start.dropped + [stage]
    return Plan(node=node, bound=min(proven, start.distance(node)), stage=", ".join(stages), seed=0)


def literal(problem: Problem, form: Form = LITERAL) -> Outcome:
    """Return what comes of a form of the program on a problem of which every group has a node."""
    board = Board(frame(problem))
    if form.drains:
        drain(board)
    return program(board, form)


def program(board: Board, form: Form) -> Outcome:
    """Solve a form of the program.

    Args:
        board: A placement that meets all duties; the solver is told of it.
        form: The form.
    """
    built = _Program(board, form)
    if form.weights is not None:
        w_1, w_2 = form.weights
        return built.solve(w_1 * built.d - w_2 * (built.upper + built.lower))
    first = built.solve(built.d * 1.0)
    if first.node is None:
        return first
    built.model.add_linear_constraint(built.d <= first.d + TOLERANCE)
    second = built.solve(-1.0 * (built.upper + built.lower))
    if second.node is None:
        return first
    both = first.status is Status.SOLVED and second.status is Status.SOLVED
    status = Status.SOLVED if both else Status.FEASIBLE
    return Outcome(status, second.node, second.d, second.upper, second.lower, first.bound)


def _is_all(board: Board) -> bool:
    """Say whether the program allows every plan, so that its bound holds for all: nothing owed, nothing capped."""
    frame_ = board.frame
    return bool(frame_.kept.all()) and not len(frame_.use)


class _Program:
    def __init__(self, board: Board, form: Form) -> None:
        self.board, self.form = board, form
        self.model = mathopt.Model()
        frame_ = board.frame
        groups, nodes = range(len(frame_.load)), range(len(frame_.capacity))
        low = -math.inf if form.signed else 0.0
        self.d = self.model.add_variable(lb=0.0)
        self.upper, self.lower = self.model.add_variable(lb=low), self.model.add_variable(lb=low)
        self.x = [[self.model.add_binary_variable() for _ in nodes] for _ in groups]
        for k in groups:
            self.model.add_linear_constraint(mathopt.fast_sum(self.x[k]) == 1)
        self._spend()
        self._balance()
        self._keep_off()
        self._cap()

    def _spend(self) -> None:
        frame_ = self.board.frame
        for k in np.flatnonzero(frame_.fixed):
            self.model.add_linear_constraint(self.x[k][frame_.start[k]] == 1)
        priced = np.flatnonzero((frame_.home >= 0) & (frame_.price > 0))
        if np.isfinite(frame_.budget):
            moved = [frame_.price[k] * (1 - self.x[k][frame_.home[k]]) for k in priced]
            self.model.add_linear_constraint(mathopt.fast_sum(moved) <= frame_.affordable)

    def _balance(self) -> None:
        frame_, form, add = self.board.frame, self.form, self.model.add_linear_constraint
        mean = math.ceil(frame_.mean - 1e-9) if form.rounded_mean else frame_.mean
        for i, c in enumerate(frame_.capacity):
            total = mathopt.fast_sum(w * row[i] for w, row in zip(frame_.load, self.x, strict=True))
            if frame_.kept[i] or form.into_removed:
                add(total <= c * (mean + self.d - self.upper))
            if frame_.kept[i]:
                add(total >= c * (mean - self.d + self.lower))
        if not form.signed:
            add(self.upper <= self.d)
            add(self.lower <= self.d)
        if form.floor:
            add(self.d <= mean)

    def _keep_off(self) -> None:
        frame_, form = self.board.frame, self.form
        removed = np.flatnonzero(~frame_.kept)
        if not form.into_removed:
            for i in removed:
                for k in np.flatnonzero(frame_.home != i):
                    self.model.add_linear_constraint(self.x[k][i] == 0)
        if form.drains and len(removed):
            left = int(np.isin(self.board.node, removed).sum())
            on_removed = [row[i] for row in self.x for i in removed]
            self.model.add_linear_constraint(mathopt.fast_sum(on_removed) <= left)

    def _cap(self) -> None:
        board = self.board
        for use, ceiling in zip(board.frame.use, np.maximum(board.ceiling, board.used), strict=True):
            for i, limit in enumerate(ceiling):
                used = mathopt.fast_sum(u * row[i] for u, row in zip(use, self.x, strict=True))
                self.model.add_linear_constraint(used <= limit)

    def solve(self, objective: mathopt.LinearTypes) -> Outcome:
        self.model.minimize(objective)
        parameters = mathopt.SolveParameters(node_limit=NODE_LIMIT, random_seed=0, relative_gap_tolerance=0.0)
        hint = mathopt.SolutionHint()
        for row, at in zip(self.x, self.board.node, strict=True):
            hint.variable_values.update({x: float(i == at) for i, x in enumerate(row)})
        told = mathopt.ModelSolveParameters(solution_hints=[hint])
        result = mathopt.solve(self.model, mathopt.SolverType.GSCIP, params=parameters, model_params=told)
        return self._outcome(result)

    def _outcome(self, result: mathopt.SolveResult) -> Outcome:
        reason = mathopt.TerminationReason
        ends = {
            reason.OPTIMAL: Status.SOLVED,
            reason.FEASIBLE: Status.FEASIBLE,
            reason.INFEASIBLE: Status.INFEASIBLE,
            reason.UNBOUNDED: Status.UNBOUNDED,
            reason.INFEASIBLE_OR_UNBOUNDED: Status.UNBOUNDED,
        }
        status = ends.get(result.termination.reason, Status.UNKNOWN)
        proven = result.termination.objective_bounds.dual_bound
        bound = max(0.0, proven - TOLERANCE) if math.isfinite(proven) and self.form.weights is None else 0.0
        if status not in (Status.SOLVED, Status.FEASIBLE):
            return Outcome(status, None, math.nan, math.nan, math.nan, bound)
        values: Floats = np.array([result.variable_values(row) for row in self.x])
        node = values.argmax(axis=1) if len(values) else np.zeros(0, dtype=np.intp)
        d, upper, lower = result.variable_values([self.d, self.upper, self.lower])
        return Outcome(status, node, d, upper, lower, bound)
