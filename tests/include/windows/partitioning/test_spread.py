"""Rows to workers on Spark."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.model.errors import MillraceError
from millrace.windows.partitioning import PartitionMap, Sketch, merged, plan, sketch, spread

pytestmark = pytest.mark.spark
GROUPS = 512


def rows(spark: Any, n: int = 20_000) -> Any:
    """Return rows of which half have one key, a tenth null and a tenth NaN."""
    from pyspark.sql import functions as sf

    turn = sf.col("id") % 10
    key = sf.when(turn < 5, 1.5).when(turn == 5, sf.lit(float("nan"))).when(turn > 6, (sf.col("id") % 997) * 0.25)
    return spark.range(0, n, 1, 3).select(key.alias("k"), (sf.col("id") % 3).cast("string").alias("s.t"), "id")


def counted(frame: Any, workers: int) -> list[int]:
    from pyspark.sql import functions as sf

    found = {r[0]: r[1] for r in frame.groupBy(sf.spark_partition_id()).count().collect()}
    assert set(found) <= set(range(workers))
    return [found.get(w, 0) for w in range(workers)]


def by_key(data: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in data.collect():
        found.setdefault(str(row["k"]), []).append(row["id"])
    return {k: sorted(ids) for k, ids in found.items()}


def test_sketch_counts_null_and_nan_keys_as_group_by(spark: Any) -> None:
    data = rows(spark)
    found = sketch(data, "k", capacity=20, key_groups=GROUPS)
    expected = Counter(str(r["k"]) for r in data.collect())
    assert found.total == 20_000
    assert found.hottest(1) == [(1.5,)] and found.frequent[(1.5,)][0] == expected["1.5"]
    assert found.frequent[(None,)][0] == expected["None"] and found.frequent[(math.nan,)][0] == expected["nan"]
    assert len(found.frequent) == 20
    halves = [sketch(data.where(f"id % 2 = {i}"), ["k"], key_groups=GROUPS, capacity=2000) for i in (0, 1)]
    both = halves[0].merge(halves[1])
    assert {str(k[0]): n for k, (n, _) in both.frequent.items()} == expected
    some = sketch(data, "k", sample=0.3, key_groups=GROUPS, seed=1)
    assert some.frequent[(1.5,)][0] == pytest.approx(10_000, rel=0.1)


@pytest.mark.parametrize("method", ["waterfill", "paper_hash"])
def test_spread_fills_partitions_as_the_map_says(spark: Any, method: str) -> None:
    data = rows(spark)
    of = sketch(data, "k", key_groups=GROUPS)
    by = plan(of, 7, method=method, hot_keys=50)
    found = spread(data, "k", by=by)
    assert found.schema == data.schema
    load = counted(found, 7)
    assert np.abs(np.array(load) - by.load(of)).max() < 0.06 * 20_000 / 7
    if method == "waterfill":
        assert np.std(load) / np.mean(load) < 0.03
    assert by_key(found) == by_key(data)


def test_spread_of_a_repeated_task_sends_rows_to_the_same_place(spark: Any) -> None:
    from pyspark.sql import functions as sf

    data = rows(spark, 2000)
    by = plan(sketch(data, "k", key_groups=GROUPS), 5)
    places = [
        {r["id"]: r["p"] for r in spread(frame, "k", by=by).withColumn("p", sf.spark_partition_id()).collect()}
        for frame in (data, data.repartition(9))
    ]
    assert places[0] == places[1]


def test_spread_keeps_rows_of_a_cold_key_together(spark: Any) -> None:
    from pyspark.sql import functions as sf

    data = rows(spark)
    of = sketch(data, "k", key_groups=GROUPS)
    by = plan(of, 6, hot_keys=3)
    found = spread(data, "k", by=by).withColumn("p", sf.spark_partition_id())
    places = {str(r["k"]): r["n"] for r in found.groupBy("k").agg(sf.countDistinct("p").alias("n")).collect()}
    assert {k for k, n in places.items() if n > 1} <= {"1.5", "None", "nan"}
    assert places["1.5"] > 1


def test_spread_plans_the_workers_of_groups_as_one_constant(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data = rows(spark, 100)
    spread(data, "k", by=plan(sketch(data, "k", key_groups=GROUPS), 5)).explain(extended=True)
    parsed, _, optimized = capsys.readouterr().out.partition("== Optimized Logical Plan ==")
    assert "split(" in parsed, "the workers of groups are no longer given as a text: look for them under another name"
    assert "repartition" in optimized.lower() and "split(" not in optimized


def test_spread_recognises_hot_keys_of_many_types(spark: Any) -> None:
    from pyspark.sql import functions as sf

    # the hour in which clocks in New York go back, twice the same local time
    seconds = sf.lit(1_383_454_800) + (sf.col("id") % 2) * 3_600
    data = spark.range(3_000).select(
        sf.timestamp_seconds(seconds).alias("at"),
        (sf.col("id") % 2 == 0).alias("flag"),
        (sf.col("id") % 2).cast("decimal(30,4)").alias("amount"),
        (sf.col("id") % 2).cast("string").cast("binary").alias("bytes"),
        sf.to_date(sf.timestamp_seconds(seconds)).alias("day"),
        "id",
    )
    load = counted(spread(data, ["at", "flag", "amount", "bytes", "day"], 4), 4)
    assert sum(load) == 3_000 and min(load) > 0.8 * 750


def test_spread_of_extreme_input_has_a_defined_outcome(spark: Any) -> None:
    from pyspark.sql import functions as sf

    data = rows(spark, 3000)
    single = data.where("k = 1.5")
    assert counted(spread(data, "k", 1), 1) == [3000]
    assert min(counted(spread(single, "k", 4), 4)) > 0.8 * 1500 / 4
    only_key = spread(single.select("k"), "k", 4)
    assert min(counted(only_key, 4)) > 0.8 * 1500 / 4
    assert sum(counted(spread(data.limit(3), "k", 40), 40)) == 3
    assert spread(data.where("false"), "k", 4).collect() == []
    mapped = data.select("k", sf.create_map(sf.lit("id"), "id").alias("not hashable"), "id")
    assert sum(counted(spread(mapped, ["k", "id"], 3), 3)) == 3000
    nested = data.select("k", sf.array(sf.create_map(sf.lit("id"), "id")).alias("nested"))
    assert sum(counted(spread(nested, "k", 3), 3)) == 3000


def test_spread_of_a_stream_spreads_each_batch(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    data = rows(spark, 4000)
    data.write.parquet(str(tmp_path / "source"))
    by = plan(sketch(data, "k", key_groups=GROUPS), 4)
    stream = spark.readStream.schema(data.schema).parquet(str(tmp_path / "source"))
    loads: list[list[int]] = []
    spread_stream = spread(stream, "k", by=by)
    with pytest.raises(MillraceError, match="by=plan"):
        spread(stream, "k", 4)

    def measure(batch: Any, number: int) -> None:
        places = batch.select(sf.spark_partition_id().alias("p")).collect()
        loads.append(sorted(Counter(r["p"] for r in places).values()))

    writer = spread_stream.writeStream.foreachBatch(measure).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert [sum(load) for load in loads] == [4000]
    assert len(loads[0]) == 4 and loads[0][0] > 0.85 * 1000


def test_merged_results_of_split_hot_keys_match_group_by(spark: Any) -> None:
    from pyspark.sql import functions as sf

    from millrace.windows import panes

    data = rows(spark).withColumn("s", sf.col("`s.t`")).drop("s.t")
    median = panes.user_defined(
        "median",
        ["id"],
        state="ids array<long>",
        returns="double",
        init=lambda: ([],),
        update=lambda state, rows: (state[0] + rows["id"].tolist(),),
        merge=lambda a, b: (a[0] + b[0],),
        finish=lambda state: float(sorted(state[0])[(len(state[0]) - 1) // 2]),
    )
    found = merged(spread(data, "k", 5), ["k", "s"], panes.count(), panes.avg("id"), panes.max("s"), median)
    expected = data.groupBy("k", "s").agg(
        sf.count("*"),
        sf.avg("id"),
        sf.max("s"),
        sf.element_at(sf.array_sort(sf.collect_list("id")), sf.floor((sf.count("*") - 1) / 2).cast("int") + 1)
        .cast("double")
        .alias("median"),
    )
    assert found.columns == expected.columns
    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))


def test_spread_and_sketch_when_arguments_are_bad_then_error_names_them(spark: Any) -> None:
    from pyspark.sql import functions as sf

    data = rows(spark, 10)
    lists = data.select("k", sf.array("id").alias("parts"))
    for call, key in (
        (lambda: sketch(data, "nope"), "key"),
        (lambda: sketch(data, []), "key"),
        (lambda: sketch(lists, "parts"), "key"),
        (lambda: spread(lists, ["k", "parts"], by=PartitionMap(2, np.zeros(4, int), {})), "key"),
        (lambda: sketch(data, "k", sample=0.0), "sample"),
        (lambda: sketch(data, "k", capacity=0), "capacity"),
        (lambda: spread(data, "k"), "workers"),
        (lambda: spread(data, "k", 0), "workers"),
        (lambda: spread(data, "k", 2, salt="nope"), "key"),
        (lambda: spread(data, "k", 2, by=PartitionMap(2, np.zeros(4, int), {})), "workers"),
        (lambda: sketch(spark.readStream.format("rate").load(), "value"), "rows"),
    ):
        with pytest.raises(MillraceError) as caught:
            call()
        assert caught.value.key == key
    assert Sketch(np.zeros(3), {}).total == 0
