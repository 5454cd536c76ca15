"""Loads the classes that a streaming driver needs, so that set-up can archive them.

Usage: spark-submit jobs/train_archive.py SCRATCH_FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

# this folder's modules must hide no others, such as the standard library's profile
sys.path.pop(0)

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.listener import StreamingQueryListener

ROWS = 400
FILES = 4


class Listener(StreamingQueryListener):
    """Takes the same events as telemetry, to load the classes behind them."""

    def onQueryStarted(self, event: object) -> None:  # noqa: N802 - PySpark's names
        """Do nothing."""

    def onQueryProgress(self, event: object) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryIdle(self, event: object) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: object) -> None:  # noqa: N802
        """Do nothing."""


def _same(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from frames


def _append(spark: SparkSession, table: str) -> None:
    rows = spark.range(ROWS).select(
        "id",
        f.timestamp_seconds(f.col("id") * 7).alias("time"),
        (f.col("id") % 10).alias("key"),
        f.concat_ws(",", f.col("id"), f.col("id")).alias("text"),
    )
    rows.repartition(FILES).write.format("delta").mode("append").save(table)


def _stream(spark: SparkSession, table: str) -> DataFrame:
    rows = spark.readStream.format("delta").option("maxFilesPerTrigger", FILES).load(table)
    keys = spark.createDataFrame([(i, f"k{i}") for i in range(10)], "key long, name string")
    return (
        rows.mapInPandas(_same, rows.schema)
        .join(f.broadcast(keys), "key")
        .withWatermark("time", "1 minute")
        .groupBy(f.window("time", "5 minutes"), "name")
        .agg(f.count("*").alias("rows"), f.avg("id").alias("mean"))
    )


def main(scratch: Path) -> None:
    """Run a stateful query from Delta to Delta over a few batches.

    Args:
        scratch: Folder for its tables.
    """
    spark = (
        SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.databricks.delta.snapshotPartitions", 1)
        .getOrCreate()
    )
    spark.streams.addListener(Listener())
    source, results = str(scratch / "source"), str(scratch / "results")
    _append(spark, source)
    _append(spark, source)
    query = (
        _stream(spark, source)
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start(results)
    )
    query.awaitTermination()
    spark.read.format("delta").load(results).count()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
