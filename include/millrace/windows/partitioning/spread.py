"""Spread rows evenly over workers, although some keys are much more frequent: one call for batches and streams."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DoubleType, IntegerType, StructField, StructType

from millrace.model.errors import MillraceError
from millrace.model.paper_hash import paper_hash
from millrace.model.partitioning import PartitionMap, Sketch
from millrace.model.waterfill import waterfill
from millrace.windows.aggregates.aggregate import Aggregate
from millrace.windows.aggregates.plan import AggregationPlan
from millrace.windows.partitioning.following import Followed
from millrace.windows.partitioning.sketch import check_count, columns, hashable, hashed, keys, quoted, sketch

WATERFILL, PAPER = "waterfill", "paper_hash"
HOT_KEYS = 200
DRAWS = 1 << 24
"""Number of equal parts into which a hot key's rows are divided to form shares."""
_CUTS, _TARGETS, _DRAW, _TARGET, _HASH = "__cuts", "__targets", "__draw", "__target", "__hash"


def plan(
    of: Sketch,
    workers: int,
    *,
    hot_keys: int = HOT_KEYS,
    method: str = WATERFILL,
    before: PartitionMap | None = None,
) -> PartitionMap:
    """Return the map of keys to workers.

    Args:
        of: Frequencies of the keys.
        workers: Number of workers, >= 1.
        hot_keys: How many of the most frequent keys may be split, >= 0.
        method: ``waterfill``, or ``paper_hash`` as published.
        before: The map in use. ``waterfill`` then moves only what it must; the published method ignores it.

    Raises:
        MillraceError: If an argument is out of range.
    """
    check_count("workers", workers)
    if isinstance(hot_keys, bool) or not isinstance(hot_keys, int) or hot_keys < 0:
        raise MillraceError("hot_keys", hot_keys, "a whole number >= 0", "Set a whole number.")
    if method not in (WATERFILL, PAPER):
        raise MillraceError("method", method, f"{WATERFILL}, {PAPER}", "Choose one of these.")
    if method == PAPER:
        return paper_hash(of, workers, hot_keys)
    return waterfill(of, workers, hot_keys, before)


def spread(
    rows: DataFrame,
    key: str | Sequence[str],
    workers: int | None = None,
    *,
    by: PartitionMap | Followed | None = None,
    salt: str | Sequence[str] = (),
) -> DataFrame:
    """Return the rows in one partition per worker, all with about the same number of rows.

    Rows of a key that is not hot are in one partition. Rows of a hot key are in several, so an aggregate over all rows
    of a key needs a second level, ``merged``.

    Args:
        rows: A batch or a stream.
        key: The key's columns. Null and NaN are keys.
        workers: How many partitions, >= 1. A map is then made from all rows; pass ``by`` to choose sample and method.
        by: The map, which a stream needs; or ``followed(name)`` for a micro-batch in ``foreachBatch``.
        salt: Columns in which a hot key's rows differ, such as an id; by default all columns. Rows that are equal in
            them go to the same worker. If the frame has only its key column, rows are assigned at random.

    Raises:
        MillraceError: If a column is missing, a key's column is nested, neither or both of workers and map are given,
            or a stream has no map or one that changes.
    """
    names = keys(rows, key)
    if (workers is None) == (by is None):
        raise MillraceError("workers", workers, "either workers or by", "Set one of them.")
    if by is None:
        check_count("workers", workers)
        if rows.isStreaming:
            remedy = "Make one from historical rows or a micro-batch: by=plan(sketch(batch, key), workers)."
            raise MillraceError("by", None, "a map, for a stream", remedy)
        by = plan(sketch(rows, names), int(workers or 1))
    salts = columns(rows, salt) if salt else [n for n in rows.columns if n not in names]
    if isinstance(by, Followed):
        placed = _placed(rows.withColumn(_HASH, hashed(names)), [_HASH], by.newest(rows, names), salts, quoted(_HASH))
        return placed.drop(_HASH)
    return _placed(rows, names, by, salts, hashed(names))


