"""What the apps in this folder share: options, the table between two apps, a slow call per row, the query's start.

They do not depend on Millrace, only on Delta (``pip install delta-spark==4.4.0``). Run each on its own with

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0
        --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension
        --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog
        clean.py --source DIR --results DIR --checkpoint DIR
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import pandas as pd
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

SENTENCE = "row_id long, text string"
WORD = "row_id long, word string"
ATTEMPTS = 5


def options(description: str) -> argparse.Namespace:
    """Return the options of an app."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--source", required=True, help="folder of the Delta table to read")
    arguments.add_argument("--results", required=True, help="folder of the Delta table to write")
    arguments.add_argument("--checkpoint", required=True, help="folder of the query's checkpoint")
    arguments.add_argument("--wait-ms", type=float, default=0.0, help="time that a call per row takes")
    arguments.add_argument("--max-files", type=int, default=1000, help="most files that a micro-batch reads")
    arguments.add_argument("--trigger-s", type=float, default=0.0, help="least time from one micro-batch to the next")
    return arguments.parse_args()


def create(spark: SparkSession, folder: str, columns: str) -> None:
    """Create a table between two apps if it does not exist: a stream cannot start on a table that does not exist.

    The app that writes it and the app that reads it both do, so either can start first. If they do it at the same
    moment, one of them tries again.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            DeltaTable.createIfNotExists(spark).location(folder).addColumns(StructType.fromDDL(columns)).execute()
        except PySparkException:
            if attempt == ATTEMPTS:
                raise
            time.sleep(attempt)
        else:
            return


def read(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    """Read the source as a stream, in parts of equal size: its files differ in size."""
    rows = spark.readStream.format("delta").option("maxFilesPerTrigger", given.max_files).load(given.source)
    return rows.repartition(spark.sparkContext.defaultParallelism)


def slowly(work: Callable[[pd.DataFrame], pd.DataFrame], wait_ms: float) -> Callable[..., Iterator[pd.DataFrame]]:
    """Return a function for ``mapInPandas`` that does some work after a call to an external service for each row.

    The service is simulated, but the wait is real: it leaves the processor free and keeps the task's slot busy. So more
    slots mean more concurrent calls, even on a small machine.
    """

    def worked(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            time.sleep(wait_ms / 1000 * len(batch))
            yield work(batch)

    return worked


def write(rows: DataFrame, name: str, mode: str, given: argparse.Namespace) -> None:
    """Write rows to the table of results until stopped."""
    query = (
        rows.writeStream.queryName(name)
        .format("delta")
        .outputMode(mode)
        .trigger(processingTime=f"{given.trigger_s} seconds")
        .option("checkpointLocation", given.checkpoint)
        .start(given.results)
    )
    query.awaitTermination()
