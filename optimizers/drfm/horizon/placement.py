"""Placing streams that have no node: greatest first, where they fit longest and raise a node's peak least.

Reference: ours; with a horizon of one period and no margin it is best fit decreasing ([DRFM], Section 2.1).
"""

from __future__ import annotations

import numpy as np

from optimizers.drfm.horizon.board import ROUNDING, Board
from optimizers.drfm.horizon.options import Options
from optimizers.drfm.horizon.pairs import pair
from optimizers.drfm.problem import Floats, Ints


def place_new(board: Board, options: Options) -> None:
    """Give every stream without a node one; opposites go together."""
    new = np.flatnonzero(board.node < 0)
    if not len(new):
        return
    units = pair(board.mean[new], options.pairing) if len(new) <= options.pair_limit else np.arange(len(new))
    together = [new[units == u] for u in range(int(units.max()) + 1)]
    place(board, [part for unit in together for part in _apart(board, unit)])


def _apart(board: Board, unit: Ints) -> list[Ints]:
    """Return the streams of a unit one by one where no node can take them together."""
    fits = board.window(board.mean[unit].sum(axis=0), board.variance[unit].sum(axis=0)) == board.ahead
    return [unit] if fits or len(unit) == 1 else [unit[:1], unit[1:]]


def place(board: Board, units: list[Ints]) -> None:
    """Place units, the greatest first, opening nodes where none has room over the whole horizon.

    Args:
        board: The placement; it is changed.
        units: Streams that go together, each of shape (U,).
    """
    need = [board.need(board.mean[u].sum(axis=0), board.variance[u].sum(axis=0)).max() for u in units]
    for at in np.argsort(-np.array(need), kind="stable"):
        unit = units[at]
        target = best_node(board, board.mean[unit].sum(axis=0), board.variance[unit].sum(axis=0), board.used)
        node = board.open() if target is None else target
        for stream in unit:
            board.put(int(stream), node)


def best_node(board: Board, mean: Floats, variance: Floats, nodes: Ints, periods: int | None = None) -> int | None:
    """Return the node that a stream or unit suits best; None if it fits on none for long enough.

    It suits where a node's peak rises least, for what the node has left can then be used by others; of equal ones,
    where the least is left.

    Args:
        board: The placement.
        mean: Of what is placed, shape (H,).
        variance: Of that, shape (H,).
        nodes: To choose from.
        periods: How long it has to fit; the whole horizon without.
    """
    periods = periods or board.ahead
    near = nodes[board.roomy(nodes, float(mean[0]))]
    if not len(near):
        return None
    with_it = board.need(board.sums[near, :periods] + mean[:periods], board.noise[near, :periods] + variance[:periods])
    peak = with_it.max(axis=1)
    fits = peak <= board.capacity * (1 + ROUNDING)
    if not fits.any():
        return None
    before = board.need(board.sums[near, :periods], board.noise[near, :periods]).max(axis=1)
    rise = np.where(fits, np.round((peak - before) / board.capacity, 6), np.inf)
    return int(near[np.lexsort((near, -peak, rise))[0]])
