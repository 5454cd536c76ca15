"""Numbering the nodes of a plan made from nothing, so that most of its streams are where they were."""

from __future__ import annotations

import numpy as np

from optimizers.drfm.problem import Ints


def matched(bins: Ints, before: Ints, nodes: int) -> Ints:
    """Return the node of each stream, shape (S,).

    Bins and nodes that share the most streams are matched first. That is not always the most that can stay, but close,
    and fast for any number of nodes.

    Args:
        bins: Bin of each stream, 0..B-1, shape (S,).
        before: Its node, shape (S,), -1 without one.
        nodes: N; bins that get none of them are numbered from there on.
    """
    found = np.full(int(bins.max()) + 1 if len(bins) else 0, -1, dtype=np.intp)
    placed = before >= 0
    pairs, count = np.unique(np.stack([bins[placed], before[placed]]), axis=1, return_counts=True)
    taken = np.zeros(nodes, dtype=bool)
    for at in np.argsort(-count, kind="stable"):
        b, n = pairs[:, at]
        if found[b] < 0 and not taken[n]:
            found[b], taken[n] = n, True
    rest = np.flatnonzero(found < 0)
    found[rest] = np.r_[np.flatnonzero(~taken), nodes + np.arange(len(rest))][: len(rest)]
    return found[bins]
