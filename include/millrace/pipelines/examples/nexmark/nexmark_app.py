"""What the apps in this folder share: options, tables between apps, a slow call per row, and the query's start."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import pandas as pd
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

# tables between two apps
PERSON = """
    row_id long, event_time timestamp, id long, name string, email string, credit_card string, city string,
    state string
"""
AUCTION = """
    row_id long, event_time timestamp, id long, item string, initial_bid long, reserve long, expires timestamp,
    seller long, category long
"""
BID = "row_id long, event_time timestamp, auction long, bidder long, price long"
COUNT = "window_start timestamp, window_end timestamp, auction long, bids long"

ATTEMPTS = 5


def options(description: str, *sources: str) -> argparse.ArgumentParser:
    """Return the options of an app, with one for the table of each source."""
    arguments = argparse.ArgumentParser(description=description)
    for source in sources:
        arguments.add_argument(f"--{source}", required=True, help="folder of a Delta table to read")
    arguments.add_argument("--results", required=True, help="folder of the Delta table to append to")
    arguments.add_argument("--checkpoint", required=True, help="folder of the query's checkpoint")
    arguments.add_argument("--wait-ms", type=float, default=0.0, help="time that a call per row takes; 0: no calls")
    arguments.add_argument("--max-files", type=int, default=64, help="most files that a micro-batch reads")
    arguments.add_argument("--trigger-s", type=float, default=0.0, help="least time from one micro-batch to the next")
    arguments.add_argument("--once", action="store_true", help="process what is there, then end")
    return arguments


def late_option(arguments: argparse.ArgumentParser) -> None:
    """Add the option for the watermark's delay.

    The app before writes each of its micro-batches as one commit, and this app may read a commit in two parts. So the
    delay must be longer than the event time that a micro-batch of the app before spans.
    """
    arguments.add_argument("--late-s", type=float, default=30.0, help="how late rows may be, seconds of event time")


def read(spark: SparkSession, folder: str, given: argparse.Namespace, columns: str | None = None) -> DataFrame:
    """Read a table as a stream; with ``columns``, create the table if the app that writes it has not started yet."""
    if columns is not None:
        create(spark, folder, StructType.fromDDL(columns))
    rows = spark.readStream.format("delta").option("maxFilesPerTrigger", given.max_files).load(folder)
    return call_for_each(rows, given.wait_ms)


def create(spark: SparkSession, folder: str, columns: StructType) -> None:
    """Create a table if it does not exist. If another app creates it at the same moment, one of the two tries again."""
    fields = [StructField(column.name, column.dataType) for column in columns]
    for attempt in range(1, ATTEMPTS + 1):
        try:
            DeltaTable.createIfNotExists(spark).location(folder).addColumns(StructType(fields)).execute()
        except PySparkException:
            if attempt == ATTEMPTS:
                raise
            time.sleep(attempt)
        else:
            return


def call_for_each(rows: DataFrame, wait_ms: float) -> DataFrame:
    """Pass rows on after a call to an external service for each, which takes ``wait_ms``.

    The service is simulated, but the wait is real: it leaves the processor free and keeps the task's slot busy. So more
    slots mean more concurrent calls, even on a small machine.
    """
    if wait_ms <= 0:
        return rows

    def call(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            time.sleep(len(batch) * wait_ms / 1000)
            yield batch

    evenly = rows.repartition(rows.sparkSession.sparkContext.defaultParallelism)  # files differ in size
    return evenly.mapInPandas(call, rows.schema)


def append(rows: DataFrame, name: str, given: argparse.Namespace) -> None:
    """Append rows to the table of results until stopped, or with ``--once``, until all sources are processed."""
    create(rows.sparkSession, given.results, rows.schema)
    once = {"availableNow": True} if given.once else {"processingTime": f"{given.trigger_s} seconds"}
    query = (
        rows.writeStream.queryName(name)
        .format("delta")
        .outputMode("append")
        .trigger(**once)
        .option("checkpointLocation", given.checkpoint)
        .start(given.results)
    )
    query.awaitTermination()
