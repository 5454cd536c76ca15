"""A query that does its work in its state partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from millrace.environment.spark_env import driver_submit_conf

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PARTITIONS = 16


@pytest.fixture
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    conf = driver_submit_conf() | {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.adaptive.enabled": "false",
    }
    session = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    yield session
    session.stop()


def keys_a_partition(spark: Any, hot: Collection[int]) -> Counter[int]:
    from pyspark.sql import functions as sf

    from benchmarks.elastic.scripts.busy_state import keys_by_partition, keys_under_load

    keys = keys_under_load(keys_by_partition(spark), hot)
    frame = spark.createDataFrame([(key,) for key in keys], "key bigint")
    counted = frame.groupBy("key").count().withColumn("partition", sf.spark_partition_id()).collect()
    return Counter(row["partition"] for row in counted)


def test_every_partition_has_the_same_number_of_keys(spark: Any) -> None:
    from benchmarks.elastic.scripts.busy_state import KEYS_A_PARTITION

    assert keys_a_partition(spark, ()) == dict.fromkeys(range(PARTITIONS), KEYS_A_PARTITION)


def test_hot_partitions_have_a_third_of_the_keys(spark: Any) -> None:
    from benchmarks.elastic.scripts.busy_state import hot_partitions

    hot = hot_partitions(PARTITIONS)
    counts = keys_a_partition(spark, hot)
    assert len({counts[partition] for partition in hot}) == 1
    assert len({counts[partition] for partition in counts.keys() - hot}) == 1
    assert sum(counts[partition] for partition in hot) == pytest.approx(counts.total() / 3, rel=0.05)
    assert len(counts) == PARTITIONS


def test_drawn_partitions_vary_by_seed_and_phase_and_are_repeatable() -> None:
    from benchmarks.elastic.scripts.busy_state import HOT, drawn_partitions

    draws = [(seed, phase) for seed in range(3) for phase in range(3)]
    drawn = [drawn_partitions(PARTITIONS, *draw) for draw in draws]
    assert drawn == [drawn_partitions(PARTITIONS, *draw) for draw in draws]
    assert len({*drawn}) > 6 and {len(those) for those in drawn} == {HOT}
