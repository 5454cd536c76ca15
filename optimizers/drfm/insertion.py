"""Place streams without a node: greatest first, where they fit longest and raise a node's peak least.

Two streams go together if one rises when the other falls, because together they need less: they save the share
1 - peak(i + j) / (peak(i) + peak(j)) of their peaks over the horizon. Pairs are formed from the greatest saving down,
each stream once. Equal opposites save the most, because their sum is constant: nodes of such pairs are never
overloaded, whatever the periods of the pairs.

Reference: ours; with a horizon of one period and no margin it is best fit decreasing ([DRFM], Section 2.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millrace.optimizers.arrays import Floats, Ints
from millrace.optimizers.drfm.stream_placement import ROUNDING, HorizonOptions, StreamPlacement

BLOCK = 64
"""Streams whose sums with all others are computed at once."""
NEAREST = 8
"""Best partners per stream that are considered."""
OFFERED = 256
"""Number of nodes from which the best is nearly as good as the best of any number."""


def insert_new(placement: StreamPlacement, options: HorizonOptions) -> None:
    """Place every stream without a node, opposites together."""
    new = np.flatnonzero(placement.node < 0)
    if not len(new):
        return
    units = pair(placement.mean[new], options.pairing) if len(new) <= options.pair_limit else np.arange(len(new))
    together = [new[units == u] for u in range(int(units.max()) + 1)]
    place(placement, [part for unit in together for part in _apart(placement, unit)])


def _apart(placement: StreamPlacement, unit: Ints) -> list[Ints]:
    """Return the streams of a unit one by one if no node can take them together."""
    fits = placement.window(*placement.total(unit)) == placement.ahead
    return [unit] if fits or len(unit) == 1 else [unit[:1], unit[1:]]


def place(placement: StreamPlacement, units: list[Ints]) -> None:
    """Place units, the greatest first, opening nodes if none has room over the whole horizon.

    Args:
        placement: The placement; it is changed.
        units: Streams that go together, each of shape (U,).
    """
    need = [placement.need(*placement.total(unit)).max() for unit in units]
    for at in np.argsort(-np.array(need), kind="stable"):
        unit = units[at]
        target = best_node(placement, *placement.total(unit), placement.offered, turn=int(unit[0]))
        node = placement.open() if target is None else target
        for stream in unit:
            placement.put(int(stream), node)


def best_node(
    placement: StreamPlacement, mean: Floats, variance: Floats, nodes: Ints, periods: int | None = None, turn: int = 0
) -> int | None:
    """Return the node that suits a stream or unit best; None if it fits on none for long enough.

    The best node is the one whose peak rises least, which leaves most room for others; of equal ones, the one with the
    least room left. Of very many nodes, a part is tried first, and all only if it fits on none of these.

    Args:
        placement: The placement.
        mean: Mean rates to place, shape (H,).
        variance: Their variance, shape (H,).
        nodes: Nodes to choose from.
        periods: How long it has to fit; None for the whole horizon.
        turn: Any number; it selects the part of the nodes.
    """
    periods = periods or placement.ahead
    for offered in parts(nodes, turn):
        node = _best(placement, mean, variance, offered, periods)
        if node is not None:
            return node
    return None


def parts(nodes: Ints, turn: int) -> Sequence[Ints]:
    """Return the sets of nodes to try, one after the other: all of few; of many, a part before all."""
    step = len(nodes) // OFFERED
    return [nodes[turn % step :: step], nodes] if step > 1 else [nodes]


def _best(placement: StreamPlacement, mean: Floats, variance: Floats, nodes: Ints, periods: int) -> int | None:
    near = nodes[placement.has_room(nodes, float(mean[0]))]
    if not len(near):
        return None
    with_it = placement.need(
        placement.sums[near, :periods] + mean[:periods], placement.noise[near, :periods] + variance[:periods]
    )
    peak = with_it.max(axis=1)
    fits = peak <= placement.capacity * (1 + ROUNDING)
    if not fits.any():
        return None
    rise = np.where(fits, np.round((peak - placement.peaks(near, periods)) / placement.capacity, 6), np.inf)
    return int(near[np.lexsort((near, -peak, rise))[0]])


def pair(mean: Floats, least: float) -> Ints:
    """Return the unit of each stream, 0..U-1, shape (S,): the same for both streams of a pair.

    Args:
        mean: Expected rates, shape (S, H).
        least: Share of their peaks that a pair has to save, (0, 1].
    """
    streams = len(mean)
    alone: Ints = np.arange(streams)
    if streams < 2 or least >= 1:
        return alone
    first, second, saved = _candidates(mean, least)
    unit = np.full(streams, -1, dtype=np.intp)
    for at in np.lexsort((second, first, -saved)):
        i, j = first[at], second[at]
        if unit[i] < 0 and unit[j] < 0:
            unit[i] = unit[j] = i
    unit = np.where(unit < 0, alone, unit)
    return np.asarray(np.unique(unit, return_inverse=True)[1], dtype=np.intp).reshape(streams)


def _candidates(mean: Floats, least: float) -> tuple[Ints, Ints, Floats]:
    peak, streams = mean.max(axis=1), len(mean)
    keep = min(NEAREST, streams - 1)
    blocks = []
    for begin in range(0, streams, BLOCK):
        rows = np.arange(begin, min(begin + BLOCK, streams))
        together = np.stack([(mean[i] + mean).max(axis=1) for i in rows])
        apart = peak[rows][:, None] + peak
        saved = np.where(apart > 0, 1 - together / np.where(apart > 0, apart, 1.0), 0.0)
        saved[np.arange(len(rows)), rows] = -1.0
        best = np.argsort(-saved, axis=1, kind="stable")[:, :keep]
        blocks.append((np.repeat(rows, keep), best.ravel(), np.take_along_axis(saved, best, axis=1).ravel()))
    first, second, saved = (np.concatenate(column) for column in zip(*blocks, strict=True))
    good = saved >= least
    return first[good], second[good], saved[good]
