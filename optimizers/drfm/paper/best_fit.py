"""Best fit decreasing: each item goes to the bin with the least free space that it fits in, or to a new one.

Free spaces are kept sorted in blocks, so an item costs the square root of the number of bins.

Reference: [DRFM] Section 2.1; Coffman, Garey, Johnson, "Approximation Algorithms for Bin Packing: A Survey", 1997.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from millrace.optimizers.arrays import Floats, Ints

BLOCK = 512
ROUNDING = 1e-9
"""Share of the capacity by which a sum may exceed it."""


class Gaps:
    """Bins sorted by free space, then by number.

    Args:
        free: Free space of each, shape (B,).
        bins: Number of each, shape (B,).
    """

    def __init__(self, free: Floats, bins: Ints) -> None:
        order = np.lexsort((bins, free))
        pairs = list(zip(free[order].tolist(), bins[order].tolist(), strict=True))
        self._blocks = [pairs[i : i + BLOCK] for i in range(0, len(pairs), BLOCK)]
        self._tops = [block[-1] for block in self._blocks]

    def take(self, size: float) -> tuple[float, int] | None:
        """Remove the bin with the least free space that is enough, and return both; None if there is none."""
        at = bisect_left(self._tops, (size, -1))
        if at == len(self._blocks):
            return None
        block = self._blocks[at]
        best = block.pop(bisect_left(block, (size, -1)))
        if block:
            self._tops[at] = block[-1]
        else:
            del self._blocks[at], self._tops[at]
        return best

    def put(self, free: float, number: int) -> None:
        """Insert a bin."""
        if not self._blocks:
            self._blocks, self._tops = [[(free, number)]], [(free, number)]
            return
        at = min(bisect_left(self._tops, (free, number)), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, (free, number))
        if len(block) > 2 * BLOCK:
            self._blocks[at : at + 1] = [block[:BLOCK], block[BLOCK:]]
            self._tops[at : at + 1] = [block[BLOCK - 1], block[-1]]
        else:
            self._tops[at] = block[-1]


def pack(sizes: Floats, free: Floats, bins: Ints, capacity: float, first_new: int) -> Ints:
    """Return the bin of each item, shape (I,).

    Args:
        sizes: Sizes of the items, shape (I,), >= 0; equal ones are taken in their order.
        free: Free space of the existing bins, shape (B,).
        bins: Their numbers, shape (B,).
        capacity: Capacity of a new bin; an item larger than that gets its own.
        first_new: Number of the first new bin.
    """
    slack = ROUNDING * capacity
    gaps, target = Gaps(free, bins), np.empty(len(sizes), dtype=np.intp)
    for item in np.argsort(-sizes, kind="stable").tolist():
        size = float(sizes[item])
        best = gaps.take(size - slack)
        if best is None:
            best = (capacity, first_new)
            first_new += 1
        target[item] = best[1]
        gaps.put(best[0] - size, best[1])
    return target
