"""A Spark session on this machine, with no tuning for the benchmark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from millrace.environment.spark_env import driver_submit_conf, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOTS = 2


@contextmanager
def spark_session(partitions: int = SLOTS) -> Iterator[SparkSession]:
    """Start a session and stop it again.

    Args:
        partitions: Shuffle partitions.
    """
    from pyspark.sql import SparkSession

    os.environ.update({k: v for k, v in environment().items() if k.startswith(("PYSPARK", "SPARK", "JAVA"))})
    conf = driver_submit_conf() | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "3g",
    }
    session = SparkSession.builder.master(f"local[{SLOTS}]").appName("bench").config(map=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
