"""A bound by counting: how many groups of like load leave and reach each node, whichever groups they are.

The bound of :mod:`balance_bound` lets every node in need have the best groups there are. Here what some get,
others do not: three heavy groups are in one place each.

Symbols:
    a, b      class of groups whose loads lie within :data:`WIDTH` of each other
    o_ia      groups of class a that leave node i, from 0 to how many it has
    n_ia      groups of class a that reach node i
    s_ia      what the o_ia weigh: between o_ia times the lightest and the heaviest of them on node i
    t_ia      what the n_ia weigh: between n_ia times the lightest and the heaviest of class a

    minimise d subject to
    c_i (mean - d) <= raw_i - sum_a s_ia + sum_a t_ia <= c_i (mean + d)     for kept nodes
    sum_i o_ia = sum_i n_ia,  sum_i s_ia = sum_i t_ia                       for each class
    sum_ia o_ia <= moves that the budget allows

Every plan gives such numbers, hence the least d, or what the solver proves of it, is a bound. Nodes that are nearer to
the mean than the known bound are taken together as one, which eases the program and keeps that true.

Loads are whole numbers of 1 / :data:`SCALE` points, rounded outwards.

Reference: own.
"""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from millrace.optimizers.albic.balance_problem import BalanceProblem
from millrace.optimizers.albic.problem import UNPLACED, Bools, Floats, Ints

SCALE = 1_000
"""Integer units of a point."""
WIDTH = 0.2
"""Points between the lightest and the heaviest group of a class, at most, unless that made too many classes."""
MOST_CLASSES = 30
"""More are made wider."""


Flows = dict[int, tuple[cp_model.IntVar, cp_model.IntVar]]
"""How many groups, and what they weigh, by class."""


def bound_by_classes(problem: BalanceProblem, known: float, reached: float, effort: float, seed: int) -> float:
    """Return a load distance that no plan can undercut, points; ``known`` where nothing better can be proven.

    Applies where every group has a node, all prices are the same and capacities are.

    Args:
        problem: The balancer's problem.
        known: A bound, points.
        reached: Load distance of a plan, points: no bound is above it.
        effort: Deterministic time of the solver.
        seed: Of the solver.
    """
    movable = ~problem.fixed & (problem.start != UNPLACED)
    price = problem.price[movable]
    spendable = problem.affordable - float(problem.away(problem.start).sum())
    simple = np.isfinite(spendable) and (problem.start != UNPLACED).all() and len(price) > 0
    if not simple or (price != price[0]).any() or (problem.capacity != problem.capacity[0]).any():
        return known
    return max(known, _Counting(problem, known, reached, movable, int(spendable / price[0])).solve(effort, seed))


class _Counting:
    def __init__(self, problem: BalanceProblem, known: float, reached: float, movable: Bools, moves: int) -> None:
        self._problem, self._moves = problem, moves
        share = float(problem.capacity[0])
        raw = problem.raw(problem.start)
        deviation = raw / share - problem.mean
        # 0 for removed nodes, 1 for those that are near enough, from 2 on the others by themselves
        near = problem.kept & (np.abs(deviation) <= known)
        place = np.where(problem.kept, 1, 0)
        apart = np.flatnonzero(problem.kept & ~near)
        place[apart] = np.arange(len(apart)) + 2
        self._model = cp_model.CpModel()
        low, high = int(known * share * SCALE), int(np.ceil(reached * share * SCALE)) + 1
        self._d = self._model.new_int_var(min(low, high), high, "d")
        self._unit = share * SCALE
        kinds = _classes(problem.load[movable])
        gives = self._gives(place[problem.start[movable]], kinds, problem.load[movable], len(apart) + 2)
        gets = self._gets(kinds, problem.load[movable], len(apart) + 2)
        for i in range(1, len(apart) + 2):
            nodes = np.flatnonzero(place == i)
            if not len(nodes):
                continue
            self._reach(nodes, float(raw[nodes].sum()), gives[i], gets[i])
        self._conserve(gives, gets, int(kinds.max()) + 1)
        self._model.minimize(self._d)

    def _gives(self, place: Ints, kinds: Ints, load: Floats, places: int) -> list[Flows]:
        gives: list[Flows] = [{} for _ in range(places)]
        order = np.lexsort((kinds, place))
        cuts = np.flatnonzero(np.diff(place[order] * (kinds.max() + 1) + kinds[order])) + 1
        for piece in np.split(order, cuts):
            weights = load[piece]
            most = min(len(piece), self._moves)
            gives[place[piece[0]]][int(kinds[piece[0]])] = self._flow(most, weights)
        return gives

    def _gets(self, kinds: Ints, load: Floats, places: int) -> list[Flows]:
        of_class = [load[kinds == a] for a in range(int(kinds.max()) + 1)]
        gets: list[Flows] = [{}]
        for _ in range(1, places):
            gets.append({a: self._flow(min(len(w), self._moves), w) for a, w in enumerate(of_class)})
        return gets

    def _flow(self, most: int, weights: Floats) -> tuple[cp_model.IntVar, cp_model.IntVar]:
        lightest, heaviest = int(np.floor(weights.min() * SCALE)), int(np.ceil(weights.max() * SCALE))
        count = self._model.new_int_var(0, most, "")
        weight = self._model.new_int_var(0, most * heaviest, "")
        self._model.add(weight >= lightest * count)
        self._model.add(weight <= heaviest * count)
        return count, weight

    def _reach(self, nodes: Ints, raw: float, gives: Flows, gets: Flows) -> None:
        problem = self._problem
        middle = float(problem.capacity[nodes].sum()) * problem.mean
        need = sum(w for _, w in gets.values()) - sum(w for _, w in gives.values())
        self._model.add(need <= int(np.ceil((middle - raw) * SCALE)) + len(nodes) * self._d)
        self._model.add(need >= int(np.floor((middle - raw) * SCALE)) - len(nodes) * self._d)

    def _conserve(self, gives: list[Flows], gets: list[Flows], kinds: int) -> None:
        for a in range(kinds):
            for part in (0, 1):
                out = sum(g[a][part] for g in gives if a in g)
                self._model.add(out == sum(g[a][part] for g in gets if a in g))
        self._model.add(sum(c for g in gives for c, _ in g.values()) <= self._moves)

    def solve(self, effort: float, seed: int) -> float:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.max_deterministic_time = effort
        status = solver.solve(self._model)
        self.status = solver.status_name(status), solver.wall_time
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
            return 0.0
        proven: float = (solver.best_objective_bound - 1) / self._unit
        return proven


def _classes(load: Floats) -> Ints:
    """Return the class of each group: from the lightest on, a new one begins where the width is used up."""
    order = np.argsort(load, kind="stable")
    width = max(WIDTH, float(load.max() - load.min()) / MOST_CLASSES)
    kinds, begin, kind = np.zeros(len(load), dtype=np.intp), load[order[0]], 0
    for k in order:
        if load[k] > begin + width:
            begin, kind = load[k], kind + 1
        kinds[k] = kind
    return kinds
