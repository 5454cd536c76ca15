"""Step 3 of ALBIC, improve collocation: the heaviest pair that is apart is asked to share a node.

The node ([ALBIC], Algorithm 2, lines 24-37):
    case 1, neither group is in a unit of several          the emptier of their nodes
    case 2, one of them is                                  that one's node
    case 3, both are                                        the emptier of their nodes; both units go there
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.albic.paper.options import Options
from optimizers.albic.problem import Bools, Ints, Problem


@dataclass(frozen=True)
class Asked:
    """A pair that is asked to share a node.

    Attributes:
        flow: Index of the flow.
        node: The node.
    """

    flow: int
    node: int


def improve(problem: Problem, units: Ints, apart: Bools, options: Options, seed: int) -> tuple[Asked, ...]:
    """Return the pairs to collocate in this period.

    Args:
        problem: The problem.
        units: Unit of each group, shape (K,).
        apart: Heavy flows between nodes (toBeColGrps), shape (E,).
        options: ``pairs``, ``fits_budget``, ``keeps_off_removed``.
        seed: Of the choice among pairs of the same rate.
    """
    flows, left = problem.flows, problem.budget
    found: list[Asked] = []
    taken: set[int] = set()
    loads, members = problem.loads(problem.node), np.bincount(units)
    cost = np.bincount(units, weights=problem.cost)
    chosen = np.flatnonzero(apart)
    luck = np.random.default_rng(seed).random(len(chosen))
    for flow in chosen[np.lexsort((luck, -flows.rate[chosen]))].tolist():
        pair = int(flows.producer[flow]), int(flows.consumer[flow])
        ends = int(units[pair[0]]), int(units[pair[1]])
        node = _node(problem, pair, (int(members[ends[0]]), int(members[ends[1]])), loads, options)
        price = sum(float(cost[u]) for k, u in zip(pair, ends, strict=True) if problem.node[k] != node)
        if node < 0 or taken & set(ends) or (options.fits_budget and price > left):
            continue
        found.append(Asked(flow, node))
        taken |= set(ends)
        left -= price
        if len(found) == options.pairs:
            break
    return tuple(found)


def _node(
    problem: Problem, pair: tuple[int, int], members: tuple[int, int], loads: np.ndarray, options: Options
) -> int:
    """Return the node that a pair shall share; -1 for none."""
    nodes = [int(problem.node[k]) for k in pair]
    usual = _usual(nodes, members, loads)
    if not options.keeps_off_removed or not problem.removed[usual]:
        return usual
    return next((n for n in nodes if not problem.removed[n]), -1)


def _usual(nodes: list[int], members: tuple[int, int], loads: np.ndarray) -> int:
    several = [m > 1 for m in members]
    if several[0] != several[1]:
        return nodes[0] if several[0] else nodes[1]
    return nodes[0] if loads[nodes[0]] <= loads[nodes[1]] else nodes[1]
