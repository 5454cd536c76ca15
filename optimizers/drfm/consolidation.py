"""Empty nodes whose streams fit elsewhere for long enough to be worth the redirections, the lightest first.

The loads of nodes are kept from one emptied node to the next, because only few of them change: of ten thousand nodes a
thousand may be emptied in a period.

Reference: ours; the paper never releases a node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.optimizers.arrays import Floats, Ints
from millrace.optimizers.drfm.insertion import best_node
from millrace.optimizers.drfm.stream_placement import HorizonOptions, Snapshot, StreamPlacement

SHORTEST = 2
"""Fewest periods that a saving has to last."""


@dataclass
class _Loads:
    """Loads of nodes in the periods for which a saving has to last.

    Attributes:
        periods: Number of periods, >= 1.
        peak: Highest need of each node, shape (B,).
        filled: Load of all nodes that hold a stream together, shape (periods,).
    """

    periods: int
    peak: Floats
    filled: Floats


def consolidate(placement: StreamPlacement, options: HorizonOptions) -> None:
    """Empty nodes that end without streams: the longer a saving lasts, the more redirections it is worth.

    Args:
        placement: The placement; it is changed.
        options: The options.
    """
    for periods in _spans(placement.ahead):
        least = placement.least_ending(periods)
        loads = _Loads(
            periods,
            placement.peaks(np.arange(len(placement.count)), periods),
            placement.sums[placement.used, :periods].sum(axis=0),
        )
        while len(placement.ending) > least and _empty_one(placement, options, loads):
            continue


def _spans(ahead: int) -> list[int]:
    spans = []
    while ahead >= SHORTEST:
        spans.append(ahead)
        ahead //= 2
    return spans or [1]


def _empty_one(placement: StreamPlacement, options: HorizonOptions, loads: _Loads) -> bool:
    ending, offered = placement.ending, placement.offered
    for node in ending[_lightest(loads.peak[ending], options.drains)].tolist():
        members = placement.members(node)
        price = float((placement.home[members] == node).sum()) * options.move_price
        if price <= loads.periods and _drain(placement, node, members, offered[offered != node], loads):
            return True
    return False


def _lightest(peak: Floats, count: int) -> Ints:
    """Return the indices of the smallest, equal ones in their order."""
    last = min(count, len(peak)) - 1
    few = np.flatnonzero(peak <= np.partition(peak, last)[last])
    lightest: Ints = few[np.argsort(peak[few], kind="stable")[:count]]
    return lightest


def _drain(placement: StreamPlacement, node: int, members: Ints, others: Ints, loads: _Loads) -> bool:
    """Move all streams of a node to others, or none."""
    periods, row = loads.periods, placement.sums[node, : loads.periods].copy()
    if (placement.capacity * len(others) - (loads.filled - row) < row).any():
        return False
    moves: list[Snapshot] = []
    for s in members[np.argsort(-placement.mean[members, :periods].max(axis=1), kind="stable")].tolist():
        target = best_node(placement, placement.mean[s], placement.variance[s], others, periods, turn=node)
        if target is None:
            for move in reversed(moves):
                placement.restore(move)
            return False
        moves.append(placement.snapshot(s, target))
        placement.put(s, target)
    changed = np.unique(placement.node[members])
    loads.peak[changed] = placement.peaks(changed, periods)
    loads.filled -= row - placement.mean[members, :periods].sum(axis=0)  # a queue goes with the node
    return True
