"""How frequent keys are, and which worker gets their rows.

A sketch counts the most frequent keys individually, and the others by key group: a hash slice of the keys. Sketches of
parts of a stream can be added. A map assigns whole key groups to workers, and splits hot keys into shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from millrace.model.errors import MillraceError
from millrace.model.key_map import KEY_GROUPS, KeyMap
from millrace.model.ring import of_groups

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Key = tuple[Any, ...]

CAPACITY = 1_000
LEAST_SHARE, LEAST_ROWS = 0.01, 20
"""From this share of a worker's rows, and this many sampled rows, a key is placed by itself. Counts of rarer keys are
mostly chance, and the highest of them are those that chance favoured."""
DIGITS = 6
"""Digits of a share in a map in short."""


@dataclass(frozen=True)
class Sketch:
    """Frequencies of keys.

    Attributes:
        groups: Rows of each key group, including those of frequent keys, shape (G,), >= 0.
        frequent: Rows and key group of each of the most frequent keys. A key has a value per key column.
        capacity: Maximum number of frequent keys, >= 1.
    """

    groups: Floats
    frequent: Mapping[Key, tuple[float, int]]
    capacity: int = CAPACITY

    @property
    def total(self) -> float:
        """Number of all rows."""
        return float(self.groups.sum())

    def hottest(self, count: int) -> list[Key]:
        """Return the most frequent keys in descending order; ties are sorted by their texts."""
        return sorted(self.frequent, key=lambda k: (-self.frequent[k][0], repr(k)))[:count]

    def cold(self, hot: Sequence[Key]) -> Floats:
        """Return the rows of each key group without the given keys, shape (G,)."""
        rest = self.groups.copy()
        for key in hot:
            rows, group = self.frequent[key]
            rest[group] -= rows
        return np.maximum(rest, 0)

    def merge(self, other: Sketch) -> Sketch:
        """Return the sketch of the rows of both.

        A key that is frequent in only one sketch counts with that sketch's rows. The other sketch's rows of the key
        are in its key group, so no row is lost.

        Raises:
            MillraceError: If their numbers of key groups differ.
        """
        if len(self.groups) != len(other.groups):
            counts = f"{len(self.groups)} and {len(other.groups)}"
            raise MillraceError("key_groups", counts, "the same number", "Make both sketches with the same key_groups.")
        both = dict(self.frequent)
        for key, (rows, group) in other.frequent.items():
            both[key] = (rows + (both[key][0] if key in both else 0), group)
        return _trimmed(self.groups + other.groups, both, max(self.capacity, other.capacity))

    def scaled(self, factor: float) -> Sketch:
        """Return the sketch of ``factor`` times the rows, for example to reduce the weight of an older one."""
        frequent = {key: (rows * factor, group) for key, (rows, group) in self.frequent.items()}
        return Sketch(self.groups * factor, frequent, self.capacity)


Shares = Mapping[int, float]
"""Share of a key's rows by worker; positive, adding up to 1."""


@dataclass(frozen=True)
class PartitionMap:
    """Assignment of rows to workers.

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
        """Number of pairs of a hot key and a worker: the partial results to merge."""
        return sum(map(len, self.hot.values()))

    def shares(self, key: Key, group: int) -> Shares:
        """Return the shares of any key."""
        return self.hot.get(key) or {int(self.groups[group]): 1.0}

    def load(self, of: Sketch) -> Floats:
        """Return the rows that each worker gets, shape (workers,)."""
        hot = [key for key in self.hot if key in of.frequent]
        rows = np.bincount(self.groups, of.cold(hot), self.workers)
        for key in hot:
            for worker, share in self.hot[key].items():
                rows[worker] += share * of.frequent[key][0]
        return np.asarray(rows, dtype=float)

    def moved(self, before: PartitionMap, of: Sketch) -> float:
        """Return the share of the rows that go to a different worker than before."""
        hot = [key for key in of.frequent if key in self.hot or key in before.hot]
        rows = float(of.cold(hot)[self.groups != before.groups].sum())
        for key in hot:
            count, group = of.frequent[key]
            now, then = self.shares(key, group), before.shares(key, group)
            rows += count * sum(max(0.0, share - then.get(worker, 0.0)) for worker, share in now.items())
        return rows / of.total if of.total else 0.0


def skew(of: PartitionMap, rows: Sketch) -> float:
    """Return the rows of the worker with the most over the mean, >= 1; 1 without rows."""
    load = of.load(rows)
    return float(load.max() / load.mean()) if load.any() else 1.0


def hashed_sketch(rows: float, hot: Mapping[int, float], key_groups: int = KEY_GROUPS) -> Sketch:
    """Return the sketch of rows whose keys are known by their hashes; a key's group is its hash modulo the groups.

    Keys that were not counted are taken to be equally frequent in all groups. Each of them is less frequent than any
    counted one, so the groups differ little.

    Args:
        rows: Number of all rows, >= 0.
        hot: Rows of the most frequent keys by the hash of the key, > 0.
        key_groups: Number of key groups, >= 1.
    """
    others = max(0.0, rows - sum(hot.values()))
    groups = np.full(key_groups, others / key_groups)
    frequent: dict[Key, tuple[float, int]] = {}
    for key, count in hot.items():
        frequent[(key,)] = (count, key % key_groups)
        groups[key % key_groups] += count
    return Sketch(groups, frequent, max(len(frequent), 1))


def hot_keys(of: Sketch, workers: int) -> int:
    """Return how many of the most frequent keys are frequent enough to be placed by themselves."""
    least = max(LEAST_SHARE * of.total / workers, LEAST_ROWS)
    return sum(rows >= least for rows, _ in of.frequent.values())


def expanded(of: KeyMap) -> PartitionMap:
    """Return the map that a Deployment has in short; its hot keys are hashes."""
    groups = of_groups(of.key_groups, of.workers)
    for group, worker in of.moved.items():
        groups[group] = worker
    return PartitionMap(of.workers, groups, {(key,): shares for key, shares in of.hot.items()})


def shortened(of: PartitionMap, revision: int, columns: Sequence[str]) -> KeyMap:
    """Return a map in short: only the groups and keys that are not where the ring has them.

    Args:
        of: The map; its hot keys are hashes.
        revision: Its revision, >= 1.
        columns: The columns of the keys.
    """
    key_groups = len(of.groups)
    ring = of_groups(key_groups, of.workers)
    moved = {int(group): int(of.groups[group]) for group in np.flatnonzero(of.groups != ring)}
    rounded = {int(k[0]): {int(w): round(float(s), DIGITS) for w, s in of_k.items()} for k, of_k in of.hot.items()}
    hot = {key: shares for key, shares in rounded.items() if shares != {int(of.groups[key % key_groups]): 1.0}}
    return KeyMap(revision, tuple(columns), of.workers, key_groups, moved, hot)


def _trimmed(groups: Floats, frequent: dict[Key, tuple[float, int]], capacity: int) -> Sketch:
    whole = Sketch(groups, frequent, capacity)
    return Sketch(groups, {key: frequent[key] for key in whole.hottest(capacity)}, capacity)
