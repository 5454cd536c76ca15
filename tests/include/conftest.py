"""One Spark session with Delta for all tests that run in Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

SLOTS = 4


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    from pyspark.sql import SparkSession

    from millrace.local.stack.spark_env import driver_submit_conf, environment

    os.environ.update({k: v for k, v in environment().items() if k.startswith(("PYSPARK", "SPARK"))})
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("tests")
    conf = driver_submit_conf() | {
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataProgressEventInterval": "200",
        "spark.driver.memory": "1g",
    }
    session = builder.config(map=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
