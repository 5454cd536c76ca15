"""A plan's nodes as the ingest tables that there are."""

from __future__ import annotations

import numpy as np

from optimizers.drfm.numbering import matched
from optimizers.drfm.problem import Floats, Ints


def onto_tables(node: Ints, before: Ints, tables: int, rate: Floats) -> Ints:
    """Return the table of each stream, shape (S,): as few streams move as can be.

    Args:
        node: Node of each stream in a plan that may use any number of nodes, shape (S,), >= 0.
        before: Table that each entered at, shape (S,); -1 without one.
        tables: Number of tables, >= 1. What a plan has beyond them is shared out, fastest streams first, to where the
            least comes.
        rate: Expected rate of each stream, shape (S,), >= 0.
    """
    before = np.where(before < tables, before, -1)  # a spec may name fewer tables than it did
    found = matched(np.unique(node, return_inverse=True)[1], before, tables)
    load = np.bincount(found, weights=rate, minlength=tables)[:tables]
    beyond = np.flatnonzero(found >= tables)
    for stream in beyond[np.argsort(-rate[beyond], kind="stable")]:
        found[stream] = int(load.argmin())
        load[found[stream]] += rate[stream]
    return found
