"""Flux: pair the hottest node with the coldest, and move the biggest partition that evens the two.

At the end of a period nodes are sorted by load, hottest first. The biggest suitable partition of the first goes to the
last, one of the second to the last but one, and so on; a partition is suitable if the variance of loads shrinks.
Rounds are repeated, sorted anew, until moves run out or no pair has a suitable partition.

Flux takes loads as fixed, knows no removed nodes, caps, or costs: here it works on kept nodes and counts moves by their
price, as [ALBIC] Section 5 limits it like the MILP, and leaves removed nodes and what they hold alone. Groups without a
node are placed first, as every plan must.

Reference:
    [Flux] Shah, Hellerstein, Chandrasekaran, Franklin, "Flux: An Adaptive Partitioning Operator for Continuous Query
    Systems", 2003, as told in [ALBIC] Section 2.2.
"""

from __future__ import annotations

import numpy as np

from optimizers.albic.balance.board import Board
from optimizers.albic.balance.duties import place
from optimizers.albic.balance.frame import frame
from optimizers.albic.plan import Plan
from optimizers.albic.problem import Problem

LEAST_GAIN = 1e-12
"""Squared points; less is rounding."""


def balance(problem: Problem, *, seed: int = 0) -> Plan:
    """Return Flux's plan, which proves nothing: its bound is 0.

    Args:
        problem: The problem; loads are those under the present placement, caps are respected but not eased.
        seed: Not used: Flux draws no lots.
    """
    board = Board(frame(problem))
    place(board)
    while _round(board):
        pass
    return Plan(node=board.node, bound=0.0, stage="flux", seed=seed)


def _round(board: Board) -> bool:
    """Do one round; say whether it moved anything."""
    kept = np.flatnonzero(board.frame.kept)
    order = kept[np.argsort(-board.raw[kept] / board.frame.capacity[kept], kind="stable")]
    moved = False
    for hot, cold in zip(order[: len(order) // 2], order[::-1], strict=False):
        group = _suitable(board, int(hot), int(cold))
        if group is not None:
            board.move(group, int(cold))
            moved = True
    return moved


def _suitable(board: Board, hot: int, cold: int) -> int | None:
    frame = board.frame
    groups = board.members(hot)
    if not len(groups):
        return None
    load, to = frame.load[groups], np.array(cold)
    a, b = board.raw[hot] / frame.capacity[hot] - frame.mean, board.raw[cold] / frame.capacity[cold] - frame.mean
    after = (a - load / frame.capacity[hot]) ** 2 + (b + load / frame.capacity[cold]) ** 2
    price = board.price(groups, to)
    suitable = (a * a + b * b - after > LEAST_GAIN) & (price <= board.left()) & board.fits(groups, to)
    return int(groups[suitable][load[suitable].argmax()]) if suitable.any() else None
