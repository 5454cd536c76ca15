"""Water-filling: consistent hashing places cold keys, and hot keys fill the workers to equal levels.

Q: quota = rows / workers. Cold key groups sit on the ring. A worker above Q gives groups away; then hot keys, the most
frequent first, fill one worker after the other up to Q and are split where a worker is full. Splits happen only at the
workers' limits, so a map without a former map has at most K + N - 1 pairs of the K hot keys and N workers.
A map that is made from the one before it moves only what is above Q, or was on a worker that is gone.

Reference: ours; it replaces Section 4.1 of Balkesen, Tatbul, Ozsu, DEBS 2013, which splits keys by frequency but places
their parts by hash, so the workers' levels stay random.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from millrace.model.errors import MillraceError
from millrace.model.partitioning import Floats, Ints, Key, PartitionMap, Sketch
from millrace.model.ring import of_groups

NEGLIGIBLE = 1e-9
"""Share of a quota that is too small for its own pair."""


def waterfill(sketch: Sketch, workers: int, hot_keys: int, before: PartitionMap | None = None) -> PartitionMap:
    """Return a map with equal loads.

    Args:
        sketch: Frequencies of the keys.
        workers: Number of workers, >= 1.
        hot_keys: How many keys may be split, >= 0.
        before: The map in use; its workers are the first workers of the new map.

    Raises:
        MillraceError: If the previous map has a different number of key groups.
    """
    if before is not None and len(before.groups) != len(sketch.groups):
        allowed = f"a map of {len(sketch.groups)} key groups"
        raise MillraceError(
            "before", len(before.groups), allowed, "Sketch with the same key_groups as the current map."
        )
    return _Levels(sketch, workers, hot_keys, before).filled()


class _Levels:
    """The workers while they are filled.

    Attributes:
        quota: Rows of a full worker.
        drop: Rows that rounding may leave over when all workers are full.
        groups: Worker of each group, shape (G,).
        cold: Rows of each group without hot keys, shape (G,).
        hot: Rows of each hot key on each worker.
        free: Unassigned rows of each hot key.
        level: Rows on each worker, shape (workers,).
    """

    def __init__(self, sketch: Sketch, workers: int, hot_keys: int, before: PartitionMap | None) -> None:
        self.workers, self.quota = workers, sketch.total / workers
        self.drop = self.quota * NEGLIGIBLE * (workers + 1)
        self.hot: dict[Key, dict[int, float]] = {key: {} for key in sketch.hottest(hot_keys)}
        self.cold = sketch.cold(list(self.hot))
        self.free: dict[Key, float] = {}
        self.groups: Ints = of_groups(len(sketch.groups), workers)
        if before is not None:
            # moving a group without rows costs nothing, but a reader's state may depend on where its next rows go
            self.groups = np.where(before.groups < workers, before.groups, self.groups)
        for key in self.hot:
            rows, group = sketch.frequent[key]
            shares = {} if before is None else before.shares(key, group)
            self.hot[key] = {w: rows * share for w, share in shares.items() if w < workers}
            self.free[key] = rows - sum(self.hot[key].values())
        self.level: Floats = np.bincount(self.groups, self.cold, workers).astype(np.float64)
        for on in self.hot.values():
            for worker, rows in on.items():
                self.level[worker] += rows

    def filled(self) -> PartitionMap:
        """Level all workers."""
        for worker in np.flatnonzero(self.level > self.quota).tolist():
            self._give_hot(worker)
        self._give_groups()
        brims = self._brims()
        for key in sorted(self.free, key=lambda k: -self.free[k]):
            self._take_back(key)
            for worker, rows in self._poured(brims, self.free[key]):
                self.hot[key][worker] = self.hot[key].get(worker, 0.0) + rows
        return PartitionMap(self.workers, self.groups, {k: _shares(on) for k, on in self.hot.items() if on})

    def _give_hot(self, worker: int) -> None:
        """Take hot keys off an overfull worker: small keys completely, and as much of the next as is left."""
        pieces = sorted(((on[worker], repr(key), key) for key, on in self.hot.items() if worker in on), reverse=True)
        while pieces and self.level[worker] > self.quota * (1 + NEGLIGIBLE):
            rows, _, key = pieces.pop()
            given = min(rows, self.level[worker] - self.quota)
            self.level[worker] -= given
            self.free[key] += given
            if given == rows:
                del self.hot[key][worker]
            else:
                self.hot[key][worker] = rows - given

    def _give_groups(self) -> None:
        """Move cold groups from overfull workers to the emptiest ones, starting with the largest that fit."""
        for worker in np.flatnonzero(self.level > self.quota).tolist():
            mine = np.flatnonzero((self.groups == worker) & (self.cold > 0))
            for group in mine[np.argsort(-self.cold[mine], kind="stable")].tolist():
                rows = self.cold[group]
                target = int(np.argmin(self.level))
                # both workers get closer to the quota, or at least not further from it
                if rows <= self.level[worker] - self.quota and self.level[target] + rows <= self.quota:
                    self.groups[group] = target
                    self.level[worker] -= rows
                    self.level[target] += rows

    def _brims(self) -> Iterator[int]:
        """Yield the workers with room, each until it is full."""
        for worker in range(self.workers):
            while self.level[worker] < self.quota * (1 - NEGLIGIBLE):
                yield worker

    def _take_back(self, key: Key) -> None:
        """Fill the workers that already have some of the key: that adds no pair."""
        for worker in self.hot[key]:
            taken = min(self.free[key], max(0.0, self.quota - self.level[worker]))
            self.hot[key][worker] += taken
            self.level[worker] += taken
            self.free[key] -= taken

    def _poured(self, brims: Iterator[int], rows: float) -> Iterator[tuple[int, float]]:
        while rows > self.drop:
            # because of rounding, all workers may be full slightly early
            worker = next(brims, int(np.argmin(self.level)))
            room = self.quota - self.level[worker]
            poured = rows if room <= 0 else min(rows, room)
            self.level[worker] += poured
            rows -= poured
            yield worker, poured


def _shares(on: dict[int, float]) -> dict[int, float]:
    total = sum(on.values())
    return {worker: rows / total for worker, rows in sorted(on.items())}
