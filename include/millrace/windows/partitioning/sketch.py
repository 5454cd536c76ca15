"""Count how often the keys of a frame occur, in Spark."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from millrace.model.errors import MillraceError
from millrace.model.partitioning import CAPACITY, Key, Sketch
from millrace.windows.aggregates.plan import NESTED

KEY_GROUPS = 16_384


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
    return sf.pmod(hashed(names), sf.lit(key_groups)).cast("int")


def hashed(names: Sequence[str]) -> Column:
    """Return the hash of a row's key."""
    return sf.xxhash64(*map(quoted, names))


def hashable(kind: DataType) -> bool:
    """Return whether Spark can hash a type: it refuses maps and variants, also inside arrays and structs."""
    if isinstance(kind, ArrayType):
        return hashable(kind.elementType)
    if isinstance(kind, StructType):
        return all(hashable(field.dataType) for field in kind.fields)
    return not isinstance(kind, MapType | VariantType)


def quoted(name: str) -> Column:
    """Return a column by its whole name: a dot in it does not mean a field."""
    return sf.col(f"`{name.replace('`', '``')}`")


def canonical(key: Key) -> Key:
    """Return a key with one form of NaN and of zero; otherwise, different NaNs would be different keys."""
    return tuple(
        math.nan if isinstance(v, float) and math.isnan(v) else 0.0 if v == 0.0 and isinstance(v, float) else v
        for v in key
    )
