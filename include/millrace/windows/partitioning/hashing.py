"""Consistent hashing, and its frequency-aware form as published.

If the number of workers changes, few positions of the ring change owner (Karger et al., "Consistent Hashing and Random
Trees", STOC 1997). ``paper_hash`` splits frequent keys on it:

p_i: parts of key i = ceil(f_i / f_(K+1)), f_i: rows of the i-th most frequent key, K: how many keys are split.
Part j of key i, i#j, has its own position on the ring.

Reference: Balkesen, Tatbul, Ozsu, DEBS 2013, Section 4.1; the ratio is ours, the paper says "proportional to f_i".
Deviation: a row's part is drawn from the row itself instead of round robin, so a repeated task sends each row to the
same worker as before.
"""

from __future__ import annotations

from collections import Counter
from math import ceil

import numpy as np
import numpy.typing as npt

from millrace.windows.partitioning.sketch import PartitionMap, Sketch

Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.uint64]

VIRTUAL_NODES = 200
"""Points per worker on the ring. The loads of equal keys then deviate by about 1 / sqrt(200)."""


def mixed(values: Positions) -> Positions:
    """Return well-mixed positions for numbers (SplitMix64's finaliser), same shape."""
    x = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


def owners(positions: Positions, workers: int, virtual_nodes: int = VIRTUAL_NODES) -> Ints:
    """Return the worker of each position: the worker with the next point on the ring.

    Args:
        positions: Positions on the ring, shape (P,).
        workers: Number of workers, >= 1.
        virtual_nodes: Points per worker, >= 1.
    """
    worker = np.repeat(np.arange(workers, dtype=np.uint64), virtual_nodes)
    copy = np.tile(np.arange(virtual_nodes, dtype=np.uint64), workers)
    points = mixed(mixed(worker) ^ (copy << np.uint64(1)))
    order = np.argsort(points, kind="stable")
    point = np.searchsorted(points[order], positions) % len(order)
    return np.asarray(worker[order][point], dtype=np.int64)


def of_groups(key_groups: int, workers: int) -> Ints:
    """Return the worker of each key group, shape (key_groups,)."""
    return owners(mixed(np.arange(key_groups, dtype=np.uint64) ^ np.uint64(0x5DEECE66D)), workers)


def paper_hash(sketch: Sketch, workers: int, hot_keys: int) -> PartitionMap:
    """Return the map of the published method.

    Args:
        sketch: How often keys occur.
        workers: Number of workers, >= 1.
        hot_keys: Maximum number of keys to split, >= 0.
    """
    top = sketch.hottest(hot_keys + 1)
    groups = of_groups(len(sketch.groups), workers)
    unit = sketch.frequent[top[-1]][0] if top else 0.0
    hot = {}
    for key in top[:hot_keys]:
        parts = ceil(sketch.frequent[key][0] / unit)
        if parts > 1:
            # using a key's rank would move its parts when frequencies change; its group stays the same
            names = np.arange(parts, dtype=np.uint64) + (np.uint64(sketch.frequent[key][1]) << np.uint64(32))
            of_worker = Counter(owners(mixed(names), workers).tolist())
            hot[key] = {worker: count / parts for worker, count in sorted(of_worker.items())}
    return PartitionMap(workers, groups, hot)
