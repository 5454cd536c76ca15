"""Sliding windows from panes against Spark's own, on the same rows in one run, results compared row by row.

60 minutes that slide by a minute; count, mean and maximum. A stream's seconds are those of a micro-batch, the median of
all but the first, in which the JVM still compiles.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.drfm.session import SLOTS, spark_session
from benchmarks.record import Record
from include.streaming import panes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIZE, SLIDE, DELAY = "60 minutes", "1 minute", "5 minutes"
BATCH_ROWS = 1_500_000
BATCH_S = 3_600
KEYS = 500
SPEEDUP = 8.0
"""Target of the streaming panes."""
Query = Callable[["DataFrame"], "DataFrame"]


def records(quick: bool) -> Iterator[Record]:
    """Measure a batch and a stream.

    Args:
        quick: Three micro-batches instead of five, one run of a batch instead of three.
    """
    with spark_session() as spark, tempfile.TemporaryDirectory(prefix="millrace-panes-") as scratch:
        folder = Path(scratch)
        batches = 3 if quick else 5
        for number in range(batches):
            _write(spark, folder / "source" / f"{number}", number)
        yield from _batch(spark, folder, 1 if quick else 3)
        yield from _streaming(spark, folder)


def _write(spark: SparkSession, to: Path, number: int) -> None:
    from pyspark.sql import functions as sf

    micros = sf.lit(1_357_000_000_000_000) + (sf.col("id") + number * BATCH_ROWS) * (BATCH_S * 1_000_000 // BATCH_ROWS)
    spark.range(0, BATCH_ROWS, 1, SLOTS).select(
        sf.timestamp_micros(micros).alias("ts"),
        sf.pmod(sf.xxhash64("id"), sf.lit(KEYS)).cast("int").alias("key"),
        (sf.pmod(sf.xxhash64("id", sf.lit(1)), sf.lit(1000)) / 10).alias("speed"),
    ).write.parquet(str(to))


def _spark_window(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    found = rows.groupBy(sf.window("ts", SIZE, SLIDE), "key")
    return found.agg(sf.count("speed").alias("n"), sf.avg("speed").alias("mean"), sf.max("speed").alias("top"))


def _panes(rows: DataFrame) -> DataFrame:
    aggregates = (panes.count("speed").alias("n"), panes.avg("speed").alias("mean"), panes.max("speed").alias("top"))
    return panes.sliding(rows, "ts", SIZE, SLIDE, "key").agg(*aggregates)


def _user_defined(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    def update(state: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
        return state[0] + len(rows), state[1] + float(rows["speed"].sum()), max(state[2], float(rows["speed"].max()))

    made = panes.user_defined(
        "made",
        ["speed"],
        state="n long, total double, top double",
        returns="n long, mean double, top double",
        init=lambda: (0, 0.0, float("-inf")),
        update=update,
        merge=lambda a, b: (a[0] + b[0], a[1] + b[1], max(a[2], b[2])),
        finish=lambda s: {"n": s[0], "mean": s[1] / s[0], "top": s[2]},
    )
    found = panes.sliding(rows, "ts", SIZE, SLIDE, "key").agg(made)
    return found.select("window", "key", *(sf.col("made")[name].alias(name) for name in ("n", "mean", "top")))


METHODS: Mapping[str, Query] = {"spark_window": _spark_window, "panes": _panes, "panes_user_defined": _user_defined}


def _batch(spark: SparkSession, folder: Path, runs: int) -> Iterator[Record]:
    rows = spark.read.parquet(str(folder / "source" / "0"))
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(runs):
        for method, query in METHODS.items():
            started = time.perf_counter()
            query(rows).write.mode("overwrite").parquet(str(folder / "batch" / method))
            seconds[method].append(time.perf_counter() - started)
    yield from _compared(spark, "panes_batch", seconds, folder / "batch", None)


def _streaming(spark: SparkSession, folder: Path) -> Iterator[Record]:
    schema = spark.read.parquet(str(folder / "source" / "0")).schema
    source = str(folder / "source" / "*")
    seconds = {}
    for method, query in METHODS.items():
        read = spark.readStream.schema(schema).option("maxFilesPerTrigger", SLOTS).parquet(source)
        made = query(read.withWatermark("ts", DELAY)).writeStream.format("parquet")
        made = made.option("path", str(folder / "stream" / method))
        made = made.option("checkpointLocation", str(folder / "checkpoint" / method))
        running = made.trigger(availableNow=True).start()
        running.awaitTermination()
        full = [p for p in running.recentProgress if p["numInputRows"] == BATCH_ROWS]
        seconds[method] = [p["durationMs"]["addBatch"] / 1000 for p in full[1:]]
    yield from _compared(spark, "panes_streaming", seconds, folder / "stream", SPEEDUP)


def _compared(
    spark: SparkSession, scenario: str, seconds: Mapping[str, list[float]], found: Path, target: float | None
) -> Iterator[Record]:
    expected = spark.read.parquet(str(found / "spark_window"))
    base = median(seconds["spark_window"])
    for method, took in seconds.items():
        low, high = (min(took), max(took)) if len(took) > 1 else (None, None)
        yield Record("drfm", scenario, method, "seconds", median(took), "s", low, high, len(took))
        if method == "spark_window":
            continue
        faster = base / median(took)
        # a user's Python is as fast as the user writes it
        judged: Any = (f">={target:g}", faster >= target) if target and method == "panes" else (None, None)
        yield Record("drfm", scenario, method, "speedup", faster, "x", n=len(took), target=judged[0], holds=judged[1])
        wrong = _different(spark.read.parquet(str(found / method)), expected)
        yield Record("drfm", scenario, method, "rows_different", wrong, "rows", target="<=0", holds=wrong == 0)


def _different(ours: DataFrame, expected: DataFrame) -> int:
    """Return how many windows only one has, or have other values; means may differ in their last digits."""
    from pyspark.sql import functions as sf

    a, b = (
        f.withColumns({"start": sf.col("window")["start"], "end": sf.col("window")["end"]}) for f in (ours, expected)
    )
    both = a.alias("a").join(b.alias("b"), ["start", "end", "key"], "full")
    near = sf.abs(sf.col("a.mean") - sf.col("b.mean")) <= 1e-9 * sf.abs(sf.col("b.mean"))
    same = (sf.col("a.n") == sf.col("b.n")) & (sf.col("a.top") == sf.col("b.top")) & near
    return both.where(~sf.coalesce(same, sf.lit(False))).count()
