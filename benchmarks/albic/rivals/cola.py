"""COLA: split the graph of all groups until its parts can be laid out evenly.

All groups start as one part. As long as the parts cannot be laid on the nodes within the requested load distance, the
heaviest part is split by balanced graph partitioning. Parts go to nodes the largest first, each to the emptiest node.

COLA ignores the present placement and the budget: at run time it moves nearly everything. [ALBIC] (Section 5.4)
recommends it for a first placement. On Spark, groups have a node after the first batch: the agent spreads them evenly.

Deviations: the first split is into as many parts as there are nodes, because fewer can never be even. Loads are those
left after pairs within a part save what they save together; COLA takes loads as given.

Reference:
    Khandekar et al., "COLA: Optimizing stream processing applications via graph partitioning", 2009; [ALBIC], 2.1.
"""

from __future__ import annotations

import numpy as np

from millrace.optimizers.albic.contraction import total
from millrace.optimizers.albic.graph import partition
from millrace.optimizers.albic.problem import Plan, Problem
from millrace.optimizers.arrays import Floats, Ints

MAX_DISTANCE = 10.0
"""Load distance below which COLA stops splitting, points: maxLD of the paper that compares with COLA."""
SPLITS = 4.0
"""Parts per node at which splitting ends: finer parts collocate next to nothing."""


def place(problem: Problem, *, seed: int = 0, max_distance: float = MAX_DISTANCE) -> Plan:
    """Return a placement of all groups on the kept nodes, regardless of the present placement and of the cost.

    Args:
        problem: Its budget, present placement and caps are ignored.
        seed: Seed of METIS.
        max_distance: Load distance that is good enough, points, > 0.
    """
    kept = problem.kept
    parts = partition(problem.load, _ends(problem), problem.flows.rate, len(kept), shares=_shares(problem), seed=seed)
    best, least = _lay_out(problem, parts), np.inf
    for _ in range(int(SPLITS * len(kept))):
        node = _lay_out(problem, parts)
        distance = problem.distance(node)
        if distance < least:
            best, least = node, distance
        heaviest = int(np.argmax(_weights(problem, parts)))
        members = np.flatnonzero(parts == heaviest)
        if distance <= max_distance or len(members) < 2:
            break
        halves = _halve(problem, members, seed)
        parts[members[halves > 0]] = parts.max() + 1
    return Plan(best, 0.0, "cola")


def _ends(problem: Problem) -> tuple[Ints, Ints]:
    return problem.flows.producer, problem.flows.consumer


def _shares(problem: Problem) -> Floats | None:
    capacity = problem.capacity[problem.kept]
    return None if np.ptp(capacity) == 0 else capacity / capacity.sum()


def _weights(problem: Problem, parts: Ints) -> Floats:
    """Return the load of each part, points."""
    return total(parts, problem.own(parts), int(parts.max(initial=-1)) + 1)


def _lay_out(problem: Problem, parts: Ints) -> Ints:
    """Return the node of each group, the heaviest part first, each on the node that it fills least."""
    kept, capacity = problem.kept, problem.capacity[problem.kept]
    weight = _weights(problem, parts)
    place, filled = np.zeros(len(weight), dtype=np.intp), np.zeros(len(kept))
    for part in np.argsort(-weight, kind="stable"):
        place[part] = int(np.argmin((filled + weight[part]) / capacity))
        filled[place[part]] += weight[part]
    return kept[place[parts]]


def _halve(problem: Problem, members: Ints, seed: int) -> Ints:
    """Return 0 or 1 for each member of a part, shape (M,)."""
    index = np.full(problem.groups, -1)
    index[members] = np.arange(len(members))
    first, second = (index[end] for end in _ends(problem))
    inside = (first >= 0) & (second >= 0)
    halves = partition(problem.load[members], (first[inside], second[inside]), problem.flows.rate[inside], 2, seed=seed)
    return halves if halves.any() and not halves.all() else np.arange(len(members)) % 2
