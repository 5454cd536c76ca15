"""How evenly skewed keys are spread over workers, measured on Spark.

The map is made from a sketch of some rows and judged on other, later rows. Rows are random, so even a perfect map is
uneven on new rows. The method ``floor`` records the expected load ratio of a perfect map, sqrt((N - 1) / rows) for N
workers; ``source`` records the rows. Relocations are measured for one additional worker, as multiples of the share that
it must get.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.drfm.session import SLOTS, spark_session
from benchmarks.record import Record, at_most
from millrace.windows.partitioning import PartitionMap, Sketch, plan, sketch, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXPONENTS = (0.5, 1.0, 1.5, 2.0)
KEYS = 16_384
WORKERS = 16
HOT_KEYS = 200
ROWS, QUICK_ROWS = 1_600_000, 100_000
"""Rows to sketch, and the same number to judge. In the quick form the floor alone is above the target."""
TARGETS = {"load_ratio": 0.01, "relocation_ratio": 1.1, "pairs": HOT_KEYS + WORKERS}
"""Targets of the water-filling."""
Sizes = npt.NDArray[np.int64]
"""Rows of each key in each partition, shape (KEYS, WORKERS + 1)."""


def records(quick: bool) -> Iterator[Record]:
    """Measure each method on each skew.

    Args:
        quick: A sixteenth of the rows. The load ratio is not judged, and relocations only for the water-filling.
    """
    rows = QUICK_ROWS if quick else ROWS
    with spark_session() as spark, tempfile.TemporaryDirectory(prefix="millrace-partitions-") as scratch:
        for exponent in EXPONENTS:
            scenario = f"zipf_{exponent}"
            past, later = (_frame(spark, Path(scratch), exponent, rows, seed) for seed in (1, 2))
            yield from _of(scenario, later, sketch(past, "key"), quick)
            yield Record("drfm", scenario, "floor", "load_ratio", sqrt((WORKERS - 1) / rows), "std/mean")
            yield Record("drfm", scenario, "source", "rows", rows, "rows")


def _frame(spark: SparkSession, scratch: Path, exponent: float, rows: int, seed: int) -> DataFrame:
    weights = 1 / np.arange(1, KEYS + 1) ** exponent
    keys = np.random.default_rng(seed).choice(KEYS, rows, p=weights / weights.sum())
    folder = scratch / f"{exponent}-{seed}"
    folder.mkdir()
    for slot, part in enumerate(np.array_split(np.arange(rows), SLOTS)):
        pq.write_table(pa.table({"key": keys[part], "id": part}), folder / f"{slot}.parquet")
    return spark.read.parquet(str(folder))


def _of(scenario: str, rows: DataFrame, history: Sketch, quick: bool) -> Iterator[Record]:
    counts = (WORKERS,) if quick else (WORKERS, WORKERS + 1)
    yield from _judged(scenario, "hash", [_sizes(rows.repartition(n, "key")) for n in counts], None, quick)
    for method in ("paper_hash", "waterfill"):
        maps = [plan(history, WORKERS, hot_keys=HOT_KEYS, method=method)]
        if method == "waterfill" or not quick:
            maps.append(plan(history, WORKERS + 1, hot_keys=HOT_KEYS, method=method, before=maps[0]))
        yield from _judged(scenario, method, [_sizes(spread(rows, "key", by=by)) for by in maps], maps[0], quick)


def _sizes(rows: DataFrame) -> Sizes:
    from pyspark.sql import functions as sf

    placed = rows.select("key", sf.spark_partition_id().alias("at")).toArrow()
    cell = placed["key"].to_numpy() * (WORKERS + 1) + placed["at"].to_numpy()
    return np.bincount(cell, minlength=KEYS * (WORKERS + 1)).reshape(KEYS, WORKERS + 1)


def _judged(
    scenario: str, method: str, sizes: Sequence[Sizes], by: PartitionMap | None, quick: bool
) -> Iterator[Record]:
    load = sizes[0].sum(axis=0)[:WORKERS]
    figures = {"load_ratio": (float(load.std() / load.mean()), "std/mean")}
    if len(sizes) > 1:
        moved = np.maximum(sizes[1] - sizes[0], 0).sum() / load.sum()
        figures["relocation_ratio"] = (float(moved * (WORKERS + 1)), "x ideal")
    if by is not None:
        figures["pairs"] = (by.pairs, "pairs")
    for figure, (value, unit) in figures.items():
        aimed = method == "waterfill" and not (quick and figure == "load_ratio")
        judged: Any = at_most(value, TARGETS[figure]) if aimed else (None, None)
        yield Record("drfm", scenario, method, figure, value, unit, target=judged[0], holds=judged[1])
