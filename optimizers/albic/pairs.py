"""Which pairs of key groups are worth collocating, and which groups hang together by such pairs.

Symbols ([ALBIC], Section 4.3.2, Algorithm 2, step 1):
    out(g_i, g_j)   rate from g_i to g_j
    avg(g_i)        out(g_i) / number of key groups of all operators downstream of g_i's operator
    sF              score factor; a pair is heavy if out(g_i, g_j) > avg(g_i) sF

The divisor counts every downstream key group, also those that g_i sends nothing to. With the mean over the edges that
carry something, a one-to-one pair is exactly average and never heavy, though it is the very pattern that pays most.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from optimizers.albic.problem import Bools, Floats, Ints, Problem

SCORE_FACTOR = 1.5
"""sF of the paper."""


def heavy(problem: Problem, factor: float = SCORE_FACTOR, *, zero_edges: bool = True) -> Bools:
    """Say which flows are heavy, shape (E,).

    Args:
        problem: Its flows, and the operator of each group; without operators all groups count as downstream.
        factor: sF, > 0.
        zero_edges: Divide by all downstream groups; else by those that something is sent to.
    """
    flows = problem.flows
    out = np.bincount(flows.producer, weights=flows.rate, minlength=problem.groups)
    if zero_edges:
        reached = downstream(problem)
    else:
        reached = np.bincount(flows.producer[flows.rate > 0], minlength=problem.groups).astype(float)
    average = out / np.maximum(reached, 1)
    found: Bools = (flows.rate > average[flows.producer] * factor) & (flows.producer != flows.consumer)
    return found


def downstream(problem: Problem) -> Floats:
    """Return how many groups the operators downstream of each group's operator have together, shape (K,)."""
    if not len(problem.operator):
        return np.full(problem.groups, float(problem.groups))
    names, operator = np.unique(problem.operator, return_inverse=True)
    size = np.bincount(operator, minlength=len(names))
    flows = problem.flows
    sends = flows.rate > 0
    edges = np.unique(operator[flows.producer[sends]] * len(names) + operator[flows.consumer[sends]])
    reached = np.bincount(edges // len(names), weights=size[edges % len(names)], minlength=len(names))
    return np.asarray(reached[operator], dtype=np.float64)


def components(groups: int, first: Ints, second: Ints) -> Ints:
    """Return a label for each group, shape (K,), the same for groups that a chain of pairs joins.

    Args:
        groups: K.
        first: One end of each pair, shape (P,).
        second: The other end, shape (P,).
    """
    graph = coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(groups, groups))
    _, labels = connected_components(graph.tocsr(), directed=False)
    return np.asarray(labels, dtype=np.intp)
