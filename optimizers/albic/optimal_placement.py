"""The live placement as an integer program for CP-SAT, which shortens a plan or proves that it cannot be shortened.

Symbols, in addition to those of :mod:`cluster` (integers; seconds times :data:`SCALE`):
    x_ki   group k is on executor i
    n_ei   both groups of pair e are on executor i
    T_s    time of stage s
    p_k    price of moving group k

    minimise sum_s T_s subject to
    sum_i x_ki = 1
    n_ei <= x_producer(e),i and n_ei <= x_consumer(e),i
    c s_i T_s >= sum_k b_k x_ki - sum_e a_e n_ei        for each stage s and executor i
    s_i T_s >= b_k x_ki - sum_e a_e n_ei                for each group k, if an executor has several cores
    sum_k p_k (1 - x_k,home) <= budget
    sum_k use_rk x_ki <= limit_ri, or what the given plan uses there

Of all placements that are equally short, the search looks for the one with the cheapest moves. Times are rounded down
and prices up, so what the program proves holds for the real figures. With one core, an executor takes the sum of its
tasks in any order, and the program is exact. With several it takes that or more, and a result counts only if it is
really shorter.

Reference: own; its constraints are those of [ALBIC] Section 4.3.1, but loads depend on which groups are together, and
the stages of a micro-batch run one after another.
"""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from millrace.optimizers.albic.cluster import Cluster
from millrace.optimizers.arrays import Ints

SCALE = 1_000_000
"""Integer units per second."""
SPEED_SCALE = 1_000
"""Integer units per unit of speed."""
PRICE_SCALE = 1_000
"""Integer units per unit of a move's price."""
LARGEST = 4_000
"""Executors times groups and pairs above which a plan is left as it is."""
EFFORT = 0.2
"""Deterministic time for each of both searches, about seconds: every machine gets the same plan."""
LEAST_GAIN = 0.001
"""Least share of the batch's stateful part by which a new plan has to be shorter."""


def is_small(cluster: Cluster) -> bool:
    """Return whether a cluster is small enough for an exact search."""
    return (cluster.problem.groups + len(cluster.problem.flows.rate)) * len(cluster.executors) <= LARGEST


def improve(cluster: Cluster, node: Ints, fixed: Ints, seed: int) -> tuple[Ints, bool]:
    """Return a placement at most as long, and whether it is proven that none within the budget is shorter.

    Args:
        cluster: The cluster; a small one.
        node: A placement that keeps to the budget and does not move fixed groups, by index, shape (K,).
        fixed: Groups that must not move, by index.
        seed: Seed of the search: the same problem and seed give the same plan.
    """
    search = _Search(cluster, node, fixed, seed)
    before_s = cluster.batch_s(node)
    found, bound_s = search.shortest()
    if found is None or cluster.batch_s(found) > before_s * (1 - LEAST_GAIN):
        return node, before_s * (1 - LEAST_GAIN) <= bound_s
    enough_s = cluster.batch_s(found) * (1 + LEAST_GAIN / 2)
    cheaper = search.cheapest(found, enough_s)
    if cheaper is not None and cluster.batch_s(cheaper) <= enough_s:
        found = cheaper
    return found, cluster.batch_s(found) * (1 - LEAST_GAIN) <= bound_s


