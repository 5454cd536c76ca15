"""Make a plan better by exact search: all of a small problem at once, a few nodes at a time of a larger one.

Exact search is bounded by CP-SAT's deterministic time, never by a clock, so that the same plan comes out everywhere.

Reference: own; the aim is that of [ALBIC] Section 4.3.1 with the plan's own duties: caps are exceeded no further, and
no group goes back to a removed node that the plan took off it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.albic.board import Board
from optimizers.albic.frame import frame
from optimizers.albic.model import Model
from optimizers.albic.plan import Plan
from optimizers.albic.problem import Floats, Ints, Problem

WHOLE = 8_000
"""Nodes times groups up to which all nodes are searched at once."""

WHOLE_EFFORT = 2.0
"""Deterministic time for that."""

NEIGHBOURS = 6
"""Nodes that are searched together on larger problems."""

ROUNDS = 12
"""How many such searches there are."""

EFFORT = 0.15
"""Deterministic time for each."""

LARGE = 200_000
"""Nodes times groups from which a plan is left as it is: the balancer's own search is at the bound there."""

NEAR = 0.01
"""Points above the bound that are as good as the bound."""


def polish(problem: Problem, plan: Plan, *, pinned: Ints | None = None) -> Plan:
    """Return a plan that is as good or better.

    Args:
        problem: The problem.
        plan: A plan for it that keeps to the budget and the pins.
        pinned: As for :func:`optimizers.albic.balancer.balance`.
    """
    start = frame(problem, pinned)
    board = Board(start, plan.node)
    size = len(start.load) * len(start.capacity)
    if size > LARGE or board.distance() <= plan.bound + NEAR:
        return plan
    if size <= WHOLE:
        return _whole(board, plan)
    return _parts(board, plan)


def _whole(board: Board, plan: Plan) -> Plan:
    model = Model(board, np.arange(len(board.frame.capacity)))
    found = model.solve(WHOLE_EFFORT, plan.seed, plan.bound, board.distance())
    bound = max(plan.bound, found.bound)
    if found.node is None or board.frame.distance(found.node) > board.distance():
        return replace(plan, bound=min(bound, board.distance()))
    distance = board.frame.distance(found.node)
    stage = "optimal" if found.optimal else "polished"
    return replace(plan, node=found.node, bound=min(bound, distance), stage=f"{plan.stage}, {stage}")


def _parts(board: Board, plan: Plan) -> Plan:
    rng = np.random.default_rng(plan.seed)
    start = board.frame
    better = False
    for _ in range(ROUNDS):
        if board.distance() <= plan.bound + NEAR:
            break
        nodes = _neighbours(board, rng)
        deviation = np.abs(board.deviation()[nodes])
        found = Model(board, nodes).solve(EFFORT, plan.seed, 0.0, float(deviation.max()))
        if found.node is None:
            continue
        changed = Board(start, found.node)
        if np.abs(changed.deviation()[nodes]).max() < deviation.max() and changed.spent <= start.affordable:
            changed.ceiling = board.ceiling
            board, better = changed, True
    if not better:
        return plan
    bound = min(plan.bound, board.distance())
    return replace(plan, node=board.node, bound=bound, stage=f"{plan.stage}, polished")


def _neighbours(board: Board, rng: np.random.Generator) -> Ints:
    """Return the worst node, those that are farthest on the other side, and some by luck."""
    kept = np.flatnonzero(board.frame.kept)
    deviation: Floats = board.deviation()[kept]
    order = np.argsort(-np.abs(deviation), kind="stable")
    worst = order[0]
    other = order[deviation[order] * deviation[worst] <= 0][: NEIGHBOURS // 3]
    picked = np.concatenate([[worst], other])
    rest = np.setdiff1d(np.arange(len(kept)), picked)
    luck = rng.choice(rest, min(NEIGHBOURS - len(picked), len(rest)), replace=False)
    found: Ints = kept[np.sort(np.concatenate([picked, luck]))]
    return found
