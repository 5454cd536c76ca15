"""Where groups should be in the long run, so the moves of many periods add up.

A single move often does not pay by itself: in a chain of twenty groups, each has to travel to the same node. A target
names the node, and credits each group in advance for what its partners will save.

How it is found:
1. Groups connected by heavy flows, directly or not, form a component. A component that fits on a node goes to one node.
2. A larger one is cut into parts by METIS; groups that already belong together and are collocated are not cut.
3. Components and parts are laid on nodes to keep as much as possible in place and the nodes even: by the Hungarian
   method if there are about as many as nodes, the largest first otherwise.

A component of two needs no target, because either group finds the other in one move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array

from millrace.optimizers.albic.contraction import numbered, total
from millrace.optimizers.albic.graph import components, partition
from millrace.optimizers.albic.joint_prices import TOLERANCE, Prices
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.albic.savings import Edges
from millrace.optimizers.arrays import Bools, Floats, Ints

LOOSE = -1
"""Target of a group that is free to go anywhere."""
LEAST_MEMBERS = 3
FEW = 2.0
"""Components per node up to which the Hungarian method lays them out."""
BINDING = 0.3
"""Share of what all of a group's flows save from which a single flow binds it to its partner."""
OVERSIZE = 1.1
"""Load of a component, over the largest node's share of all load, beyond which it is cut."""
LARGEST_UNIT = 0.5
"""Share of the mean load beyond which collocated groups are not kept together when a component is cut."""


@dataclass(frozen=True)
class Target:
    """A long-term placement.

    Attributes:
        node: Node of each group, shape (K,); :data:`LOOSE` if it does not matter.
        credit: Worth in advance of each group being there, points, shape (K,): its half of what it will save together
            with its partners.
        rate: Average gain on the way there, points per unit of cost.
        cut: A component did not fit on a node.
    """

    node: Ints
    credit: Floats
    rate: float
    cut: bool = False


def find_target(problem: Problem, edges: Edges, heavy: Ints, prices: Prices, node: Ints, seed: int) -> Target | None:
    """Return a target; None if no target is worth its moves.

    Args:
        problem: The problem.
        edges: Its flows.
        heavy: Indices of heavy edges, shape (H,).
        prices: Its prices.
        node: Present placement, on kept nodes, shape (K,).
        seed: Seed of METIS.
    """
    items, cut = _items(problem, edges, heavy, node, seed)
    if not (items >= 0).any():
        return None
    target = worthwhile_target(problem, edges, prices, node, lay_out(problem, edges, items, prices, node))
    return None if target is None else replace(target, cut=cut)


def worthwhile_target(problem: Problem, edges: Edges, prices: Prices, node: Ints, target: Ints) -> Target | None:
    """Return a placement as a target, if its savings are worth the moves.

    Args:
        problem: The problem.
        edges: Its flows.
        prices: Its prices.
        node: Present placement, shape (K,).
        target: The placement, shape (K,); :data:`LOOSE` if it does not matter.
    """
    there = np.where(target >= 0, target, node)
    gain = float(edges.half_saved[_same(edges, there)].sum() - edges.half_saved[_same(edges, node)].sum())
    moved = there != node
    if gain <= prices.move[moved].sum() or not moved.any():
        return None
    both = _same(edges, target) & (target[edges.group] >= 0)
    credit = total(edges.group[both], edges.half_saved[both], problem.groups)
    return Target(target, credit, gain / float(problem.cost[moved].sum()))


def _same(edges: Edges, node: Ints) -> Bools:
    return np.asarray(node[edges.group] == node[edges.other])


def binding_edges(problem: Problem, edges: Edges, node: Ints | None = None) -> Bools:
    """Return which edges bind one of their ends to the other, shape (2E,): it would lose most of its savings.

    Args:
        problem: The problem.
        edges: Its flows.
        node: Only edges within a node of this placement, shape (K,); None for all.
    """
    whole = total(edges.group, edges.half_saved, problem.groups)
    binding: Bools = edges.half_saved >= BINDING * np.minimum(whole[edges.group], whole[edges.other])
    return binding if node is None else binding & _same(edges, node)


def _items(problem: Problem, edges: Edges, heavy: Ints, node: Ints, seed: int) -> tuple[Ints, bool]:
    """Return the item of each group, shape (K,), LOOSE for groups that need no target, and whether any was cut."""
    label = components(problem.groups, edges.group[heavy], edges.other[heavy])
    size = np.bincount(label)
    inside = label[edges.group] == label[edges.other]
    load = total(label, problem.load, len(size)) - total(
        label[edges.group[inside]], edges.half_saved[inside], len(size)
    )
    mean = float(load.sum() / problem.capacity[problem.kept].sum())
    room = mean * float(problem.capacity[problem.kept].max())
    items = np.where(size[label] >= LEAST_MEMBERS, label, LOOSE)
    large = np.flatnonzero((load > room * OVERSIZE) & (size >= LEAST_MEMBERS))
    for big in large:
        members = np.flatnonzero(label == big)
        parts = min(len(problem.kept), max(2, round(load[big] / mean)))
        items[members] = items.max() + 1 + _cut(problem, edges, members, node, parts, mean, seed)
    tied = items >= 0
    items[tied] = numbered(items[tied])
    return items, bool(len(large))