def _placed(
    rows: DataFrame, names: Sequence[str], by: PartitionMap, salts: Sequence[str], key_hash: Column
) -> DataFrame:
    """Return the rows where a map says.

    Args:
        rows: The rows.
        names: Columns that identify hot keys, as in the map.
        by: The map.
        salts: Columns in which the rows of a hot key differ.
        key_hash: Hash of a row's key.
    """
    cold = _of_group(by, key_hash)
    if not by.hot:
        return rows.repartitionById(by.workers, cold)
    hot = _hot(rows, names, by)
    same = [quoted(n).eqNullSafe(sf.col(_key(i))) for i, n in enumerate(names)]
    drawn = rows.withColumn(_DRAW, _draw(rows, salts)).join(sf.broadcast(hot), reduce(and_, same), "left")
    place = sf.array_size(sf.filter(_CUTS, lambda cut: cut <= sf.col(_DRAW)))
    target = sf.coalesce(sf.element_at(_TARGETS, place + 1), cold)
    placed = drawn.withColumn(_TARGET, target).drop(_DRAW, *hot.columns)
    return placed.repartitionById(by.workers, sf.col(_TARGET)).drop(_TARGET)


def _of_group(by: PartitionMap, key_hash: Column) -> Column:
    # planning a literal array of thousands of columns would be slow; Spark folds this one into a constant
    table = sf.split(sf.lit(",".join(map(str, by.groups.tolist()))), ",").cast("array<int>")
    return sf.get(table, sf.pmod(key_hash, sf.lit(len(by.groups))).cast("int"))


def _hot(rows: DataFrame, names: Sequence[str], by: PartitionMap) -> DataFrame:
    keys = [StructField(_key(i), rows.schema[name].dataType) for i, name in enumerate(names)]
    cuts, targets = StructField(_CUTS, ArrayType(DoubleType())), StructField(_TARGETS, ArrayType(IntegerType()))
    table = [
        (*key, [float(c) for c in list(accumulate(shares.values()))[:-1]], [int(w) for w in shares])
        for key, shares in by.hot.items()
    ]
    return rows.sparkSession.createDataFrame(table, StructType([*keys, cuts, targets]))


def _draw(rows: DataFrame, salts: Sequence[str]) -> Column:
    """Return a number in [0, 1) for each row."""
    hashed = [s for s in salts if hashable(rows.schema[s].dataType)]
    if not hashed:
        return sf.rand(0)
    # with a different seed than the key group's hash; otherwise all rows of a group would be drawn alike
    return sf.pmod(sf.xxhash64(sf.lit("salt"), *map(quoted, hashed)), sf.lit(DRAWS)) / DRAWS


def _key(i: int) -> str:
    return f"__hot_{i}"


_AT = "__at"


def merged(rows: DataFrame, key: str | Sequence[str], *aggregates: Aggregate) -> DataFrame:
    """Return a row per key: its columns, then the aggregates.

    Each worker folds its rows, wherever ``spread`` put them. Only one partial per key and worker is shuffled again.
    This pays off if folding is most of the work, as with ``user_defined``. For count, sum and the like, ``groupBy``
    also folds before its shuffle.

    Args:
        rows: Result of ``spread``: a batch, or a stream in output mode ``update`` or ``complete``.
        key: Columns to group by.
        aggregates: Aggregates to compute. ``merge`` of ``user_defined`` gets states in no particular order here.

    Raises:
        MillraceError: If there is no aggregate, a name occurs twice, or ``user_columns`` is among them.
    """
    plan = AggregationPlan(rows, (key,) if isinstance(key, str) else tuple(key), aggregates)
    partials = plan.by_arrow(plan.prepared({_AT: sf.lit(0)}), [], _AT)
    return plan.merged(partials, [], sf.col(_AT))
