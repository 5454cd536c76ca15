"""The query whose work is in its state partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from include.local.stack.spark_env import driver_submit_conf

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


def test_every_partition_has_as_many_keys(spark: Any) -> None:
    from pyspark.sql import functions as sf

    from benchmarks.elastic.scripts.busy_state import KEYS_A_PARTITION, even_keys

    frame = spark.createDataFrame([(key,) for key in even_keys(spark)], "key bigint")
    counted = frame.groupBy("key").count().withColumn("partition", sf.spark_partition_id()).collect()
    assert Counter(row["partition"] for row in counted) == dict.fromkeys(range(PARTITIONS), KEYS_A_PARTITION)
