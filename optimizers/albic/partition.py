"""Balanced graph partitioning by METIS, in the units of a problem.

METIS wants whole numbers above 0: weights are scaled so that rounding stays far below the imbalance that is allowed.
The same graph, number of parts and seed give the same parts.

Reference:
    Karypis, Kumar, "Multilevel algorithms for multi-constraint graph partitioning", 1998 ([20] of the ALBIC paper).
"""

from __future__ import annotations

import numpy as np

from optimizers.albic.problem import Floats, Ints

VERTEX_SCALE = 1_000_000
"""Whole number that all vertex weights together become, a share of a part in 10^4 even with 100 parts."""
EDGE_SCALE = 10_000
"""Whole number that the heaviest edge becomes; lighter ones lose less than 1/10^4 of it."""
SEEDS = 2**31 - 1
"""METIS takes seeds of 31 bits."""
IMBALANCE = 30
"""Allowed excess of a part over its share, in thousandths: METIS' own default for k-way."""


def partition(
    weight: Floats,
    ends: tuple[Ints, Ints],
    worth: Floats,
    parts: int,
    *,
    shares: Floats | None = None,
    seed: int = 0,
    imbalance: int = IMBALANCE,
) -> Ints:
    """Return the part of each vertex, 0..parts-1, shape (V,): parts of like weight, little worth between them.

    Parts may stay empty where vertices are few or heavy.

    Args:
        weight: Of each vertex, shape (V,), >= 0.
        ends: First and second vertex of each edge, shape (E,) each; doubles add up, loops count for nothing.
        worth: Of keeping each edge within a part, shape (E,), >= 0.
        parts: How many, >= 1.
        shares: Share of all weight for each part, shape (parts,), sum 1; even without.
        seed: Of METIS.
        imbalance: Allowed excess over a share, in thousandths, >= 1.
    """
    vertices = len(weight)
    if parts <= 1 or vertices == 0:
        return np.zeros(vertices, dtype=np.intp)
    if vertices <= parts:
        return np.arange(vertices, dtype=np.intp)
    import pymetis

    starts, adjacent, edge_weights = _csr(vertices, ends, worth)
    total = float(weight.sum()) or 1.0
    options = pymetis.Options(seed=int(seed) % SEEDS, ufactor=int(imbalance))
    _, found = pymetis.part_graph(
        int(parts),
        adjacency=pymetis.CSRAdjacency(starts.tolist(), adjacent.tolist()),
        vweights=np.maximum(1, np.rint(weight / total * VERTEX_SCALE)).astype(int).tolist(),
        eweights=edge_weights.tolist(),
        tpwgts=None if shares is None else shares.tolist(),
        options=options,
        recursive=False,
    )
    return np.asarray(found, dtype=np.intp)


def _csr(vertices: int, ends: tuple[Ints, Ints], worth: Floats) -> tuple[Ints, Ints, Ints]:
    """Return row starts, columns and whole weights of the symmetric graph."""
    from scipy.sparse import coo_array

    first, second = ends
    real = (first != second) & (worth > 0)
    first, second, worth = first[real], second[real], worth[real]
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    graph = coo_array((np.tile(worth, 2), (rows, columns)), shape=(vertices, vertices)).tocsr()
    graph.sum_duplicates()
    top = float(graph.data.max()) if graph.nnz else 1.0
    weights = np.maximum(1, np.rint(graph.data / top * EDGE_SCALE))
    return graph.indptr.astype(np.intp), graph.indices.astype(np.intp), weights.astype(np.intp)