class _Search:
    def __init__(self, cluster: Cluster, node: Ints, fixed: Ints, seed: int) -> None:
        self._cluster, self._given, self._seed = cluster, node, seed
        self._model = cp_model.CpModel()
        stays = set(fixed.tolist())
        kept = set(cluster.problem.kept.tolist())
        self._x = [self._place({at} if k in stays else kept | {at}) for k, at in enumerate(node.tolist())]
        self._near = self._pair()
        self._stages_s = [self._last(stage) for stage in cluster.stages]
        self._price = self._spend()
        self._limit()

    def _place(self, executors: set[int]) -> dict[int, cp_model.IntVar]:
        at = {i: self._model.new_bool_var("") for i in sorted(executors)}
        self._model.add_exactly_one(at.values())
        return at

    def _hint(self, node: Ints) -> None:
        self._model.clear_hints()
        for at, places in zip(node.tolist(), self._x, strict=True):
            for i, here in places.items():
                self._model.add_hint(here, at == i)

    def _pair(self) -> dict[int, list[tuple[int, int, cp_model.IntVar]]]:
        """Return for each consumer the executors it can share with a producer, the saving, and whether it does."""
        near: dict[int, list[tuple[int, int, cp_model.IntVar]]] = {}
        flows = self._cluster.problem.flows
        for producer, consumer, saved_s in zip(flows.producer, flows.consumer, flows.saved, strict=True):
            if saved_s <= 0:
                continue
            for i in self._x[producer].keys() & self._x[consumer].keys():
                both = self._model.new_bool_var("")
                self._model.add_implication(both, self._x[producer][i])
                self._model.add_implication(both, self._x[consumer][i])
                near.setdefault(int(consumer), []).append((i, int(np.ceil(saved_s * SCALE)), both))
        return near

    def _last(self, stage: Ints) -> cp_model.IntVar:
        problem, cores = self._cluster.problem, self._cluster.cores
        load = np.floor(problem.load[stage] * SCALE).astype(np.int64)
        most = int(np.ceil(float(load.sum()) / float(problem.capacity.min()))) + 1
        last = self._model.new_int_var(0, most, "")
        taken: dict[int, list[cp_model.LinearExprT]] = {}
        for k, load_k in zip(stage.tolist(), load.tolist(), strict=True):
            for i, here in self._x[k].items():
                task = load_k * here - sum(saved * both for at, saved, both in self._near.get(k, ()) if at == i)
                taken.setdefault(i, []).append(task)
                if cores > 1:
                    self._model.add(self._work(i, 1) * last >= SPEED_SCALE * task)
        for i, tasks in taken.items():
            self._model.add(self._work(i, cores) * last >= SPEED_SCALE * sum(tasks))
        return last

    def _work(self, executor: int, cores: int) -> int:
        return int(np.ceil(self._cluster.problem.capacity[executor] * cores * SPEED_SCALE))

    def _spend(self) -> cp_model.LinearExprT:
        problem = self._cluster.problem
        price = np.ceil(problem.cost * PRICE_SCALE).astype(np.int64).tolist()
        homes = ((k, home) for k, home in enumerate(problem.node.tolist()) if home in self._x[k])
        moved = [price[k] * (1 - self._x[k][home]) for k, home in homes]
        if np.isfinite(problem.budget):
            # groups that have to leave or are moved already are paid for; the given plan always is
            given = sum(price[k] for k in problem.moved(self._given))
            gone = sum(price[k] for k, home in enumerate(problem.node.tolist()) if home >= 0 and home not in self._x[k])
            self._model.add(sum(moved) + gone <= max(int(problem.budget * PRICE_SCALE), given))
        return sum(moved)

    def _limit(self) -> None:
        caps, executors = self._cluster.problem.caps, len(self._cluster.executors)
        if caps is None:
            return
        for use, limit in zip(caps.load, caps.limit, strict=True):
            unit = SCALE / float(limit.max())
            scaled = np.ceil(use * unit).astype(np.int64).tolist()
            for i in range(executors):
                at = [(scaled[k], places[i]) for k, places in enumerate(self._x) if i in places]
                now = sum(scaled[k] for k in np.flatnonzero(self._given == i))
                self._model.add(sum(size * here for size, here in at) <= max(int(limit[i] * unit), now))

    def shortest(self) -> tuple[Ints | None, float]:
        """Return the shortest placement found, if any, and a time that no placement undercuts, seconds."""
        self._model.minimize(sum(self._stages_s))
        solver, found = self._solve(self._given)
        return found, max(0.0, solver.best_objective_bound) / SCALE

    def cheapest(self, node: Ints, batch_s: float) -> Ints | None:
        """Return the cheapest placement found, by its moves, among those that are as short, starting from one."""
        self._model.add(sum(self._stages_s) <= int(batch_s * SCALE))
        self._model.minimize(self._price)
        return self._solve(node)[1]

    def _solve(self, start: Ints) -> tuple[cp_model.CpSolver, Ints | None]:
        self._hint(start)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 4
        solver.parameters.interleave_search = True
        solver.parameters.random_seed = self._seed
        solver.parameters.max_deterministic_time = EFFORT
        if solver.solve(self._model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return solver, None
        at = (next(i for i, here in places.items() if solver.boolean_value(here)) for places in self._x)
        return solver, np.fromiter(at, dtype=np.intp, count=len(self._x))
