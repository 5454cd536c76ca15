"""Which worker gets the rows of a key: key groups as a whole, hot keys in shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from include.windows.partitioning.sketch import Floats, Ints, Key, Sketch

Shares = Mapping[int, float]
"""What share of a key's rows goes to each worker; positive, adding up to 1."""


@dataclass(frozen=True)
class PartitionMap:
    """Where rows go.

    Attributes:
        workers: Number of workers, >= 1.
        groups: Worker of each key group, shape (G,).
        hot: Shares of the keys that do not follow their group.
    """

    workers: int
    groups: Ints
    hot: Mapping[Key, Shares]

    @property
    def pairs(self) -> int:
        """How many pairs of a hot key and a worker there are: partial results that a merge gets."""
        return sum(map(len, self.hot.values()))

    def shares(self, key: Key, group: int) -> Shares:
        """Return the shares of any key."""
        return self.hot.get(key) or {int(self.groups[group]): 1.0}

    def load(self, of: Sketch) -> Floats:
        """Return the rows that each worker gets, shape (workers,)."""
        hot = [key for key in self.hot if key in of.frequent]
        found = np.bincount(self.groups, of.cold(hot), self.workers)
        for key in hot:
            for worker, share in self.hot[key].items():
                found[worker] += share * of.frequent[key][0]
        return np.asarray(found, dtype=float)

    def moved(self, before: PartitionMap, of: Sketch) -> float:
        """Return the share of the rows that go to another worker than they did before."""
        hot = [key for key in of.frequent if key in self.hot or key in before.hot]
        rows = float(of.cold(hot)[self.groups != before.groups].sum())
        for key in hot:
            count, group = of.frequent[key]
            now, then = self.shares(key, group), before.shares(key, group)
            rows += count * sum(max(0.0, share - then.get(worker, 0.0)) for worker, share in now.items())
        return rows / of.total if of.total else 0.0
