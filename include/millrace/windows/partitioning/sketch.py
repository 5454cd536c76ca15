"""Frequencies of a frame's keys, and the worker that gets the rows of a key.

A sketch counts the most frequent keys individually, and the others by key group: a hash slice of the keys,
``pmod(xxhash64(key), key_groups)``. Sketches of parts of a stream can be added. A map assigns whole key groups to
workers, and splits hot keys into shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from millrace.model.errors import MillraceError
from millrace.windows.aggregates.plan import NESTED

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Key = tuple[Any, ...]

KEY_GROUPS = 16_384
CAPACITY = 1_000


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


def sketch(
    rows: DataFrame,
    key: str | Sequence[str],
    *,
    sample: float = 1.0,
    capacity: int = CAPACITY,
    key_groups: int = KEY_GROUPS,
    seed: int = 0,
) -> Sketch:
    """Count the keys of a batch, or of a sample of it.

    Args:
        rows: A batch; for a stream, one of its micro-batches or a part of its history.
        key: The key's columns. Null is a key, NaN is a key, and -0.0 is 0.0, as in ``groupBy``.
        sample: Share of the rows to read, (0, 1]. Counts are scaled to all rows.
        capacity: Number of frequent keys to keep, >= 1.
        key_groups: Number of key groups, >= 1.
        seed: Seed of the sample.

    Raises:
        MillraceError: If the rows are a stream, a column is missing or nested, or a number is out of range.
    """
    names = keys(rows, key)
    check_count("capacity", capacity)
    check_count("key_groups", key_groups)
    if not 0 < sample <= 1:
        raise MillraceError("sample", sample, "a number in (0, 1]", "Set the share of the rows to read.")
    if rows.isStreaming:
        raise MillraceError("rows", "a stream", "a batch", "Sketch a micro-batch in foreachBatch, or historical rows.")
    seen = rows if sample == 1 else rows.sample(sample, seed)
    counts = seen.groupBy(*map(quoted, names)).agg(sf.count("*").alias("__rows"))
    counts = counts.withColumn("__group", group(names, key_groups)).cache()
    try:
        by_group = counts.groupBy("__group").agg(sf.sum("__rows").alias("rows")).collect()
        top = counts.orderBy(sf.desc("__rows"), "__group").limit(capacity).collect()
    finally:
        counts.unpersist()
    groups = np.zeros(key_groups)
    for row in by_group:
        groups[row[0]] = row[1]
    frequent = {canonical(tuple(row)[: len(names)]): (float(row["__rows"]), int(row["__group"])) for row in top}
    return Sketch(groups, frequent, capacity).scaled(1 / sample)


def columns(rows: DataFrame, key: str | Sequence[str]) -> list[str]:
    """Return column names as a list.

    Raises:
        MillraceError: If there is none, or one is not in the frame.
    """
    names = [key] if isinstance(key, str) else list(key)
    for name in names or [""]:
        if name not in rows.columns:
            raise MillraceError("key", name, ", ".join(rows.columns), "Name columns of the DataFrame.")
    return names


def keys(rows: DataFrame, key: str | Sequence[str]) -> list[str]:
    """Return the key's columns.

    Raises:
        MillraceError: If there is none, or one is nested or not in the frame.
    """
    names = columns(rows, key)
    for name in names:
        kind = rows.schema[name].dataType
        if isinstance(kind, NESTED):
            raise MillraceError("key", f"{name}: {kind.simpleString()}", "plain types", "Name its fields as columns.")
    return names


def check_count(key: str, value: object) -> None:
    """Check that a value is a whole number >= 1.

    Raises:
        MillraceError: If it is not; names the argument.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MillraceError(key, value, "a whole number >= 1", "Set a whole number.")


def group(names: Sequence[str], key_groups: int) -> Column:
    """Return the key group of a row."""
    return sf.pmod(sf.xxhash64(*map(quoted, names)), sf.lit(key_groups)).cast("int")


def quoted(name: str) -> Column:
    """Return a column by its whole name: a dot in it does not mean a field."""
    return sf.col(f"`{name.replace('`', '``')}`")


def canonical(key: Key) -> Key:
    """Return a key with one form of NaN and of zero; otherwise, different NaNs would be different keys."""
    return tuple(
        math.nan if isinstance(v, float) and math.isnan(v) else 0.0 if v == 0.0 and isinstance(v, float) else v
        for v in key
    )


def _trimmed(groups: Floats, frequent: dict[Key, tuple[float, int]], capacity: int) -> Sketch:
    whole = Sketch(groups, frequent, capacity)
    return Sketch(groups, {key: frequent[key] for key in whole.hottest(capacity)}, capacity)


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
