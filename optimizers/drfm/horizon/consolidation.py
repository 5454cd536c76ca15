"""Emptying nodes, where what it saves is worth the redirections.

A node is emptied if its streams fit elsewhere for the next D periods, and the D node-periods are worth the
redirections: streams x price <= D. Long D are tried before short ones.

Reference: ours; [DRFM] never releases a node.
"""

from __future__ import annotations

import numpy as np

from optimizers.drfm.horizon.board import Board
from optimizers.drfm.horizon.options import Options
from optimizers.drfm.horizon.placement import best_node

SHORTEST = 2
"""Periods that a saving has to last at least."""


def consolidate(board: Board, options: Options) -> None:
    """Empty what can be emptied."""
    for periods in _spans(board.ahead):
        while len(board.used) > board.least_nodes(periods) and _emptied(board, options, periods):
            continue


def _spans(ahead: int) -> list[int]:
    found = []
    while ahead >= SHORTEST:
        found.append(ahead)
        ahead //= 2
    return found or [1]


def _emptied(board: Board, options: Options, periods: int) -> bool:
    used = board.used
    load = board.need(board.sums[used, :periods], board.noise[used, :periods]).max(axis=1)
    for node in used[np.argsort(load, kind="stable")][: options.drains].tolist():
        members = board.members(node)
        price = float((board.home[members] == node).sum()) * options.move_price
        if price <= periods and _drained(board, node, periods):
            return True
    return False


def _drained(board: Board, node: int, periods: int) -> bool:
    others = board.used[board.used != node]
    room = board.capacity * len(others) - board.sums[others, :periods].sum(axis=0)
    if (room < board.sums[node, :periods]).any():
        return False
    saved = board.snapshot()
    members = board.members(node)
    for s in members[np.argsort(-board.mean[members, :periods].max(axis=1), kind="stable")].tolist():
        target = best_node(board, board.mean[s], board.variance[s], others, periods)
        if target is None:
            board.restore(saved)
            return False
        board.put(s, target)
    return True
