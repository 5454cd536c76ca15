"""The graph of key groups: pairs worth collocating, groups connected by them, and balanced partitions by METIS.

Symbols ([ALBIC], Section 4.3.2, Algorithm 2, step 1):
    out(g_i, g_j)   rate from g_i to g_j
    avg(g_i)        out(g_i) / number of key groups of all operators downstream of g_i's operator
    sF              score factor; a pair is heavy if out(g_i, g_j) > avg(g_i) sF

The divisor counts every downstream key group, including those that g_i sends nothing to. With the mean over the edges
that carry something, a one-to-one pair would be exactly average and never heavy, although it pays most.

METIS needs whole numbers above 0: weights are scaled to keep rounding far below the allowed imbalance. The same graph,
number of parts and seed give the same parts.

Reference:
    Karypis, Kumar, "Multilevel algorithms for multi-constraint graph partitioning", 1998 ([20] of the ALBIC paper).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from millrace.optimizers.albic.problem import Problem
from millrace.optimizers.arrays import Bools, Floats, Ints

SCORE_FACTOR = 1.5
"""sF of the paper."""
VERTEX_SCALE = 1_000_000
"""Sum of all vertex weights as a whole number: rounding is 1 / 10^4 of a part even with 100 parts."""
EDGE_SCALE = 10_000
"""Weight of the heaviest edge as a whole number; lighter ones lose less than 1/10^4 of it."""
SEEDS = 2**31 - 1
"""METIS takes seeds of 31 bits."""
IMBALANCE = 30
"""Allowed excess of a part over its share, in thousandths: METIS' own default for k-way."""


def heavy(problem: Problem) -> Bools:
    """Return which flows are heavy, shape (E,).

    Args:
        problem: Its flows, and the operator of each group; without operators all groups count as downstream.
    """
    flows = problem.flows
    out = np.bincount(flows.producer, weights=flows.rate, minlength=problem.groups)
    average = out / np.maximum(downstream(problem), 1)
    return np.asarray((flows.rate > average[flows.producer] * SCORE_FACTOR) & (flows.producer != flows.consumer))


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
    """Return a label for each group, shape (K,), the same for groups connected by a chain of pairs.

    Args:
        groups: K.
        first: One end of each pair, shape (P,).
        second: The other end, shape (P,).
    """
    graph = coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(groups, groups))
    _, labels = connected_components(graph.tocsr(), directed=False)
    return np.asarray(labels, dtype=np.intp)


def partition(
    weight: Floats,
    ends: tuple[Ints, Ints],
    worth: Floats,
    parts: int,
    *,
    shares: Floats | None = None,
    seed: int = 0,
) -> Ints:
    """Return the part of each vertex, 0..parts-1, shape (V,): parts of similar weight, little worth between them.

    Parts may be empty if vertices are few or heavy.

    Args:
        weight: Weight of each vertex, shape (V,), >= 0.
        ends: First and second vertex of each edge, shape (E,) each; duplicates add up, loops are ignored.
        worth: Worth of keeping each edge within a part, shape (E,), >= 0.
        parts: Number of parts, >= 1.
        shares: Share of all weight for each part, shape (parts,), sum 1; equal shares if None.
        seed: Seed of METIS.
    """
    vertices = len(weight)
    if parts <= 1 or vertices == 0:
        return np.zeros(vertices, dtype=np.intp)
    if vertices <= parts:
        return np.arange(vertices, dtype=np.intp)
    import pymetis

    starts, adjacent, edge_weights = _csr(vertices, ends, worth)
    total = float(weight.sum()) or 1.0
    options = pymetis.Options(seed=int(seed) % SEEDS, ufactor=IMBALANCE)
    _, parts_of = pymetis.part_graph(
        int(parts),
        adjacency=pymetis.CSRAdjacency(starts.tolist(), adjacent.tolist()),
        vweights=np.maximum(1, np.rint(weight / total * VERTEX_SCALE)).astype(int).tolist(),
        eweights=edge_weights.tolist(),
        tpwgts=None if shares is None else shares.tolist(),
        options=options,
        recursive=False,
    )
    return np.asarray(parts_of, dtype=np.intp)


def _csr(vertices: int, ends: tuple[Ints, Ints], worth: Floats) -> tuple[Ints, Ints, Ints]:
    """Return row starts, columns and whole weights of the symmetric graph."""
    first, second = ends
    real = (first != second) & (worth > 0)
    first, second, worth = first[real], second[real], worth[real]
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    graph = coo_array((np.tile(worth, 2), (rows, columns)), shape=(vertices, vertices)).tocsr()
    graph.sum_duplicates()
    top = float(graph.data.max()) if graph.nnz else 1.0
    weights = np.maximum(1, np.rint(graph.data / top * EDGE_SCALE))
    return graph.indptr.astype(np.intp), graph.indices.astype(np.intp), weights.astype(np.intp)
