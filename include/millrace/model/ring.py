"""Consistent hashing: if the number of workers changes, few positions of the ring change owner.

Reference: Karger et al., "Consistent Hashing and Random Trees", STOC 1997.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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


def owners(positions: Positions, workers: int) -> Ints:
    """Return the worker of each position: the worker with the next point on the ring.

    Args:
        positions: Positions on the ring, shape (P,).
        workers: Number of workers, >= 1.
    """
    worker = np.repeat(np.arange(workers, dtype=np.uint64), VIRTUAL_NODES)
    copy = np.tile(np.arange(VIRTUAL_NODES, dtype=np.uint64), workers)
    points = mixed(mixed(worker) ^ (copy << np.uint64(1)))
    order = np.argsort(points, kind="stable")
    point = np.searchsorted(points[order], positions) % len(order)
    return np.asarray(worker[order][point], dtype=np.int64)


def of_groups(key_groups: int, workers: int) -> Ints:
    """Return the worker of each key group, shape (key_groups,)."""
    return owners(mixed(np.arange(key_groups, dtype=np.uint64) ^ np.uint64(0x5DEECE66D)), workers)
