"""What a plan owes before it may balance: a node for every group, and no more of a resource than a node has.

Reference: [ALBIC] Section 4.3.1, "Extending to Multi-Dimensional Load". Deviation: a cap that is exceeded already is no
reason to give up. No plan exceeds it further, and moves that ease it come first.
"""

from __future__ import annotations

import numpy as np

from optimizers.albic.balance.board import Board
from optimizers.albic.problem import UNPLACED, Floats, Ints

LEAST_RELIEF = 1e-9
"""Share of a limit; less is rounding."""


def place(board: Board) -> None:
    """Give every group without a node the one that is loaded least with it, the heaviest group first.

    Caps hold where there is room. A group that fits nowhere goes where it exceeds them least.
    """
    frame = board.frame
    kept = np.flatnonzero(frame.kept)
    loose = np.flatnonzero(board.node == UNPLACED)
    for group in loose[np.argsort(-frame.load[loose], kind="stable")]:
        one = np.array(group)
        fitting = kept[board.fits(one, kept)]
        if not len(fitting):
            excess = _excess(board, kept, frame.use[:, group])
            fitting = kept[excess <= excess.min() * (1 + LEAST_RELIEF)]
        after = (board.raw[fitting] + frame.load[group]) / frame.capacity[fitting]
        board.move(int(group), int(fitting[after.argmin()]))
    board.ceiling = np.maximum(board.ceiling, board.used)


def ease(board: Board) -> None:
    """Move groups away from nodes where caps are exceeded, as far as the budget goes; afterwards caps hold that do now.

    Of all moves that ease a cap the one is made that eases most for its price. Excess that it causes elsewhere counts
    against it: the sum falls with every move, so no groups take turns for ever.
    """
    frame = board.frame
    while len(frame.use):
        exceeded = np.flatnonzero((board.used > frame.limit * (1 + LEAST_RELIEF)).any(axis=0))
        steps = [s for i in exceeded if (s := _relief(board, int(i))) is not None]
        if not steps:
            break
        _, group, to = max(steps)
        board.move(group, to)
    board.tighten()


def _relief(board: Board, node: int) -> tuple[float, int, int] | None:
    frame = board.frame
    groups = board.members(node)
    groups = groups[~frame.fixed[groups]]
    kept = np.flatnonzero(frame.kept)
    kept = kept[kept != node]
    if not len(groups) or not len(kept):
        return None
    one, to = groups[:, None], kept[None, :]
    limit, used = frame.limit[:, node], board.used[:, node]
    before = np.maximum(used / limit - 1, 0).sum()
    after = np.maximum((used[:, None] - frame.use[:, groups]) / limit[:, None] - 1, 0).sum(axis=0)
    there = np.stack([_excess(board, kept, frame.use[:, group]) for group in groups])
    relief = (before - after)[:, None] - (there - _excess(board, kept, np.zeros(len(limit))))
    price = board.price(one, to)
    allowed = board.fits(one, to) & (price <= board.left()) & (relief > LEAST_RELIEF)
    unit = float(frame.price.mean()) or 1.0
    score = np.where(allowed, relief / (np.maximum(price, 0) / unit + LEAST_RELIEF), -np.inf)
    best = score == score.max()
    # among equals the node that is loaded least
    filled = np.where(best & allowed, ((board.raw[to] + frame.load[one]) / frame.capacity[to]), np.inf)
    row, column = np.unravel_index(int(filled.argmin()), filled.shape)
    if not allowed[row, column]:
        return None
    return float(score[row, column]), int(groups[row]), int(kept[column])


def _excess(board: Board, nodes: Ints, use: Floats) -> Floats:
    """Return by how much a group would exceed caps on nodes, shares of the limits summed, shape of ``nodes``."""
    limit = board.frame.limit[:, nodes]
    found: Floats = np.maximum((board.used[:, nodes] + use[:, None]) / limit - 1, 0).sum(axis=0)
    return found
