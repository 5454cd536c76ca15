"""Panes of skewed keys and of bursts, divided among workers: the windows are those of Spark."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.model.errors import MillraceError
from millrace.windows.partitioning import followed, plan, sketch
from tests.include.windows.panes.same import different

pytestmark = pytest.mark.spark
SIZE, SLIDE = "10 minutes", "4 minutes"


def rows(spark: Any, n: int = 6000) -> Any:
    """Return rows of an hour, half of them of one key, and half of them in one minute."""
    from pyspark.sql import functions as sf

    second = sf.when(sf.col("id") % 2 == 0, 1800 + sf.col("id") % 60).otherwise(sf.col("id") % 3600)
    return spark.range(0, n, 1, 3).select(
        sf.when(sf.col("id") % 7 > 0, sf.timestamp_seconds(second)).alias("ts"),
        sf.when(sf.col("id") % 4 > 1, "a").when(sf.col("id") % 4 > 0, (sf.col("id") % 50).cast("string")).alias("k"),
        (sf.col("id") % 91).cast("double").alias("v"),
    )


def slow() -> Any:
    from millrace.windows import panes

    return panes.user_defined(
        "slow",
        ["v"],
        state="n long, rows long",
        returns="n long, rows long",
        init=lambda: (0, 0),
        update=lambda state, found: (state[0] + int((found["v"] < 10).sum()), state[1] + len(found)),
        merge=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        finish=lambda state: {"n": state[0], "rows": state[1]},
    )


def spark_windows(data: Any, *keys: str) -> Any:
    from pyspark.sql import functions as sf

    slow_rows = sf.struct(sf.sum((sf.col("v") < 10).cast("long")).alias("n"), sf.count("*").alias("rows"))
    found = data.groupBy(sf.window("ts", SIZE, SLIDE), *keys)
    return found.agg(sf.count("*"), sf.avg("v"), sf.max("v"), slow_rows.alias("slow"))


def ours() -> list[Any]:
    from millrace.windows import panes

    return [panes.count(), panes.avg("v"), panes.max("v"), slow()]


def test_windows_of_spread_keys_are_those_of_spark(spark: Any) -> None:
    from millrace.windows import panes

    data = rows(spark)
    expected = spark_windows(data, "k").collect()
    assert len(expected) > 100
    for by in (followed("keys", 5), plan(sketch(data, "k"), 5)):
        assert different(panes.sliding(data, "ts", SIZE, SLIDE, "k", by=by).agg(*ours()).collect(), expected, 2) == []
    without_python = panes.sliding(data, "ts", SIZE, SLIDE, "k", by=followed("keys", 3)).agg(panes.count())
    assert different(without_python.collect(), [row[:3] for row in expected], 2) == []


def test_panes_without_keys_are_divided_among_all_workers(spark: Any) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes

    data = rows(spark)
    spread = panes.sliding(data, "ts", SIZE, SLIDE, by=followed("panes", 5))
    burst = spread.rows.where("ts >= '1970-01-01 00:30:00' and ts < '1970-01-01 00:31:00'")
    at = [r["count"] for r in burst.groupBy(sf.spark_partition_id()).count().collect()]
    assert len(at) == 5 and max(at) < 1.2 * sum(at) / 5
    assert spread.rows.columns == data.columns
    assert different(spread.agg(*ours()).collect(), spark_windows(data).collect(), 1) == []


def test_sliding_when_it_cannot_spread_then_error_names_the_argument(spark: Any) -> None:
    from millrace.windows import panes

    data = rows(spark, 10)
    fixed = plan(sketch(data, "k"), 2)
    for call, key in (
        (lambda: panes.sliding(data, "ts", SIZE, SLIDE, [data["k"]], by=fixed), "keys"),
        (lambda: panes.sliding(data, "ts", SIZE, SLIDE, by=fixed), "by"),
        (lambda: panes.sliding(data, "ts", SIZE, SLIDE, "nope", by=followed("keys")), "key"),
    ):
        with pytest.raises(MillraceError) as caught:
            call()
        assert caught.value.key == key
