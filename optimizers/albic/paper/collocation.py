"""Steps 2 and 3 of ALBIC: maintain collocation, and improve it by the heaviest pair that is apart.

Maintain: collocated groups become units that move as one. Symbols ([ALBIC], Algorithm 2, lines 16-22):
    S     a set: groups connected by collocated heavy pairs. Only pairs that are collocated now count, so its groups
          share a node
    p1    ceil(migration cost of S / maxMigrCost)
    p2    ceil(load of S / maxPL)
    P     one of max(p1, p2) partitions of S, which moves as a unit
    Pmc   its migration cost
    PL    its load

The weight of a vertex is its migration cost if Pmc / maxMigrCost > PL / maxPL, its load otherwise.

Improve: the heaviest pair that is apart is pinned to one node (lines 24-37):
    case 1, neither group is in a unit of several          the emptier of their nodes
    case 2, one of them is                                  the node of that one
    case 3, both are                                        the emptier of their nodes; both units go there
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from millrace.optimizers.albic.contraction import numbered
from millrace.optimizers.albic.graph import components, partition
from millrace.optimizers.albic.paper.options import AlbicOptions
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.arrays import Bools, Floats, Ints


def maintain(problem: Problem, collocated: Bools, max_pl: float, options: AlbicOptions, seed: int) -> Ints:
    """Return the unit of each group, 0..U-1, shape (K,); groups in no set are units of their own.

    Args:
        problem: The problem.
        collocated: Heavy flows within a node (colGrps), shape (E,).
        max_pl: maxPL of this attempt, points; at 0 and below every group is a unit of its own.
        options: Corrected, no part of several groups is beyond a limit.
        seed: Seed of METIS.
    """
    flows = problem.flows
    sets = components(problem.groups, flows.producer[collocated], flows.consumer[collocated])
    if max_pl <= 0:
        return np.arange(problem.groups)
    units = sets.copy()
    size = np.bincount(sets)
    for chosen in np.flatnonzero(size > 1):
        members = np.flatnonzero(sets == chosen)
        units[members] = units.max() + 1 + _split(problem, members, max_pl, options, seed)
    return numbered(units)


def _split(problem: Problem, members: Ints, max_pl: float, options: AlbicOptions, seed: int) -> Ints:
    """Return the partition of each member of a set, shape (M,)."""
    load, cost = problem.own(problem.node)[members], problem.cost[members]
    parts = _parts(load, cost, max_pl, problem.budget)
    label = _cut(problem, members, load, cost, parts, max_pl, seed)
    while options.corrected:
        too_large = _beyond(label, load, cost, max_pl, problem.budget)
        if not len(too_large):
            break
        for part in too_large:
            inside = np.flatnonzero(label == part)
            pieces = _parts(load[inside], cost[inside], max_pl, problem.budget)
            pieces_of = _cut(problem, members[inside], load[inside], cost[inside], max(2, pieces), max_pl, seed)
            if len(np.unique(pieces_of)) == 1:  # METIS sees no cut: only single groups are sure to hold
                pieces_of = np.arange(len(inside))
            label[inside] = label.max() + 1 + pieces_of
    return label


def _parts(load: Floats, cost: Floats, max_pl: float, budget: float) -> int:
    """Return max(p1, p2), at most one part per group."""
    p1 = float(cost.sum()) / budget if budget > 0 else math.inf
    p2 = float(load.sum()) / max_pl
    return min(len(load), math.ceil(max(p1, p2, 1.0)) if math.isfinite(max(p1, p2)) else len(load))


def _cut(problem: Problem, members: Ints, load: Floats, cost: Floats, parts: int, max_pl: float, seed: int) -> Ints:
    index = np.full(problem.groups, -1)
    index[members] = np.arange(len(members))
    first, second = index[problem.flows.producer], index[problem.flows.consumer]
    inside = (first >= 0) & (second >= 0)
    by_cost = float(cost.sum()) * max_pl > float(load.sum()) * problem.budget
    ends = first[inside], second[inside]
    return partition(cost if by_cost else load, ends, problem.flows.rate[inside], parts, seed=seed)


def _beyond(label: Ints, load: Floats, cost: Floats, max_pl: float, budget: float) -> Ints:
    """Return the parts of several groups that exceed a limit."""
    size = np.bincount(label)
    over = (np.bincount(label, weights=load) > max_pl) | (np.bincount(label, weights=cost) > budget)
    return np.flatnonzero((size > 1) & over)


@dataclass(frozen=True)
class PairPin:
    """A heavy pair, pinned to one node.

    Attributes:
        flow: Index of the flow.
        node: The node.
    """

    flow: int
    node: int


def improve(problem: Problem, units: Ints, apart: Bools, options: AlbicOptions, seed: int) -> PairPin | None:
    """Return the pair to collocate in this period; None if there is none.

    Args:
        problem: The problem.
        units: Unit of each group, shape (K,).
        apart: Heavy flows between nodes (toBeColGrps), shape (E,).
        options: Corrected, the pair fits the budget, and its node is not marked for removal.
        seed: Seed of the choice among pairs of the same rate.
    """
    flows = problem.flows
    loads, members = problem.loads(problem.node), np.bincount(units)
    cost = np.bincount(units, weights=problem.cost)
    chosen = np.flatnonzero(apart)
    tie_break = np.random.default_rng(seed).random(len(chosen))
    for flow in chosen[np.lexsort((tie_break, -flows.rate[chosen]))].tolist():
        pair = int(flows.producer[flow]), int(flows.consumer[flow])
        ends = int(units[pair[0]]), int(units[pair[1]])
        node = _shared_node(problem, pair, (int(members[ends[0]]), int(members[ends[1]])), loads, options)
        price = sum(float(cost[u]) for k, u in zip(pair, ends, strict=True) if problem.node[k] != node)
        if node >= 0 and not (options.corrected and price > problem.budget):
            return PairPin(flow, node)
    return None


def _shared_node(
    problem: Problem, pair: tuple[int, int], members: tuple[int, int], loads: np.ndarray, options: AlbicOptions
) -> int:
    """Return the node that a pair should share; -1 for none."""
    nodes = [int(problem.node[k]) for k in pair]
    usual = _usual(nodes, members, loads)
    if not options.corrected or not problem.removed[usual]:
        return usual
    return next((n for n in nodes if not problem.removed[n]), -1)


def _usual(nodes: list[int], members: tuple[int, int], loads: np.ndarray) -> int:
    several = [m > 1 for m in members]
    if several[0] != several[1]:
        return nodes[0] if several[0] else nodes[1]
    return nodes[0] if loads[nodes[0]] <= loads[nodes[1]] else nodes[1]
