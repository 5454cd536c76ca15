"""The part of a join's window that one worker keeps in Spark's state, as sets of tuples in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.joins.blocks import Kept, Times, concat, pack, pack_times, unpack, unpack_times
from millrace.joins.join_plan import TIME

NAME, KEY, VALUE = "window", "stream int, number long", "tuples binary, shed binary"
"""Name and Spark schemas of the state. All three are part of a running join's checkpoint."""
MOST_SETS = 24
"""Sets per stream before half of them are merged into one. Each set costs one call when the state is read."""

NO_TIMES: Times = np.empty(0, np.int64)


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
        tables = [kept.tuples for key, kept in self._sets.items() if key[0] == stream]
        return pa.concat_tables(tables) if tables else self._schemas[stream].empty_table()

    @property
    def size(self) -> int:
        """Number of tuples."""
        return sum(kept.tuples.num_rows for kept in self._sets.values())

    @property
    def offered(self) -> int:
        """Number of tuples the worker would keep if none had been shed."""
        return self.size + sum(len(kept.shed) for kept in self._sets.values())

    def add(self, stream: int, number: int, kept: Kept) -> None:
        """Keep a set under a number that has never been used."""
        if not kept.empty:
            self._put((stream, number), kept)

    def expire(self, oldest: Mapping[int, int | None]) -> None:
        """Drop sets without possible partners, and stop counting expired tuples in the other sets.

        Args:
            oldest: Oldest event time by stream that can still find a partner.
        """
        for key, kept in list(self._sets.items()):
            bound = oldest[key[0]]
            if bound is None:
                continue
            live = _not_before(kept, bound)
            if live.empty:
                self._drop(key)
            else:
                self._sets[key] = live  # Spark's copy stays unchanged until the whole set has expired

    def rows(self, streams: Sequence[int]) -> int:
        """Return the number of tuples of some streams."""
        return sum(kept.tuples.num_rows for key, kept in self._sets.items() if key[0] in streams)

    def take_due(self, oldest: Mapping[int, int | None]) -> dict[int, Kept]:
        """Remove tuples without possible partners in later batches, and return them by stream.

        Args:
            oldest: Oldest event time by stream that can still find a partner; None if all tuples can.
        """
        taken: dict[int, list[Kept]] = {}
        for key, kept in list(self._sets.items()):
            bound = oldest.get(key[0])
            if bound is None:
                continue
            live = _not_before(kept, bound)
            if live.empty:
                self._drop(key)
            elif live.tuples.num_rows < kept.tuples.num_rows:
                self._put(key, live)
            else:
                self._sets[key] = live
                continue
            times = kept.tuples[TIME].to_numpy()
            taken.setdefault(key[0], []).append(Kept(kept.tuples.filter(pa.array(times < bound)), NO_TIMES))
        return {stream: concat(parts) for stream, parts in taken.items()}

    def take_oldest(self, count: int, streams: Sequence[int]) -> dict[int, Kept]:
        """Remove tuples of some streams, oldest sets first, and return them by stream.

        Args:
            count: Number of tuples. Whole sets are removed, including their shed event times.
            streams: Numbers of the streams.
        """
        return self._take(count, sorted((k for k in self._sets if k[0] in streams), key=lambda k: (k[1], k[0])))

    def take(self, count: int, before: int) -> dict[int, Kept]:
        """Remove tuples, newest sets first, and return them by stream.

        Args:
            count: Number of tuples. Whole sets are removed, including their shed event times.
            before: Keep sets from this number on: they are newer than the planned move.
        """
        keys = (k for k in self._sets if k[1] < before)
        return self._take(count, sorted(keys, key=lambda k: (k[1], k[0]), reverse=True))

    def _take(self, count: int, keys: Sequence[tuple[int, int]]) -> dict[int, Kept]:
        taken: dict[int, list[Kept]] = {}
        for key in keys:
            kept, rows = self._sets[key], self._sets[key].tuples.num_rows
            if rows <= count:
                self._drop(key)
            elif count:
                self._put(key, Kept(kept.tuples.slice(count), kept.shed))
                kept = Kept(kept.tuples.slice(0, count), NO_TIMES)
            else:
                break
            taken.setdefault(key[0], []).append(kept)
            count -= kept.tuples.num_rows
        return {stream: concat(parts) for stream, parts in taken.items()}

    def compact(self) -> None:
        """If a stream has many sets, merge the neighbours with the fewest tuples; the order of arrival stays."""
        for stream in self._schemas:
            keys = sorted(key for key in self._sets if key[0] == stream)
            if len(keys) > MOST_SETS:
                rows, count = [self._sets[key].tuples.num_rows for key in keys], len(keys) // 2
                first = min(range(len(keys) - count + 1), key=lambda i: sum(rows[i : i + count]))
                small = keys[first : first + count]
                merged = concat([self._sets[key] for key in small])
                for key in small:
                    self._drop(key)
                self._put(small[-1], merged)

    def _put(self, key: tuple[int, int], kept: Kept) -> None:
        self._sets[key] = kept
        self._state.updateValue(key, (pack(kept.tuples), pack_times(kept.shed)))

    def _drop(self, key: tuple[int, int]) -> None:
        del self._sets[key]
        self._state.removeKey(key)


def _not_before(kept: Kept, oldest: int) -> Kept:
    times: Times = np.asarray(kept.tuples[TIME].to_numpy(), np.int64)
    live = times >= oldest
    tuples = kept.tuples if live.all() else kept.tuples.filter(pa.array(live))
    return Kept(tuples, kept.shed[kept.shed >= oldest])
