"""Draining nodes whose streams all fit elsewhere.

Reference: ours. [DRFM] adds nodes (Algorithm 1, line 12) and never says when one goes; its Figure 11 cannot come out
without. Deviation: the emptiest nodes below a share of the capacity are tried, and only whole nodes are emptied.
"""

from __future__ import annotations

import numpy as np

from optimizers.drfm.problem import Bools, Floats, Ints, Problem
from optimizers.drfm.strategies.bfd import pack
from optimizers.drfm.strategies.options import Options

BINS = 256
"""Emptiest nodes that a node is drained to: sorting all of a large cluster for each would take longer than the rest."""


def drain(problem: Problem, node: Ints, sizes: Floats, over: Bools, options: Options) -> Ints:
    """Return a placement with fewer nodes, where it can be had.

    Args:
        problem: The period's problem.
        node: The placement so far, shape (S,).
        sizes: Of the streams, shape (S,).
        over: Nodes that were overloaded, shape (N,): neither drained nor filled.
        options: Knobs.
    """
    count = max(problem.nodes, int(node.max()) + 1 if len(node) else 0)
    sums = np.bincount(node, weights=sizes, minlength=count)
    used = np.bincount(node, minlength=count) > 0
    open_ = used & ~np.r_[over, np.zeros(count - len(over), dtype=bool)]
    light = np.flatnonzero(open_ & (sums < options.drains * problem.capacity))
    node = node.copy()
    for n in light[np.argsort(sums[light], kind="stable")][: options.tries].tolist():
        others = open_.copy()
        others[n] = False
        level = options.accepts * options.full * problem.capacity
        bins = np.flatnonzero(others & (sums < level))
        if len(bins) > BINS:
            bins = np.sort(bins[np.argpartition(sums[bins], BINS)[:BINS]])
        items = np.flatnonzero(node == n)
        free = np.maximum(level - sums[bins], 0.0)
        if sizes[items].sum() > free.sum():
            continue
        target = pack(sizes[items], free, bins, options.full * problem.capacity, count)
        if (target < count).all():
            node[items] = target
            np.add.at(sums, target, sizes[items])
            sums[n], open_[n] = 0.0, False
    return node
