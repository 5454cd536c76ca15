"""Sliding windows from panes against Spark's own, on the same rows in one run, results compared row by row.

Windows of 60 minutes slide by a minute; they compute count, mean and maximum. A stream's time is the median of its
micro-batches without the first, in which the JVM still compiles. Batches run after the streams, so the JVM has compiled
by then. The quick form has fewer rows and keys, but as many rows per pane and key. Fixed costs weigh more there, so
only the full form judges the speedup. The method ``source`` records the rows of a micro-batch.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.drfm.session import SLOTS, spark_session
from benchmarks.record import Record
from millrace.windows import panes
from millrace.windows.panes.sliding import PANES, WINDOWS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SIZE, SLIDE, DELAY = "60 minutes", "1 minute", "5 minutes"
BATCH_S = 3_600
SPEEDUP = 8.0
"""Target of the streaming panes."""
JUDGED = ("panes", "panes_late_panes")
Query = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        rows: Rows of a micro-batch, which spans an hour.
        keys: Keys of a micro-batch.
        batches: Micro-batches of a stream.
        runs: Runs of a batch.
        speedup: Target of the streaming panes, if it is judged.
    """

    rows: int
    keys: int
    batches: int
    runs: int
    speedup: float | None


FULL = Size(rows=1_500_000, keys=500, batches=5, runs=3, speedup=SPEEDUP)
QUICK = Size(rows=90_000, keys=30, batches=2, runs=1, speedup=None)


def records(quick: bool) -> Iterator[Record]:
    """Measure a stream and a batch.

    Args:
        quick: Fewer rows and keys, two micro-batches instead of five, one run of a batch instead of three.
    """
    size = QUICK if quick else FULL
    with spark_session() as spark, tempfile.TemporaryDirectory(prefix="millrace-panes-") as scratch:
        folder = Path(scratch)
        for number in range(size.batches):
            _write(spark, folder / "source" / f"{number}", number, size)
        yield from _streaming(spark, folder, size)
        yield from _batch(spark, folder, size)


def _write(spark: SparkSession, to: Path, number: int, size: Size) -> None:
    from pyspark.sql import functions as sf

    micros = sf.lit(1_357_000_000_000_000) + (sf.col("id") + number * size.rows) * (BATCH_S * 1_000_000 // size.rows)
    spark.range(0, size.rows, 1, SLOTS).select(
        sf.timestamp_micros(micros).alias("ts"),
        sf.pmod(sf.xxhash64("id"), sf.lit(size.keys)).cast("int").alias("key"),
        (sf.pmod(sf.xxhash64("id", sf.lit(1)), sf.lit(1000)) / 10).alias("speed"),
    ).write.parquet(str(to))


def _spark_window(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    found = rows.groupBy(sf.window("ts", SIZE, SLIDE), "key")
    return found.agg(sf.count("speed").alias("n"), sf.avg("speed").alias("mean"), sf.max("speed").alias("top"))


def _panes(rows: DataFrame, late: str = WINDOWS) -> DataFrame:
    aggregates = (panes.count("speed").alias("n"), panes.avg("speed").alias("mean"), panes.max("speed").alias("top"))
    return panes.sliding(rows, "ts", SIZE, SLIDE, "key", late=late).agg(*aggregates)


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
STREAM_METHODS: Mapping[str, Query] = {**METHODS, "panes_late_panes": partial(_panes, late=PANES)}
"""A stream may also count a late row only while its pane is open; a batch has no late rows."""


def _batch(spark: SparkSession, folder: Path, size: Size) -> Iterator[Record]:
    rows = spark.read.parquet(str(folder / "source" / "0"))
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(size.runs):
        for method, query in METHODS.items():
            started = time.perf_counter()
            query(rows).write.mode("overwrite").parquet(str(folder / "batch" / method))
            seconds[method].append(time.perf_counter() - started)
    yield Record("drfm", "panes_batch", "source", "rows", size.rows, "rows")
    yield from _compared(spark, "panes_batch", seconds, folder / "batch", None)


def _streaming(spark: SparkSession, folder: Path, size: Size) -> Iterator[Record]:
    schema = spark.read.parquet(str(folder / "source" / "0")).schema
    source = str(folder / "source" / "*")
    seconds = {}
    for method, query in STREAM_METHODS.items():
        read = spark.readStream.schema(schema).option("maxFilesPerTrigger", SLOTS).parquet(source)
        made = query(read.withWatermark("ts", DELAY)).writeStream.format("parquet")
        made = made.option("path", str(folder / "stream" / method))
        made = made.option("checkpointLocation", str(folder / "checkpoint" / method))
        running = made.trigger(availableNow=True).start()
        running.awaitTermination()
        full = [p for p in running.recentProgress if p["numInputRows"] == size.rows]
        seconds[method] = [p["durationMs"]["addBatch"] / 1000 for p in full[1:]]
    yield Record("drfm", "panes_streaming", "source", "rows", size.rows, "rows")
    yield from _compared(spark, "panes_streaming", seconds, folder / "stream", size.speedup)


def _compared(
    spark: SparkSession, scenario: str, seconds: Mapping[str, list[float]], found: Path, target: float | None
) -> Iterator[Record]:
    expected = _windows(spark, found / "spark_window")
    base = median(seconds["spark_window"])
    for method, took in seconds.items():
        low, high = (min(took), max(took)) if len(took) > 1 else (None, None)
        yield Record("drfm", scenario, method, "seconds", median(took), "s", low, high, len(took))
        if method == "spark_window":
            continue
        faster = base / median(took)
        # how fast a user's Python is depends on the user
        judged: Any = (f">={target:g}", faster >= target) if target and method in JUDGED else (None, None)
        yield Record("drfm", scenario, method, "speedup", faster, "x", n=len(took), target=judged[0], holds=judged[1])
        wrong = _different(_windows(spark, found / method), expected)
        yield Record("drfm", scenario, method, "rows_different", wrong, "rows", target="<=0", holds=wrong == 0)


def _windows(spark: SparkSession, found: Path) -> pa.Table:
    rows = spark.read.parquet(str(found))
    return rows.select("window.start", "window.end", "key", "n", "mean", "top").toArrow()


def _different(ours: pa.Table, expected: pa.Table) -> int:
    """Return how many windows are missing on one side or differ in value; means may differ in their last digits."""
    both = ours.to_pandas().merge(expected.to_pandas(), "outer", ["start", "end", "key"], suffixes=("", "_expected"))
    near = (both["mean"] - both["mean_expected"]).abs() <= 1e-9 * both["mean_expected"].abs()
    return int((~((both["n"] == both["n_expected"]) & (both["top"] == both["top_expected"]) & near)).sum())
