"""The certified balancer: a plan within the budget, and a load distance that no plan can undercut.

A plan goes through stages: every group gets a node, exceeded caps are eased, removed nodes are drained
(:mod:`drain` tells what comes before what), then the load distance is brought down, and last, what
does not help it is taken back. A move is never made for less than rounding.

The load distance is brought down by aiming: at the proven bound first, then between what was reached and what was not,
from where the stages before left off and from the best plan so far (:mod:`search`).

Loads of groups are taken as they are under the present placement, whoever sits beside whom afterwards. Flows are not
looked at otherwise; the joint search does that.

Reference: own; the aim is that of the MILP in [ALBIC] Section 4.3.1. Deviations: d is minimised first, then what the
moves cost; the paper's d_u and d_l are left to :mod:`milp`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optimizers.albic.balance.board import Board
from optimizers.albic.balance.bound import bound_of
from optimizers.albic.balance.drain import drain, uncrowded
from optimizers.albic.balance.duties import ease, place
from optimizers.albic.balance.frame import frame
from optimizers.albic.balance.search import bring
from optimizers.albic.plan import Plan
from optimizers.albic.problem import Ints, Problem

AIMS = 7
"""Load distances that are aimed at, one after another."""

NEAR = 0.01
"""Points above the bound that are as good as the bound."""

SMALL = 100_000
"""Nodes times groups up to which all that is done."""

LARGE_AIMS = 2
"""Load distances that are aimed at on larger problems, each from where the one before left off."""

LARGE_OFFSET = 0.1
"""Points above the bound that are aimed at first there: every node is brought so far before any is brought nearer."""

RETRIES = 5
"""How often a dead end is tried again for each aim, at most."""

RETRY_SIZE = 100_000
"""Nodes times groups times retries, at most."""

ROUNDS = 3
"""How often nodes are set aside that fix the load distance, to balance the others."""

WORTH = 1.0
"""Points from their own mean up to which the others are left alone."""

STAGE_SEPARATOR = ", "


def balance(problem: Problem, *, pinned: Ints | None = None, seed: int = 0) -> Plan:
    """Return a plan within the budget, and how good it is at most.

    Args:
        problem: The problem. Loads are those under the present placement.
        pinned: Node that each group must be on afterwards, shape (K,), -1 for any. Pins cost what their moves cost.
            If they exceed the budget or a cap, or lead onto a removed node, all pinned groups stay where they are, and
            the stage says so.
        seed: Of the search; the same problem and seed give the same plan.
    """
    start = frame(problem, pinned)
    board = Board(start)
    place(board)
    ease(board)
    drained = drain(board)
    board.most = uncrowded(board)
    bound = bound_of(start)
    board = _descend(board, bound, np.random.default_rng(seed))
    _give_back(board)
    board = _rest(board, np.random.default_rng(seed))
    stages = ["pins dropped"] * start.dropped + [drained or ""] + ["balanced"]
    return Plan(
        node=board.node,
        bound=min(bound, start.distance(board.node)),
        stage=STAGE_SEPARATOR.join(filter(None, stages)),
        seed=seed,
    )


def _descend(begin: Board, bound: float, rng: np.random.Generator) -> Board:
    """Bring the load distance down by aiming at ever nearer ones."""
    start = begin.frame
    size = len(start.capacity) * len(start.load)
    aims, offset = (AIMS, NEAR / 2) if size <= SMALL else (LARGE_AIMS, LARGE_OFFSET)
    best, reached = begin, begin.distance()
    missed, aim = bound, bound + offset
    for _ in range(aims):
        if reached <= bound + NEAR:
            break
        for node in (begin.node, best.node) if size <= SMALL else (best.node,):
            retries = min(RETRIES, RETRY_SIZE // max(size, 1))
            board, _ = bring(begin.again(node), aim, start.affordable, rng, retries)
            distance = board.distance()
            if distance < reached and not board.crowded():
                best, reached = board, distance
        if reached > aim:
            missed = aim
        aim = (missed + reached) / 2
    return best


def _rest(board: Board, rng: np.random.Generator) -> Board:
    """Balance what is left when a few nodes fix the load distance: a heavy group must not excuse all the others."""
    whole = board.frame
    for _ in range(ROUNDS):
        start = board.frame
        deviation = np.abs(board.deviation())
        done = start.kept & (deviation >= deviation.max() - NEAR)
        kept = start.kept & ~done
        if not kept.any() or board.left() < start.price.min(initial=np.inf):
            break
        fixed = start.fixed | done[board.node]
        mean = float(board.raw[kept].sum() / start.capacity[kept].sum())
        rest = board.again(board.node, replace(start, kept=kept, fixed=fixed, mean=mean))
        if rest.distance() <= WORTH:
            break
        board = _descend(rest, 0.0, rng)
        _give_back(board)
    return board.again(board.node, whole)


def _give_back(board: Board) -> None:
    """Take back moves that the load distance does not need, the dearest first."""
    start = board.frame
    limit = board.distance() * (1 + 1e-12)
    moved = np.flatnonzero((board.node != start.home) & (start.home >= 0) & ~start.fixed)
    moved = moved[start.kept[start.home[moved]]]
    for group in moved[np.argsort(-start.price[moved], kind="stable")]:
        home, here = int(start.home[group]), int(board.node[group])
        if not board.fits(np.array(group), np.array(home)):
            continue
        nodes = np.array([home, here])
        raw = board.raw[nodes] + start.load[group] * np.array([1.0, -1.0])
        level = raw / start.capacity[nodes]
        if (np.abs(level - start.mean) <= limit).all() and raw[0] <= board.most[home]:
            board.move(int(group), home)
