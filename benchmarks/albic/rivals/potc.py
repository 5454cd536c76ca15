"""The power of both choices: every key may go to either of two nodes, and each sender picks the less loaded one.

Nothing is ever moved, but a key's state is split over two nodes and has to be merged before results are final. That
merge always costs something and cannot be balanced.

Here the unit is a key group:
    - a group's two choices are its present node and one kept node drawn by the seed; on a removed node, two kept ones
    - its load arrives in :data:`PARTS` equal parts, the groups in a new random order each time, and each part goes to
      the choice that is less loaded at that time (senders see all loads: the best case for PoTC)
    - merging a group costs ``merge_ratio`` of its load if both its choices got a part, on its first choice

[ALBIC] says neither where states are merged nor what that costs, only that it differs from node to node.

Reference:
    [PoTC] Nasir, Morales, Garcia-Soriano, Kourtellis, Serafini, "The Power of Both Choices: Practical Load Balancing
    for Distributed Stream Processing Engines", 2015; [ALBIC] Sections 2.2 and 5.2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.model.errors import MillraceError
from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.arrays import Floats, Ints

PARTS = 20
"""Parts in which a group's load arrives: splits are in steps of 5 %."""
MERGE_RATIO = 0.1
"""Cost of merging a split group, as a share of its load, if nothing is measured."""


@dataclass(frozen=True)
class Routing:
    """How two-choice routing spreads groups.

    Attributes:
        choices: Both nodes of each group, shape (K, 2).
        share: Part of each group's load on its first choice, 0..1, shape (K,).
        loads: Load of each node, merging included, points, shape (N,).
        merging: The part of it caused by merging, points, shape (N,).
        distance: Load distance over kept nodes, points.
    """

    choices: Ints
    share: Floats
    loads: Floats
    merging: Floats
    distance: float


def route(problem: Problem, *, merge_ratio: float = MERGE_RATIO, seed: int = 0) -> Routing:
    """Return where the groups' load goes.

    Args:
        problem: The problem; loads are those under the present placement, the budget does not matter.
        merge_ratio: Cost of merging a split group, as a share of its load, >= 0.
        seed: Seed of the second choices and of the order of arrival.

    Raises:
        MillraceError: If the ratio is negative.
    """
    if not merge_ratio >= 0:
        raise MillraceError("merge_ratio", merge_ratio, ">= 0", "Give the cost of merging, or 0.")
    rng = np.random.default_rng(seed)
    load, choices = problem.own(problem.node), _choices(problem, rng)
    raw, parts = np.zeros(problem.nodes), np.zeros(problem.groups, dtype=np.intp)
    first, second = choices.T.tolist()
    part, capacity, filled = (load / PARTS).tolist(), problem.capacity.tolist(), raw.tolist()
    for _ in range(PARTS):
        for k in rng.permutation(problem.groups).tolist():
            a, b = first[k], second[k]
            here = filled[a] / capacity[a] <= filled[b] / capacity[b]
            filled[a if here else b] += part[k]
            parts[k] += here
    split = (parts > 0) & (parts < PARTS)
    merging = np.bincount(choices[:, 0], weights=np.where(split, load * merge_ratio, 0), minlength=problem.nodes)
    loads = (np.array(filled) + merging) / problem.capacity
    kept = problem.kept
    mean = loads[kept] @ problem.capacity[kept] / problem.capacity[kept].sum()
    distance = float(np.abs(loads[kept] - mean).max())
    return Routing(choices, parts / PARTS, loads, merging / problem.capacity, distance)


def _choices(problem: Problem, rng: np.random.Generator) -> Ints:
    kept = problem.kept
    at_home = (problem.node >= 0) & ~problem.removed[problem.node]
    first = np.where(at_home, problem.node, rng.choice(kept, problem.groups))
    if len(kept) == 1:
        return np.stack([first, first], axis=1)
    # a different one: an offset in the list of kept nodes
    further = rng.integers(1, len(kept), problem.groups)
    second = kept[(np.searchsorted(kept, first) + further) % len(kept)]
    return np.stack([first, second], axis=1)
