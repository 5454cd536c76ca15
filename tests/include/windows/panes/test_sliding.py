"""Panes compared with Spark's own windows, batch and stream, row by row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from millrace.model.errors import MillraceError
from tests.include.windows.panes.same import different

COLUMNS = [
    ("count", "*"),
    ("count", "v"),
    ("sum", "i"),
    ("sum", "v"),
    ("sum", "d"),
    ("avg", "i"),
    ("avg", "v"),
    ("avg", "d"),
    ("min", "v"),
    ("max", "v"),
    ("min", "s"),
    ("max", "d"),
    ("max", "ts"),
    ("var_pop", "v"),
    ("var_samp", "i"),
    ("stddev_pop", "i"),
    ("stddev_samp", "v"),
    ("stddev", "d"),
    ("variance", "i"),
]
KEYS = ["k", "s"]
pytestmark = pytest.mark.spark


def rows(spark: Any, n: int = 600, step_s: int = 11) -> Any:
    """Return unordered rows around 1970 with nulls and NaN everywhere."""
    from pyspark.sql import functions as sf

    i = sf.pmod(sf.col("id") * 37, sf.lit(n))
    return spark.range(0, n, 1, 3).select(
        sf.when(i % 29 != 0, sf.timestamp_seconds((i - n // 2) * step_s)).alias("ts"),
        sf.when(i % 5 != 0, i % 3).alias("k"),
        sf.when(i % 7 != 0, (i % 4).cast("string")).alias("s"),
        sf.when(i % 53 == 0, sf.lit(float("nan"))).when(i % 11 != 0, i * 0.37 + 1e6).alias("v"),
        sf.when(i % 13 != 0, (i - 300).cast("int")).alias("i"),
        sf.when(i % 3 != 0, (i * 0.07 / 3).cast("decimal(18,9)")).alias("d"),
    )


def panes_of(name: str, column: str) -> Any:
    from millrace.windows import panes

    return getattr(panes, name)(column)


def ours() -> list[Any]:
    return [panes_of(name, column) for name, column in COLUMNS]


def theirs() -> list[Any]:
    from pyspark.sql import functions as sf

    return [getattr(sf, name)(column) for name, column in COLUMNS]


def last(kind: str = "timestamp") -> Any:
    """Return a user's aggregate that depends on order: the newest value."""
    from millrace.windows import panes

    def update(state: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
        newest = rows.loc[rows["ts"].idxmax()]
        found = (newest["ts"].to_pydatetime(), int(newest["id"]))
        return found if state[0] is None or found[0] > state[0] else state

    return panes.user_defined(
        "last",
        ["ts", "id"],
        state=f"at {kind}, id long",
        returns="long",
        init=lambda: (None, None),
        update=update,
        merge=lambda a, b: max(a, b, key=lambda s: s[0]),
        finish=lambda s: s[1],
    )


@pytest.mark.parametrize(
    ("size", "slide", "start", "keys", "arrow"),
    [
        ("12 minutes", "4 minutes", "0 seconds", KEYS, True),
        ("10 minutes", "4 minutes", "90 seconds", ["k"], False),
        (timedelta(minutes=5), timedelta(minutes=5), "-1 minute", [], False),
    ],
)
def test_agg_of_a_batch_matches_sparks_windows(
    spark: Any, size: str, slide: str, start: str, keys: list[str], arrow: bool
) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows.aggregates.plan import AggregationPlan
    from millrace.windows.panes import sliding
    from millrace.windows.panes.sliding import microseconds, text

    data = rows(spark)
    spans = [text(microseconds("", length)) for length in (size, slide, start)]
    expected = data.groupBy(sf.window("ts", *spans), *keys).agg(*theirs())
    windows = sliding(data, "ts", size, slide, keys, start=start)
    found = windows._from_rows(AggregationPlan(data, tuple(keys), tuple(ours()))) if arrow else windows.agg(*ours())
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in expected.schema]
    assert not different(found.collect(), expected.collect(), 1 + len(keys))


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_agg_matches_spark_across_clock_changes_and_odd_keys(spark: Any, kind: str) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows.aggregates.plan import AggregationPlan
    from millrace.windows.panes import sliding

    key = sf.array(*map(sf.lit, (None, float("nan"), 0.0, -0.0, 1.5)))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        # half an hour apart over the day on which clocks in New York went forward, 2013-03-10
        at = sf.timestamp_seconds(1_362_800_000 + sf.col("id") * 1_800).cast(kind)
        data = spark.range(0, 200, 1, 3).select(at.alias("ts"), sf.get(key, sf.col("id") % 5).alias("k"), "id")
        spans = ("1 day", "9 hours", "5 hours")
        expected = data.groupBy(sf.window("ts", *spans), "k").agg(sf.count("*"), sf.max("ts"), sf.sum("id")).collect()
        windows = sliding(data, "ts", *spans[:2], "k", start=spans[2])
        aggregates = [panes_of("count", "*"), panes_of("max", "ts"), panes_of("sum", "id")]
        assert not different(windows.agg(*aggregates).collect(), expected, 2)
        folded = windows._from_rows(AggregationPlan(data, ("k",), tuple(aggregates)))
        assert not different(folded.collect(), expected, 2)
        newest = data.groupBy(sf.window("ts", *spans), "k").agg(sf.max_by("id", "ts").alias("last")).collect()
        assert not different(windows.agg(last(kind)).collect(), newest, 2)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_agg_of_user_aggregates_matches_spark_over_whole_windows(spark: Any) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes

    data = rows(spark).withColumn("id", sf.unix_seconds("ts"))
    expected = data.groupBy(sf.window("ts", "9 minutes", "6 minutes"), "k").agg(
        sf.max("id").alias("last"), sf.countDistinct("s").alias("texts")
    )
    texts = panes.user_columns(
        "texts",
        sf.collect_set("s"),
        merge=lambda sets: sf.flatten(sf.collect_list(sets)),
        finish=lambda all_of: sf.size(sf.array_distinct(all_of)).cast("long"),
    )
    windows = panes.sliding(data, "ts", "9 minutes", "6 minutes", "k")
    assert not different(windows.agg(last()).collect(), expected.drop("texts").collect(), 2)
    assert not different(windows.agg(texts).collect(), expected.drop("last").collect(), 2)


