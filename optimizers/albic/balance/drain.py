"""Empty the nodes that are marked for removal.

The order of what a plan is after, each before the next:
    1. overloaded nodes are relieved, with half of the budget while there is anything to drain
    2. as many groups leave removed nodes as the rest pays for, the cheapest first, of equals the heaviest
    3. the load distance
So with equal prices and nothing overloaded, n groups on removed nodes are gone in ceil(n / budget) plans; while nodes
are overloaded at least every second unit of the budget drains, for budgets of two moves or more.

Relief ends where it stops to pay: while removed nodes hold load R, the kept ones are R / (sum of c) short of the mean
on average, so bringing a node nearer to the mean than that from above does not make the load distance smaller. If that
is above :data:`OVERLOADED`, relief goes on to there, or to the mean.

Reference: [ALBIC] Section 4.3.1, "Supporting Horizontal Scale-In". Deviations: Lemma 1 does not hold, hence no move
ever leads onto a removed node; Lemma 2 does not say that draining ends, and with one heavy group that fixes d, or with
groups of no load, the MILP never drains, hence draining is an aim of its own, and counts groups, not load.
"""

from __future__ import annotations

import numpy as np

from optimizers.albic.balance.board import Board
from optimizers.albic.balance.frame import Frame
from optimizers.albic.balance.search import Band, Search
from optimizers.albic.problem import Floats, Ints

OVERLOADED = 90.0
"""Points from which a node counts as overloaded: nothing is left for what a period's average does not show."""

RELIEF_SHARE = 0.5
"""Part of the budget that relief may take before draining has its turn."""


def drain(board: Board) -> str | None:
    """Relieve overloaded nodes, then move groups off removed ones.

    Returns:
        The stage for the plan: ``drained`` if none is left there, ``draining`` if some are, None if none was.
    """
    waiting = _waiting(board)
    if not len(waiting):
        return None
    _relieve(board)
    _move_off(board, waiting)
    return "draining" if len(_waiting(board)) else "drained"


def uncrowded(board: Board) -> Floats:
    """Return what nodes may be loaded with once relief is done, raw points, shape (N,).

    While groups wait on removed nodes, balance must not load again whom relief has just relieved: it would even all
    that are overloaded to the limit, from where nothing is urgent any more.
    """
    frame = board.frame
    if not len(_waiting(board)):
        return np.full(len(frame.capacity), np.inf)
    most: Floats = np.where(frame.kept, np.maximum(_relieved(frame), board.raw), np.inf)
    return most


def _relieved(frame: Frame) -> Floats:
    """Return the load at which relief of a node ends, raw points, shape (N,)."""
    kept_load = frame.raw(frame.start)[frame.kept].sum() / frame.capacity[frame.kept].sum()
    return frame.capacity * max(frame.mean, min(2 * frame.mean - float(kept_load), OVERLOADED))


def _waiting(board: Board) -> Ints:
    """Return the groups on removed nodes that may leave them."""
    frame = board.frame
    return np.flatnonzero((board.node >= 0) & ~frame.kept[board.node] & ~frame.fixed)


def _relieve(board: Board) -> None:
    """Relieve overloaded nodes one after another, the hottest first: to ease all a little would end at the limit."""
    frame = board.frame
    loads = board.raw / frame.capacity
    hot = np.flatnonzero(frame.kept & (loads > OVERLOADED))
    level = _relieved(frame)
    # one move is always allowed, else a budget of one move would never relieve
    share = max(frame.budget * RELIEF_SHARE, board.spent + frame.price.max(initial=0.0))
    for node in hot[np.argsort(-loads[hot], kind="stable")]:
        high = np.where(frame.kept, np.maximum(level, board.raw), np.inf)
        high[node] = level[node]
        band = Band(np.full(len(high), -np.inf), high)
        Search(board, band, min(frame.affordable, share)).descend()


def _move_off(board: Board, waiting: Ints) -> None:
    frame = board.frame
    kept = np.flatnonzero(frame.kept)
    for group in waiting[np.lexsort((-frame.load[waiting], frame.price[waiting]))]:
        one = np.array(group)
        if frame.price[group] > board.left():
            break
        fitting = kept[board.fits(one, kept)]
        if len(fitting):
            after = (board.raw[fitting] + frame.load[group]) / frame.capacity[fitting]
            board.move(int(group), int(fitting[after.argmin()]))
