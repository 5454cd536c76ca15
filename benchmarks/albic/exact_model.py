"""The placement of groups on some nodes as an integer program for CP-SAT, the others left as they are.

Symbols (integers; loads times :data:`SCALE`):
    y_ki     group k sits on node i
    d        load distance of the nodes
    w_k      load of group k

    minimise d subject to
    sum_i y_ki = 1
    sum_k price_k (1 - y_k,home) <= budget
    c_i (mean - d) <= sum_k w_k y_ki <= c_i (mean + d)     for kept nodes
    use of other resources <= ceiling
    as many groups on removed nodes as before, at most, and none that was not at home there

Loads are rounded to integers, prices and uses up, budgets and ceilings down: what the solver finds holds for the real
figures too. What it proves does where prices are multiples of the least and no cap or removed node limits the choice,
rounding taken off.

Reference: [ALBIC] Section 4.3.1, constraints (1) to (4), without the corrections' victims (see
:mod:`paper.milp`); d is an integer here because CP-SAT rounds what is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from millrace.optimizers.albic.assignment import Assignment
from millrace.optimizers.albic.problem import UNPLACED, Bools, Floats, Ints

SCALE = 100_000
"""Integer units of a point."""
CAPACITY_SCALE = 1_000
"""Integer units of a capacity, where capacities differ."""
PRICE_SCALE = 10_000
"""Integer units of the greatest price, where prices are no multiples of the least."""
ROUNDING = 1e-9
"""Relative errors of sums that are forgiven."""


@dataclass(frozen=True)
class Solution:
    """What the solver found.

    Attributes:
        node: Node of every group of the assignment, shape (K,); None if it found nothing that is as good.
        bound: No placement of these groups on these nodes has a smaller load distance, points; 0 if nothing is proven.
        optimal: ``node`` is proven to be best.
    """

    node: Ints | None
    bound: float
    optimal: bool


class AssignmentModel:
    """A choice for some groups of an assignment between some nodes, all others left where they are."""

    def __init__(self, assignment: Assignment, free: Bools, targets: Ints, base: Ints | None = None) -> None:
        """Set up the program.

        Args:
            assignment: The placement that the solver starts from.
            free: Groups to choose for, shape (K,); none that is fixed.
            targets: Kept nodes that they may go to, beside their own and the one they are on.
            base: Where all others sit; as on the assignment without it, shape (K,).
        """
        problem = assignment.problem
        self._assignment, self._targets = assignment, targets
        self._groups = np.flatnonzero(free)
        self._model = cp_model.CpModel()
        self._others = np.where(free, UNPLACED, assignment.node if base is None else base)
        self._y: dict[tuple[int, int], cp_model.IntVar] = {}
        self._at: dict[int, list[tuple[int, cp_model.IntVar]]] = {}
        for k in self._groups:
            self._place(int(k))
        # caps and draining limit the program, but not every plan
        self._proves = not len(problem.use) and bool(problem.kept.all())
        self._spend()
        self._cap()
        self._drain()
        self._d = self._balance()

    def _place(self, k: int) -> None:
        now, home = int(self._assignment.node[k]), int(self._assignment.problem.home[k])
        chosen = []
        for i in sorted({*self._targets.tolist(), now, home} - {UNPLACED}):
            y = self._model.new_bool_var("")
            self._model.add_hint(y, i == now)
            self._y[k, i] = y
            self._at.setdefault(i, []).append((k, y))
            chosen.append(y)
        self._model.add_exactly_one(chosen)

    def _spend(self) -> None:
        problem = self._assignment.problem
        if not np.isfinite(problem.budget):
            return
        left = problem.affordable - float(problem.away(self._others)[self._others >= 0].sum())
        priced = self._groups[problem.price[self._groups] > 0]
        if not len(priced):
            return
        price, exact = _whole(problem.price, float(problem.price[priced].min()))
        unit = float(problem.price[priced].min()) if exact else float(problem.price.max()) / PRICE_SCALE
        self._proves &= exact
        terms = [int(price[k]) * (1 - self._y[int(k), int(problem.home[k])]) for k in priced]
        self._model.add(sum(terms) <= int(np.floor(left / unit + ROUNDING)))

    def _cap(self) -> None:
        assignment, problem = self._assignment, self._assignment.problem
        for r, use in enumerate(problem.use):
            top = float(assignment.ceiling[r].max())
            scaled = np.ceil(use / top * SCALE).astype(np.int64)
            for i, at in self._at.items():
                taken = float(use[self._others == i].sum())
                room = int(np.floor((max(assignment.ceiling[r, i], assignment.used[r, i]) - taken) / top * SCALE))
                # what is there now stays possible, whatever rounding says
                now = sum(int(scaled[k]) for k, _ in at if assignment.node[k] == i)
                self._model.add(sum(int(scaled[k]) * y for k, y in at) <= max(room, now))

    def _drain(self) -> None:
        assignment, problem = self._assignment, self._assignment.problem
        for_removed = [(k, y) for i, at in self._at.items() if not problem.kept[i] for k, y in at]
        if for_removed:
            now = int((~problem.kept[assignment.node[self._groups]]).sum())
            self._model.add(sum(y for _, y in for_removed) <= now)

    def _balance(self) -> cp_model.IntVar:
        problem, assignment = self._assignment.problem, self._assignment
        kept = [i for i in sorted(self._at) if problem.kept[i]]
        others = problem.raw(self._others)
        share = problem.capacity[kept]
        same = bool((share == share[0]).all())
        fine = 1 if same else CAPACITY_SCALE
        self._unit = SCALE * float(share[0]) if same else float(SCALE)
        most = assignment.distance()
        d = self._model.new_int_var(0, int((most + 1.0) * self._unit) + 1, "d")
        load = np.round(problem.load * SCALE).astype(np.int64) * fine
        for i in kept:
            middle = round((problem.capacity[i] * problem.mean - float(others[i])) * SCALE) * fine
            width = 1 if same else max(1, round(problem.capacity[i] * fine))
            total = sum(int(load[k]) * y for k, y in self._at[i])
            self._model.add(total - width * d <= middle)
            self._model.add(total + width * d >= middle)
        self._model.minimize(d)
        # a sum's rounding, and that of the width where capacities differ
        self._error = (0.5 * len(self._groups) + 1) / SCALE / share.min()
        if not same:
            self._error += most * 0.5 / CAPACITY_SCALE / share.min()
        return d

    def solve(self, effort: float, seed: int, floor: float, ceiling: float) -> Solution:
        """Look for the least load distance.

        Args:
            effort: Deterministic time, > 0: the same on every machine.
            seed: Of the solver.
            floor: No placement has less, points.
            ceiling: Only one that has no more is of use, points.
        """
        self._model.add(self._d >= int(floor * self._unit) - 1)
        self._model.add(self._d <= int(np.ceil((ceiling + self._error) * self._unit)))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.max_deterministic_time = effort
        status = solver.solve(self._model)
        if status == cp_model.INFEASIBLE:
            return Solution(None, ceiling if self._proves else 0.0, False)
        bound = max(0.0, solver.best_objective_bound / self._unit - self._error) if self._proves else 0.0
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Solution(None, bound, False)
        node = self._others.copy()
        for (k, i), y in self._y.items():
            if solver.boolean_value(y):
                node[k] = i
        return Solution(node, bound, status == cp_model.OPTIMAL)


def _whole(price: Floats, least: float) -> tuple[Ints, bool]:
    """Return prices as whole numbers, and whether that is exact: multiples of the least one are."""
    multiples = np.round(price / least)
    if np.allclose(multiples * least, price, rtol=ROUNDING, atol=0) and multiples.max() < PRICE_SCALE:
        return multiples.astype(np.int64), True
    return np.ceil(price / price.max() * PRICE_SCALE).astype(np.int64), False
