"""Relieve nodes that will be overloaded, with the fewest redirections in the long run.

For each node, in this order, the first that helps:
    1. one stream moves to another node
    2. one stream and one of another node change places
    3. several streams move, the one that another node holds longest first
    4. a stream moves to a new node
A redirection after which both nodes hold out for w periods costs one redirection every w periods: the least of (1 + its
rate in nodes) / w wins.

Reference: ours; [DRFM] Algorithm 1 removes streams until the sum fits, and looks for a place afterwards.
"""

from __future__ import annotations

import numpy as np

from millrace.optimizers.arrays import Ints
from millrace.optimizers.drfm.insertion import parts
from millrace.optimizers.drfm.stream_placement import HorizonOptions, StreamPlacement


def relieve_overloads(placement: StreamPlacement, options: HorizonOptions) -> None:
    """Relieve all nodes that do not hold out for as long as the options require."""
    windows = placement.windows(1 - options.patience)
    for node in np.flatnonzero(windows < options.act).tolist():
        while placement.count[node] > 1 and placement.window(placement.sums[node], placement.noise[node]) < options.act:
            if _move(placement, node, options) or _swap(placement, node, options) or _give(placement, node, options):
                continue
            _open(placement, node, options)


def _windows_without(placement: StreamPlacement, node: int) -> tuple[Ints, Ints]:
    """Return a node's streams and how long it holds out without each, both of shape (U,)."""
    members = placement.members(node)
    left = placement.window(
        placement.sums[node] - placement.mean[members], placement.noise[node] - placement.variance[members]
    )
    alone = len(members) == 2  # nothing can relieve the one that stays any more
    return members, np.where(alone, placement.ahead, left)


def _windows_with(placement: StreamPlacement, streams: Ints, nodes: Ints) -> Ints:
    """Return how long each node holds out with each stream, shape (U, B)."""
    mean = placement.sums[nodes] + placement.mean[streams][:, None]
    held: Ints = placement.window(mean, placement.noise[nodes] + placement.variance[streams][:, None])
    return held


def _others(placement: StreamPlacement, node: int) -> Ints:
    offered: Ints = placement.offered
    others: Ints = offered[offered != node]
    return others


def _with_room(placement: StreamPlacement, members: Ints, targets: Ints) -> Ints:
    """Return the nodes with room for one of the streams in the next period: no other node can hold out with it."""
    room: Ints = targets[placement.has_room(targets, float(placement.mean[members, 0].min()))]
    return room


def _move(placement: StreamPlacement, node: int, options: HorizonOptions) -> bool:
    members, left = _windows_without(placement, node)
    good: Ints = np.flatnonzero(left >= options.act)
    return len(good) > 0 and any(
        _move_to(placement, members[good], left[good], targets, options)
        for targets in parts(_others(placement, node), node)
    )


def _move_to(placement: StreamPlacement, members: Ints, left: Ints, targets: Ints, options: HorizonOptions) -> bool:
    targets = _with_room(placement, members, targets)
    if not len(targets):
        return False
    lasts = np.minimum(_windows_with(placement, members, targets), left[:, None])
    price = np.where(lasts >= options.act, placement.cost[members][:, None] / np.maximum(lasts, 1), np.inf)
    at = np.unravel_index(np.argmin(price), price.shape)
    if not np.isfinite(price[at]):
        return False
    placement.put(int(members[at[0]]), int(targets[at[1]]))
    return True


def _swap(placement: StreamPlacement, node: int, options: HorizonOptions) -> bool:
    """Exchange a stream for a smaller one of another node."""
    members = placement.members(node)
    outside = np.flatnonzero((placement.node >= 0) & (placement.node != node))
    if not len(outside):
        return False
    outside = _slowest(placement, outside, options.swaps)
    theirs = placement.node[outside]
    best, choice = np.inf, None
    for s in members.tolist():
        f, v = placement.mean[outside] - placement.mean[s], placement.variance[outside] - placement.variance[s]
        here = placement.window(placement.sums[node] + f, placement.noise[node] + v)
        there = placement.window(placement.sums[theirs] - f, placement.noise[theirs] - v)
        lasts = np.minimum(here, there)
        price = np.where(
            lasts >= options.act, (placement.cost[s] + placement.cost[outside]) / np.maximum(lasts, 1), np.inf
        )
        at = int(np.argmin(price))
        if price[at] < best:
            best, choice = float(price[at]), (s, int(outside[at]))
    if choice is None:
        return False
    other = int(placement.node[choice[1]])
    placement.put(choice[0], other)
    placement.put(choice[1], node)
    return True


def _slowest(placement: StreamPlacement, streams: Ints, most: int) -> Ints:
    """Return the slowest of the streams, by rising rate."""
    rate = placement.mean[streams, 0]
    if len(streams) > most:  # no need to sort a million for a few hundred
        chosen = np.sort(np.argpartition(rate, most)[:most])
        streams, rate = streams[chosen], rate[chosen]
    rising: Ints = streams[np.argsort(rate, kind="stable")]
    return rising


def _give(placement: StreamPlacement, node: int, options: HorizonOptions) -> bool:
    """Move the stream that some node holds longest, although that alone does not relieve this one."""
    members = placement.members(node)
    return any(_give_to(placement, members, targets, options) for targets in parts(_others(placement, node), node))


def _give_to(placement: StreamPlacement, members: Ints, targets: Ints, options: HorizonOptions) -> bool:
    targets = _with_room(placement, members, targets)
    if not len(targets):
        return False
    held = _windows_with(placement, members, targets)
    value = np.where(held >= options.act, held, 0) * placement.mean[members, 0][:, None]
    at = np.unravel_index(np.argmax(value), value.shape)
    if value[at] <= 0:
        return False
    placement.put(int(members[at[0]]), int(targets[at[1]]))
    return True


def _open(placement: StreamPlacement, node: int, options: HorizonOptions) -> None:
    """Move the stream without which the node holds out longest; of equal ones the slowest."""
    members, left = _windows_without(placement, node)
    enough = np.where(left >= options.act, left, -1)
    rate = placement.mean[members, 0]
    value = np.where(enough.max() >= 0, enough, rate)  # if one move is not enough, the fastest stream
    at = np.lexsort((members, rate, -value))[0]
    placement.put(int(members[at]), placement.open())
