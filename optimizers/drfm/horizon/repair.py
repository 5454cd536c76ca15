"""Relieving nodes that will be overloaded, with the fewest redirections in the long run.

For each node, in this order, the first that helps:
    1. one stream moves to another node
    2. one stream and one of another node change places
    3. several streams move, the one that another node holds longest first
    4. a stream moves to a new node
A redirection after which both nodes hold out for w periods costs a redirection every w periods: the least of
(1 + its rate in nodes) / w wins.

Reference: ours; [DRFM] Algorithm 1 takes streams away until the sum fits, and looks for a place afterwards.
"""

from __future__ import annotations

import numpy as np

from optimizers.drfm.horizon.board import Board
from optimizers.drfm.horizon.options import Options
from optimizers.drfm.problem import Ints

TWO = 2
"""Streams on a node of which one is alone after the other has gone: nothing can relieve it any more."""


def repair(board: Board, options: Options) -> None:
    """Relieve all nodes that do not hold out for as long as the options say."""
    windows = board.windows(1 - options.patience)
    for node in np.flatnonzero(windows < options.act).tolist():
        while board.count[node] > 1 and board.window(board.sums[node], board.noise[node]) < options.act:
            if _move(board, node, options) or _swap(board, node, options) or _give(board, node, options):
                continue
            _open(board, node, options)


def _without(board: Board, node: int) -> tuple[Ints, Ints]:
    """Return a node's streams and how long it holds out without each, shape (U,) both."""
    members = board.members(node)
    left = board.window(board.sums[node] - board.mean[members], board.noise[node] - board.variance[members])
    alone = len(members) == TWO
    return members, np.where(alone, board.ahead, left)


def _held(board: Board, streams: Ints, nodes: Ints) -> Ints:
    """Return how long each node holds out with each stream, shape (U, B)."""
    mean = board.sums[nodes] + board.mean[streams][:, None]
    held: Ints = board.window(mean, board.noise[nodes] + board.variance[streams][:, None])
    return held


def _others(board: Board, node: int) -> Ints:
    used: Ints = board.used
    others: Ints = used[used != node]
    return others


def _move(board: Board, node: int, options: Options) -> bool:
    members, left = _without(board, node)
    targets = _others(board, node)
    good: Ints = np.flatnonzero(left >= options.act)
    if not (len(good) and len(targets)):
        return False
    lasts = np.minimum(_held(board, members[good], targets), left[good][:, None])
    price = np.where(lasts >= options.act, board.cost[members[good]][:, None] / np.maximum(lasts, 1), np.inf)
    at = np.unravel_index(np.argmin(price), price.shape)
    if not np.isfinite(price[at]):
        return False
    board.put(int(members[good][at[0]]), int(targets[at[1]]))
    return True


def _swap(board: Board, node: int, options: Options) -> bool:
    """Exchange a stream for a lesser one of another node."""
    members = board.members(node)
    outside = np.flatnonzero((board.node >= 0) & (board.node != node))
    outside = outside[np.argsort(board.mean[outside, 0], kind="stable")][: options.swaps]
    if not len(outside):
        return False
    theirs = board.node[outside]
    best, choice = np.inf, None
    for s in members.tolist():
        f, v = board.mean[outside] - board.mean[s], board.variance[outside] - board.variance[s]
        here = board.window(board.sums[node] + f, board.noise[node] + v)
        there = board.window(board.sums[theirs] - f, board.noise[theirs] - v)
        lasts = np.minimum(here, there)
        price = np.where(lasts >= options.act, (board.cost[s] + board.cost[outside]) / np.maximum(lasts, 1), np.inf)
        at = int(np.argmin(price))
        if price[at] < best:
            best, choice = float(price[at]), (s, int(outside[at]))
    if choice is None:
        return False
    other = int(board.node[choice[1]])
    board.put(choice[0], other)
    board.put(choice[1], node)
    return True


def _give(board: Board, node: int, options: Options) -> bool:
    """Move the stream that some node holds longest, though it does not relieve this one alone."""
    members, targets = board.members(node), _others(board, node)
    if not len(targets):
        return False
    held = _held(board, members, targets)
    worth = np.where(held >= options.act, held, 0) * board.mean[members, 0][:, None]
    at = np.unravel_index(np.argmax(worth), worth.shape)
    if worth[at] <= 0:
        return False
    board.put(int(members[at[0]]), int(targets[at[1]]))
    return True


def _open(board: Board, node: int, options: Options) -> None:
    """Move the stream without which the node holds out longest; of equal ones the slowest."""
    members, left = _without(board, node)
    enough = np.where(left >= options.act, left, -1)
    rate = board.mean[members, 0]
    worth = np.where(enough.max() >= 0, enough, rate)  # where one is not enough, the fastest one
    at = np.lexsort((members, rate, -worth))[0]
    board.put(int(members[at]), board.open())
