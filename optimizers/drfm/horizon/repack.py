"""Packing all streams from nothing, where it saves enough nodes.

Streams that came one by one, or whose opposites were not known when they came, lie badly in a way that no emptying of
single nodes mends. A new packing is taken if the node-periods it saves over the horizon are worth its redirections.

Reference: ours; PAR of [DRFM] does so every period, whatever it costs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.drfm.horizon.board import Board, queued
from optimizers.drfm.horizon.options import Options
from optimizers.drfm.horizon.placement import place_new
from optimizers.drfm.numbering import matched
from optimizers.drfm.problem import NEW, Ints, Problem


def repacked(problem: Problem, board: Board, options: Options) -> Ints:
    """Return the better of a placement and a new packing, shape (S,).

    Args:
        problem: The period's problem.
        board: The placement.
        options: Knobs.
    """
    have = len(board.used)
    if problem.streams > options.pair_limit or have <= board.least_nodes(board.ahead):
        return board.node
    anew = Board(replace(problem, node=np.full(problem.streams, NEW), nodes=0, latency_s=None), options.margin)
    place_new(anew, options)
    saved = have - len(anew.used)
    node = matched(np.unique(anew.node, return_inverse=True)[1], board.node, len(board.count))
    moves = int(((node != problem.node) & problem.placed).sum())
    less = moves - int(((board.node != problem.node) & problem.placed).sum())
    worth = saved > 0 and less * options.move_price <= saved * board.ahead
    return node if worth and _catches_up(problem, node, options) else board.node


def _catches_up(problem: Problem, node: Ints, options: Options) -> bool:
    """Say whether nodes can work their queues off, which a packing from nothing knows nothing of."""
    load = np.bincount(node, weights=problem.mean[0], minlength=problem.nodes)
    shared = np.bincount(node, minlength=problem.nodes)[: problem.nodes] > 1
    over = load[: problem.nodes] + queued(problem, options.catch_up_s) > problem.capacity
    return not (over & shared).any()
