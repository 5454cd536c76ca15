"""How evenly skewed keys are spread over workers, measured on Spark.

The map is made from a sketch of some rows and judged on others, which came later. Relocations are those of one worker
more, as multiples of the share that it must get.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.drfm.session import spark_session
from benchmarks.record import Record, at_most
from include.streaming.partitioning import PartitionMap, Sketch, plan, sketch, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXPONENTS = (0.5, 1.0, 1.5, 2.0)
KEYS = 16_384
WORKERS = 16
HOT_KEYS = 200
SKETCHED_ROWS = 400_000
LOAD_RATIO, RELOCATIONS = 0.01, 1.1
"""Targets of the water-filling."""
Sizes = Mapping[tuple[int, int], int]
"""Rows of each key in each partition."""


def records(quick: bool) -> Iterator[Record]:
    """Measure each method on each skew.

    Args:
        quick: A quarter of the rows.
    """
    rows = 400_000 if quick else 1_600_000
    with spark_session() as spark:
        for exponent in EXPONENTS:
            history = sketch(_frame(spark, exponent, SKETCHED_ROWS, 1), "key")
            yield from _of(f"zipf_{exponent}", _frame(spark, exponent, rows, 2), history)


def _frame(spark: SparkSession, exponent: float, rows: int, seed: int) -> DataFrame:
    weights = 1 / np.arange(1, KEYS + 1) ** exponent
    keys = np.random.default_rng(seed).choice(KEYS, rows, p=weights / weights.sum())
    return spark.createDataFrame(pa.table({"key": keys, "id": np.arange(rows)})).repartition(4).cache()


def _of(scenario: str, rows: DataFrame, history: Sketch) -> Iterator[Record]:
    yield from _judged(scenario, "hash", *(_counts(rows.repartition(n, "key")) for n in (WORKERS, WORKERS + 1)), None)
    for method in ("paper_hash", "waterfill"):
        before = plan(history, WORKERS, hot_keys=HOT_KEYS, method=method)
        after = plan(history, WORKERS + 1, hot_keys=HOT_KEYS, method=method, before=before)
        sizes = [_counts(spread(rows, "key", by=by)) for by in (before, after)]
        yield from _judged(scenario, method, *sizes, before)
    rows.unpersist()


def _counts(rows: DataFrame) -> dict[tuple[int, int], int]:
    from pyspark.sql import functions as sf

    placed = rows.select("key", sf.spark_partition_id().alias("at"))
    found = placed.groupBy("key", "at").count().toArrow().to_pydict()
    return dict(zip(zip(found["key"], found["at"], strict=True), found["count"], strict=True))


def _judged(scenario: str, method: str, now: Sizes, then: Sizes, by: PartitionMap | None) -> Iterator[Record]:
    load = np.zeros(WORKERS)
    for (_, worker), count in now.items():
        load[worker] += count
    moved = sum(max(0, count - now.get(pair, 0)) for pair, count in then.items()) / load.sum()
    figures: dict[str, tuple[float, str, float]] = {
        "load_ratio": (float(load.std() / load.mean()), "std/mean", LOAD_RATIO),
        "relocation_ratio": (moved * (WORKERS + 1), "x ideal", RELOCATIONS),
    }
    if by is not None:
        figures["pairs"] = (by.pairs, "pairs", HOT_KEYS + WORKERS)
    for figure, (value, unit, limit) in figures.items():
        judged: Any = at_most(value, limit) if method == "waterfill" else (None, None)
        yield Record("drfm", scenario, method, figure, value, unit, target=judged[0], holds=judged[1])
