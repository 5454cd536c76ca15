"""Tuples of two streams that are joined by key and time, as tables and as a batch computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from millrace.lake.source_tables import SourceTable

SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.string()), ("at", pa.timestamp("us", "UTC"))])
Tuple = tuple[int, str, int]
"""Id, key and second."""


def append(table: SourceTable, tuples: Sequence[Tuple], files: int, number: int) -> None:
    """Commit tuples to a stream's table.

    Args:
        table: Of :data:`SCHEMA`.
        tuples: The tuples.
        files: Files to write.
        number: Of the commit, from 0 on.
    """
    ids, keys, seconds = zip(*tuples, strict=True)
    at = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))
    table.append(pa.table([ids, keys, at], schema=SCHEMA), files, "feed", number)


def pairs(left: Sequence[Tuple], right: Sequence[Tuple], within_s: int) -> Counter[tuple[int, int]]:
    """Return the ids of all pairs with the same key that are at most so many seconds apart."""
    of_key: dict[str, list[Tuple]] = {}
    for one in right:
        of_key.setdefault(one[1], []).append(one)
    near = ((a, b) for a in left for b in of_key.get(a[1], ()) if abs(a[2] - b[2]) <= within_s)
    return Counter((a[0], b[0]) for a, b in near)