def _cut(problem: Problem, edges: Edges, members: Ints, node: Ints, parts: int, mean: float, seed: int) -> Ints:
    """Return the part of each member of a component, shape (M,)."""
    unit = kept_units(problem, edges, node, LARGEST_UNIT * mean)
    index = np.full(problem.groups, -1)
    index[members] = numbered(unit[members])
    first, second = index[edges.group], index[edges.other]
    both = (first >= 0) & (second >= 0)
    first, second, saved = first[both], second[both], edges.half_saved[both]
    count = int(index.max()) + 1
    bound = binding_edges(problem, edges)[both]
    # load of a group once it is next to the groups that bind it
    eased = total(first[bound], saved[bound], count)
    weight = np.maximum(0.0, total(index[members], problem.load[members], count) - eased)
    part = partition(weight, (first, second), saved, parts, seed=seed)
    return np.asarray(part[index[members]], dtype=np.intp)


def kept_units(problem: Problem, edges: Edges, node: Ints, largest: float) -> Ints:
    """Return a label for each group, shape (K,), the same for collocated groups that bind one another.

    Args:
        problem: The problem.
        edges: Its flows.
        node: Placement, shape (K,).
        largest: Load beyond which a unit falls apart into its groups, points.
    """
    bound = binding_edges(problem, edges, node)
    label = components(problem.groups, edges.group[bound], edges.other[bound])
    load = total(label, problem.load, int(label.max(initial=-1)) + 1)
    load -= total(label[edges.group[bound]], edges.half_saved[bound], len(load))
    too_large = load[label] > largest
    label[too_large] = len(load) + np.flatnonzero(too_large)
    return numbered(label)


def lay_out(problem: Problem, edges: Edges, items: Ints, prices: Prices, node: Ints) -> Ints:
    """Lay items on nodes; return the node of each group, shape (K,), LOOSE for groups of no item.

    Args:
        problem: The problem.
        edges: Its flows.
        items: Item of each group, 0..I-1, LOOSE for none, shape (K,).
        prices: Its prices.
        node: Present placement, shape (K,).
    """
    count, kept = int(items.max()) + 1, problem.kept
    of = items >= 0
    together = _same(edges, items) & of[edges.group]
    load = total(items[of], problem.load[of], count)
    load -= total(items[edges.group[together]], edges.half_saved[together], count)
    stays = coo_array((problem.cost[of], (items[of], node[of])), shape=(count, problem.nodes)).tocsr()[:, kept]
    rest = total(node[~of], problem.own(node)[~of], problem.nodes)[kept]
    capacity = problem.capacity[kept]
    mean = (rest.sum() + load.sum()) / capacity.sum()
    if count <= FEW * len(kept):
        place = _hungarian(stays.toarray(), load, rest, capacity, mean, prices)
    else:
        place = _largest_first(stays, load, rest, capacity, mean, prices)
    target = np.full(problem.groups, LOOSE)
    target[of] = kept[place[items[of]]]
    return target


def _hungarian(stays: Floats, load: Floats, rest: Floats, capacity: Floats, mean: float, prices: Prices) -> Ints:
    """Return a node for each item, one item per node and turn, the largest items in the first turn."""
    place = np.zeros(len(load), dtype=np.intp)
    unit = prices.scale / max(float(stays.max()), 1.0)
    order = np.argsort(-load, kind="stable")
    filled = rest.astype(float)
    for turn in range(0, len(load), len(capacity)):
        rows = order[turn : turn + len(capacity)]
        after = (filled + load[rows][:, None]) / capacity - mean
        cost = np.where(after > 0, prices.deviation(after), 0.0) - unit * stays[rows]
        chosen, at = linear_sum_assignment(cost)
        place[rows[chosen]] = at
        filled[at] += load[rows[chosen]]
    return place


def _largest_first(stays: Any, load: Floats, rest: Floats, capacity: Floats, mean: float, prices: Prices) -> Ints:
    """Return a node for each item: the one with most of it, among nodes with room; otherwise the emptiest."""
    place = np.zeros(len(load), dtype=np.intp)
    filled = rest.astype(float)
    for item in np.argsort(-load, kind="stable"):
        after = (filled + load[item]) / capacity - mean
        room = after <= TOLERANCE
        if room.any():
            here = np.zeros(len(capacity))
            row = slice(stays.indptr[item], stays.indptr[item + 1])
            here[stays.indices[row]] = stays.data[row]
            place[item] = np.lexsort((after, -np.where(room, here, -1.0)))[0]
        else:
            place[item] = int(np.argmin(after))
        filled[place[item]] += load[item]
    return place