def test_agg_of_expressions_or_named_columns_has_sparks_names(spark: Any) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes

    data = rows(spark)
    day = sf.to_date("ts").alias("day")
    windows = panes.sliding(data, sf.col("ts"), "10 minutes", "5 minutes", [day])
    found = windows.agg(panes.max(sf.col("i") * 2), panes.avg("v").alias("mean"))
    expected = data.groupBy(sf.window("ts", "10 minutes", "5 minutes"), day).agg(
        sf.max(sf.col("i") * 2), sf.avg("v").alias("mean")
    )
    assert found.columns == expected.columns
    assert not different(found.collect(), expected.collect(), 2)


def test_agg_without_rows_has_no_windows(spark: Any) -> None:
    from millrace.windows import panes

    empty = rows(spark).where("false")
    windows = panes.sliding(empty, "ts", "10 minutes", "4 minutes", "k")
    assert windows.agg(*ours()).collect() == []
    assert panes.sliding(empty.withColumn("id", empty["k"]), "ts", "10 minutes", "4 minutes").agg(last()).count() == 0


FILES = (
    [(0, 0), (65, 1), (130, 2), (200, 3)],
    [(400, 4), (600, 5), (3600, 6)],  # from here on the watermark is 3300 s
    [(3290, 7), (3310, 8), (2900, 9), (2000, 10), (3700, 11)],  # late: in closed panes, but of open windows; too late
    [(3150, 12), (9000, 13)],
    [(9100, 14), (8000, 15)],
)
"""Seconds and ids of the rows of each micro-batch."""


def source(spark: Any, folder: Path, files: Any = FILES) -> Callable[[], Any]:
    from pyspark.sql import functions as sf

    for number, file in enumerate(files):
        frame = spark.createDataFrame(file, "at long, id long")
        frame.select(sf.timestamp_seconds("at").alias("ts"), (sf.col("id") % 2).alias("k"), "id").coalesce(
            1
        ).write.parquet(str(folder / f"{number}"))
    schema = spark.read.parquet(str(folder / "0")).schema

    def stream() -> Any:
        read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "*"))
        return read.withWatermark("ts", "5 minutes")

    return stream


def batches(frame: Any, checkpoint: Path, mode: str = "append") -> list[list[Any]]:
    """Return the rows of each micro-batch that has any."""
    found: list[list[Any]] = []

    def collect(batch: Any, number: int) -> None:
        some = batch.collect()
        if some:
            found.append(some)

    writer = frame.writeStream.outputMode(mode).foreachBatch(collect).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    return found


