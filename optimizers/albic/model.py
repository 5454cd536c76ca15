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
figures too. What it proves does where prices are equal and nothing is capped, rounding errors taken off.

Reference: [ALBIC] Section 4.3.1, constraints (1) to (4), without the corrections' victims (see
:mod:`optimizers.albic.milp`); d is an integer here because CP-SAT rounds what is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from optimizers.albic.board import Board
from optimizers.albic.problem import Ints

SCALE = 100_000
"""Integer units of a point."""

CAPACITY_SCALE = 1_000
"""Integer units of a capacity, where capacities differ."""

PRICE_SCALE = 10_000
"""Integer units of the mean price, where prices differ."""


@dataclass(frozen=True)
class Found:
    """What the solver found.

    Attributes:
        node: Node of every group of the board, shape (K,); None if it found nothing that is as good.
        bound: No placement of these groups on these nodes has a smaller load distance, points; 0 if nothing is proven.
        optimal: ``node`` is proven to be best.
    """

    node: Ints | None
    bound: float
    optimal: bool


class Model:
    """Some nodes of a board."""

    def __init__(self, board: Board, nodes: Ints) -> None:
        """Set up the program for the groups that are on these nodes now; at least one of the nodes is kept."""
        frame = board.frame
        self._board, self._nodes = board, nodes
        on = np.isin(board.node, nodes) & ~frame.fixed
        self._groups = np.flatnonzero(on)
        self._model = cp_model.CpModel()
        self._proves = not len(frame.use)
        self._at: dict[int, list[tuple[int, cp_model.IntVar]]] = {int(i): [] for i in nodes}
        self._y: dict[tuple[int, int], cp_model.IntVar] = {}
        for k in self._groups:
            self._place(int(k))
        self._spend()
        self._cap()
        self._drain()
        self._d = self._balance()

    def _place(self, k: int) -> None:
        frame = self._board.frame
        now, home = int(self._board.node[k]), int(frame.home[k])
        options = [int(i) for i in self._nodes if frame.kept[i] or i in (now, home)]
        chosen = []
        for i in options:
            y = self._model.new_bool_var("")
            self._model.add_hint(y, i == now)
            self._y[k, i] = y
            self._at[i].append((k, y))
            chosen.append(y)
        self._model.add_exactly_one(chosen)

    def _spend(self) -> None:
        frame, board = self._board.frame, self._board
        if not np.isfinite(frame.budget):
            return
        priced = self._groups[frame.price[self._groups] > 0]
        now = float(board.price(priced, frame.home[priced]).sum()) if len(priced) else 0.0
        left = frame.affordable - board.spent - now  # what is spent by none of these
        unit = float(frame.price[priced].max(initial=0.0))
        equal = bool((frame.price[priced] == unit).all())
        self._proves &= equal
        fine = 1.0 if equal else PRICE_SCALE
        price = np.ceil(frame.price / unit * fine).astype(np.int64) if unit > 0 else frame.price.astype(np.int64)
        terms = []
        for k in priced:
            home = self._y.get((int(k), int(frame.home[k])))
            terms.append(int(price[k]) * (1 - home) if home is not None else int(price[k]))
        if terms:
            self._model.add(sum(terms) <= int(np.floor(left / unit * fine)))

    def _cap(self) -> None:
        board, frame = self._board, self._board.frame
        for r, use in enumerate(frame.use):
            top = float(board.ceiling[r].max())
            scaled = np.ceil(use / top * SCALE).astype(np.int64)
            for i, at in self._at.items():
                others = board.members(i)
                fixed = use[others[frame.fixed[others]]].sum()
                room = max(float(board.ceiling[r, i]), float(board.used[r, i])) - float(fixed)
                free = int(np.floor(room / top * SCALE))
                now = sum(int(scaled[k]) for k in others if not frame.fixed[k])
                self._model.add(sum(int(scaled[k]) * y for k, y in at) <= max(free, now))

    def _drain(self) -> None:
        frame, board = self._board.frame, self._board
        removed = [int(i) for i in self._nodes if not frame.kept[i]]
        if removed:
            now = sum(int((~frame.fixed[board.members(i)]).sum()) for i in removed)
            self._model.add(sum(y for i in removed for _, y in self._at[i]) <= now)

    def _balance(self) -> cp_model.IntVar:
        frame, board = self._board.frame, self._board
        kept = self._nodes[frame.kept[self._nodes]]
        share = frame.capacity[kept]
        same = bool((share == share[0]).all())
        fine = 1 if same else CAPACITY_SCALE
        self._unit = SCALE * float(share[0]) if same else float(SCALE)
        deviation = float(np.abs(board.raw[kept] / share - frame.mean).max())
        d = self._model.new_int_var(0, int((deviation + 1.0) * self._unit) + 1, "d")
        self._model.add_hint(d, int(np.ceil(deviation * self._unit)))
        load = np.round(frame.load * SCALE).astype(np.int64) * fine
        for i in kept:
            others = board.members(int(i))
            fixed = float(frame.load[others[frame.fixed[others]]].sum())
            middle = round((frame.capacity[i] * frame.mean - fixed) * SCALE) * fine
            width = 1 if same else max(1, round(frame.capacity[i] * fine))
            total = sum(int(load[k]) * y for k, y in self._at[int(i)])
            self._model.add(total - width * d <= middle)
            self._model.add(total + width * d >= middle)
        self._model.minimize(d)
        # a sum's rounding, and that of the width where capacities differ
        self._error = (0.5 * len(self._groups) + 1) / SCALE / share.min()
        if not same:
            self._error += deviation * 0.5 / CAPACITY_SCALE / share.min()
        return d

    def solve(self, effort: float, seed: int, floor: float, ceiling: float) -> Found:
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
            return Found(None, ceiling if self._proves else 0.0, False)
        bound = max(0.0, solver.best_objective_bound / self._unit - self._error) if self._proves else 0.0
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Found(None, bound, False)
        node = self._board.node.copy()
        for (k, i), y in self._y.items():
            if solver.boolean_value(y):
                node[k] = i
        return Found(node, bound, status == cp_model.OPTIMAL)
