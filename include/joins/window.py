"""The part of a join's window that one worker keeps, in Spark's state: sets of tuples, as they came batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from include.joins.blocks import Kept, Times, pack, pack_times, unpack, unpack_times
from include.joins.matching import TIME

KEY, VALUE = "stream int, number long", "tuples binary, shed binary"
"""Spark schemas of the state."""
MOST_SETS = 24
"""Sets of a stream before the smaller half of them becomes one: each costs a call when the state is read."""

Oldest = Mapping[str, int | None]


class Window:
    """One worker's tuples during one micro-batch.

    Args:
        state: Spark's map state, from (stream, number) to a set.
        schemas: Arrow schema of each stream, by its number.
    """

    def __init__(self, state: Any, schemas: Mapping[int, pa.Schema]) -> None:
        self._state, self._schemas = state, schemas
        self._sets: dict[tuple[int, int], Kept] = {}
        for (stream, number), (tuples, shed) in state.iterator():
            kept = Kept(unpack(bytes(tuples), schemas[stream]), unpack_times(bytes(shed)))
            self._sets[stream, number] = kept

    def tuples(self, stream: int) -> pa.Table:
        """Return all tuples of a stream."""
        found = [kept.tuples for _, kept in self._of(stream)]
        return pa.concat_tables(found) if found else self._schemas[stream].empty_table()

    @property
    def size(self) -> int:
        """Number of tuples."""
        return sum(kept.tuples.num_rows for kept in self._sets.values())

    @property
    def offered(self) -> int:
        """Number of tuples that would be there had nothing been shed."""
        return self.size + sum(len(kept.shed) for kept in self._sets.values())

    def add(self, stream: int, number: int, kept: Kept) -> None:
        """Keep a set under a number that it has never had."""
        if kept.tuples.num_rows or len(kept.shed):
            self._put((stream, number), kept)

    def expire(self, oldest: Mapping[int, int | None]) -> None:
        """Drop the sets that find no partner any more, and count no tuple of others that does not.

        Args:
            oldest: Event time of the oldest tuple that still can, by stream.
        """
        for key, kept in list(self._sets.items()):
            bound = oldest[key[0]]
            if bound is None:
                continue
            live = _from(kept, bound)
            if live.tuples.num_rows or len(live.shed):
                self._sets[key] = live  # Spark's copy stays as it is until the whole set has expired
            else:
                self._drop(key)

    def take(self, count: int, before: int) -> dict[int, Kept]:
        """Give tuples away, the newest sets first, and return them by stream.

        Args:
            count: How many; whole sets go with what was shed beside them.
            before: Sets from this number on stay: who planned the move did not know of them.
        """
        taken: dict[int, list[Kept]] = {}
        for key in sorted((k for k in self._sets if k[1] < before), key=lambda k: (k[1], k[0]), reverse=True):
            kept, rows = self._sets[key], self._sets[key].tuples.num_rows
            if rows <= count:
                self._drop(key)
            elif count:
                self._put(key, Kept(kept.tuples.slice(count), kept.shed))
                kept = Kept(kept.tuples.slice(0, count), np.empty(0, np.int64))
            else:
                break
            taken.setdefault(key[0], []).append(kept)
            count -= kept.tuples.num_rows
        return {stream: merged(parts) for stream, parts in taken.items()}

    def compact(self) -> None:
        """Make one set of the smaller half of a stream's, where it has many."""
        for stream in self._schemas:
            sets = sorted(self._of(stream), key=lambda found: found[1].tuples.num_rows)
            if len(sets) > MOST_SETS:
                small = sets[: len(sets) // 2]
                for key, _ in small:
                    self._drop(key)
                self._put(max(key for key, _ in small), merged([kept for _, kept in small]))

    def _of(self, stream: int) -> Iterator[tuple[tuple[int, int], Kept]]:
        return ((key, kept) for key, kept in self._sets.items() if key[0] == stream)

    def _put(self, key: tuple[int, int], kept: Kept) -> None:
        self._sets[key] = kept
        self._state.updateValue(key, (pack(kept.tuples), pack_times(kept.shed)))

    def _drop(self, key: tuple[int, int]) -> None:
        del self._sets[key]
        self._state.removeKey(key)


def merged(parts: list[Kept]) -> Kept:
    """Return several sets of a stream, at least one, as one."""
    return Kept(pa.concat_tables([p.tuples for p in parts]), np.concatenate([p.shed for p in parts]))


def _from(kept: Kept, oldest: int) -> Kept:
    times: Times = np.asarray(kept.tuples[TIME].to_numpy(), np.int64)
    live = times >= oldest
    tuples = kept.tuples if live.all() else kept.tuples.filter(pa.array(live))
    return Kept(tuples, kept.shed[kept.shed >= oldest])