@pytest.mark.parametrize("mode", ["append", pytest.param("update", marks=pytest.mark.slow)])
def test_agg_of_a_stream_with_late_rows_emits_the_same_as_spark(spark: Any, tmp_path: Path, mode: str) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes

    stream = source(spark, tmp_path / "source")
    spans = ("20 minutes", "8 minutes", "90 seconds")
    expected = stream().groupBy(sf.window("ts", *spans), "k").agg(sf.count("*"), sf.avg("id"), sf.stddev("id"))
    windows = panes.sliding(stream(), "ts", *spans[:2], "k", start=spans[2])
    found = windows.agg(panes.count(), panes.avg("id"), panes.stddev("id"))
    theirs_by_batch = batches(expected, tmp_path / "theirs", mode)
    ours_by_batch = batches(found, tmp_path / "ours", mode)
    assert len(ours_by_batch) == len(theirs_by_batch) >= 2
    assert not [d for a, b in zip(ours_by_batch, theirs_by_batch, strict=True) for d in different(a, b, 2)]


def test_agg_of_a_streamed_user_aggregate_counts_late_rows(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes

    stream = source(spark, tmp_path / "source")
    spans = ("20 minutes", "8 minutes")
    found = batches(panes.sliding(stream(), "ts", *spans).agg(last(), panes.count()), tmp_path / "ours")
    newest = sf.max_by("id", "ts").alias("last")
    expected = batches(stream().groupBy(sf.window("ts", *spans)).agg(newest, sf.count("*")), tmp_path / "theirs")
    assert len(found) == len(expected)
    assert not different([*chain(*found)], [*chain(*expected)], 1)


def test_agg_by_panes_counts_rows_within_the_delay(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes

    # each row at most 5 minutes behind the newest one before it
    files = ([(0, 0), (250, 1)], [(100, 2), (900, 3)], [(700, 4), (601, 5)], [(5000, 6), (4800, 7)], [(9000, 8)])
    stream = source(spark, tmp_path / "source", files)
    distinct = panes.user_columns(
        "ids", sf.collect_set("id"), lambda s: sf.flatten(sf.collect_list(s)), lambda s: sf.array_sort(s)
    )
    windows = panes.sliding(stream(), "ts", "20 minutes", "8 minutes", "k", late="panes")
    expected = stream().groupBy(sf.window("ts", "20 minutes", "8 minutes"), "k")
    ours_by_batch = batches(windows.agg(distinct, panes.sum("id")), tmp_path / "ours")
    theirs_by_batch = batches(
        expected.agg(sf.array_sort(sf.collect_set("id")).alias("ids"), sf.sum("id")), tmp_path / "theirs"
    )
    assert len(ours_by_batch) == len(theirs_by_batch) >= 2
    assert not [d for a, b in zip(ours_by_batch, theirs_by_batch, strict=True) for d in different(a, b, 2)]


def test_sliding_when_arguments_are_bad_then_error_names_them(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes

    data = rows(spark, 5).withColumn("id", sf.unix_seconds("ts"))
    for arguments, key in (
        (("ts", "0 minutes", "0 minutes"), "size"),
        (("ts", "5 minutes", "-1 minute"), "slide"),
        (("ts", "5 minutes", "6 minutes"), "slide"),
        (("ts", "5 months", "1 minute"), "size"),
        (("i", "5 minutes", "1 minute"), "time"),
    ):
        with pytest.raises(MillraceError) as caught:
            panes.sliding(data, *arguments)
        assert caught.value.key == key
    for options, key in (({"start": "1 minute"}, "start"), ({"late": "never"}, "late")):
        with pytest.raises(MillraceError) as caught:
            panes.sliding(data, "ts", "5 minutes", "1 minute", **options)
        assert caught.value.key == key
    windows = panes.sliding(data, "ts", "5 minutes", "1 minute", "k")
    pair = panes.user_columns("p", sf.collect_set("i"), sf.first)
    for aggregates in ((), (panes.count(), panes.count()), (panes.max("i").alias("window"),), (pair, last())):
        with pytest.raises(MillraceError, match="aggregates"):
            windows.agg(*aggregates)
    stream = panes.sliding(source(spark, tmp_path)(), "ts", "5 minutes", "1 minute", [sf.array("k").alias("list")])
    with pytest.raises(MillraceError, match="list: array"):
        stream.agg(panes.count())
    with pytest.raises(MillraceError, match='late="panes"'):
        stream.agg(panes.user_columns("p", sf.collect_set("id"), sf.first))
