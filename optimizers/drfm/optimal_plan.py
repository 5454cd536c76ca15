"""The best plan by CP-SAT: the least cost of node-periods and redirections, at the price of a redirection.

Symbols (integers; rates times :data:`SCALE` / C):
    x_sb     stream s enters at node b
    u_b      node b is in use; nodes that run even without streams count for nothing in the first two lines
    a_s      (1 + tuples buffered / C) for a stream that leaves its node

    minimise  K sum_b u_b + sum_s a_s (1 - x_s,home)          K = H / move_price: the worth of H node-periods
    sum_b u_b <= nodes of the given plan
    sum_b x_sb = 1
    sum_s size_hs x_sb <= (room_h - q_b) u_b                  for each modelled period h; q_b, the rate at which node
                                                              b works its queue off, in the first one
    u_b >= u_(b+1)                                            for empty nodes, which are all alike

The margin z sqrt(W) is not linear. For any w > 0, sqrt(W) <= (W + w) / (2 sqrt(w)). So F + z V / (2 sqrt(w)) as size
and C - z sqrt(w) / 2 as room are on the safe side, and exact for nodes of variance w; w is the variance of an average
node. The proof is for these sizes and rooms. With a move price of 0 the fewest nodes come first, at any number of
redirections.

Reference: [DRFM] Section 2.1 as an integer program; the paper bounds the number of nodes and ignores redirections.
"""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from millrace.optimizers.arrays import Floats, Ints
from millrace.optimizers.drfm.problem import Plan, Problem
from millrace.optimizers.drfm.stream_placement import HorizonOptions, StreamPlacement, catch_up_rate

SCALE = 100_000
"""Integer units per node capacity."""
PRICE = 1_000
"""Integer units per redirection."""
PERIODS = 12
"""Modelled periods of a long horizon; a plan that does not hold out as long as ``base`` is refused."""


def polish(problem: Problem, base: Plan, options: HorizonOptions) -> Plan:
    """Return the best plan that the solver finds, or ``base``.

    Args:
        problem: The period's problem.
        base: A plan.
        options: The options; ``effort`` limits the search.
    """
    if not problem.streams or len(base.oversized):
        return base  # an oversized stream has no place in the program
    lasts = _window(problem, base.node, options)
    rows = np.unique(np.linspace(0, max(lasts, 1) - 1, PERIODS).round().astype(int))
    size, room = _linear(problem, base, rows, options.margin * (1 - options.patience))
    if (room <= 0).any():
        return base
    least = int(np.ceil(size.sum(axis=1) / room).max())
    fewest = len(problem.ending(base.node)) <= max(0, least - len(problem.running))
    if fewest and not len(base.redirected(problem)) and lasts:
        return Plan(base.node, base.oversized, optimal=True)
    node, optimal = _solve(problem, base, size, room, least, options)
    if node is None or _window(problem, node, options) < lasts:
        return base
    return Plan(node, base.oversized, optimal)


def _linear(problem: Problem, base: Plan, rows: Ints, margin: float) -> tuple[Ints, Ints]:
    """Return sizes, shape (R, S), rounded up, and rooms, shape (R,), rounded down."""
    mean, variance = problem.mean[rows], problem.variance[rows]
    typical = np.maximum(variance.sum(axis=1) / base.nodes, np.finfo(float).tiny)
    lean = margin / (2 * np.sqrt(typical))
    size: Floats = mean + np.where(variance > 0, lean[:, None] * variance, 0.0)
    room = problem.capacity - np.where(variance.any(axis=1), margin * np.sqrt(typical) / 2, 0.0)
    unit = SCALE / problem.capacity
    return np.ceil(size * unit - 1e-6).astype(np.intp), np.floor(room * unit + 1e-6).astype(np.intp)


def _window(problem: Problem, node: Ints, options: HorizonOptions) -> int:
    """Return how many periods a placement holds out."""
    placement = StreamPlacement(problem, options.margin * (1 - options.patience), spare=0)
    used, index = np.unique(node, return_inverse=True)
    sums, noise = np.zeros((len(used), placement.ahead)), np.zeros((len(used), placement.ahead))
    np.add.at(sums, index, placement.mean)
    np.add.at(noise, index, placement.variance)
    sums[:, 0] += np.r_[catch_up_rate(problem, options.catch_up_s), np.zeros(int(used.max()) + 1)][used]
    return int(placement.window(sums, noise).min())


def _solve(
    problem: Problem, base: Plan, size: Ints, room: Ints, least: int, options: HorizonOptions
) -> tuple[Ints | None, bool]:
    model = cp_model.CpModel()
    here = np.union1d(problem.node[problem.placed], np.array(problem.running, dtype=np.intp))
    spare = max(0, base.nodes - len(here)) + 1
    fresh = np.setdiff1d(np.arange(problem.nodes + spare), here)[:spare]
    nodes = [*here.tolist(), *fresh.tolist()]
    used = {b: model.new_bool_var("") for b in nodes}
    x = {(s, b): model.new_bool_var("") for s in range(problem.streams) for b in nodes}
    for s in range(problem.streams):
        model.add_exactly_one(x[s, b] for b in nodes)
        for b in nodes:
            model.add_implication(x[s, b], used[b])  # a stream that sends nothing needs a node too
    queue = np.ceil(catch_up_rate(problem, options.catch_up_s) * SCALE / problem.capacity).astype(int)
    for b in nodes:
        for h, limit in enumerate(room.tolist()):
            sizes, taken = size[h].tolist(), int(queue[b]) if h == 0 and b < problem.nodes else 0
            model.add(sum(sizes[s] * x[s, b] for s in range(problem.streams)) <= (limit - taken) * used[b])
    for b, after in zip(fresh[:-1].tolist(), fresh[1:].tolist(), strict=True):
        model.add_implication(used[after], used[b])
    model.add(sum(used.values()) >= least)
    ending = [used[b] for b in nodes if b not in problem.running]
    model.add(sum(ending) <= len(problem.ending(base.node)))
    for (s, b), variable in x.items():
        model.add_hint(variable, bool(base.node[s] == b))
    away = np.flatnonzero(problem.placed)
    price = np.rint(PRICE * (1 + problem.rate / problem.capacity)).astype(int)
    moves = sum(int(price[s]) * (1 - x[int(s), int(problem.node[s])]) for s in away)
    model.minimize(_node_price(problem, int(price.sum()), options) * sum(ending) + moves)
    solver = cp_model.CpSolver()
    # one solver worker and deterministic time: the same plan on any machine
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = options.effort
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, False
    node = np.array([next(b for b in nodes if solver.value(x[s, b])) for s in range(problem.streams)], dtype=np.intp)
    return node, bool(status == cp_model.OPTIMAL)


def _node_price(problem: Problem, all_moves: int, options: HorizonOptions) -> int:
    """Return the price of a node in redirections, integer units: at most all of them together plus one unit."""
    if options.move_price == 0:
        return all_moves + 1
    return min(round(PRICE * len(problem.mean) / options.move_price), all_moves + 1)
