"""The one function of a fleet: how to ingest one table. Everything in it is plain PySpark.

Each folder below ``options["landing"]`` is a stream, and gets a query with its own checkpoint. Rows without a key are
dropped; the others get the day of their event, after a call to a service for each row. The service is simulated, but
the wait is real: it leaves the processor free and keeps a slot busy, so more drivers are faster even on a small
machine. With ``wait_ms`` 0 there is no call.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import DataStreamWriter


def stream(spark: SparkSession, name: str, options: dict[str, Any]) -> DataStreamWriter:
    """Return the writer of one stream; the fleet gives it its name and its checkpoint, and starts it."""
    rows = spark.readStream.format("delta").load(f"{options['landing']}/{name}")
    writer = ingested(rows, options.get("wait_ms", 0)).writeStream.format("delta")
    return writer.option("path", f"{options['bronze']}/{name}").trigger(processingTime="30 seconds")


def ingested(rows: DataFrame, wait_ms: int) -> DataFrame:
    """Return the rows of one table as they are stored; the same for a stream and a batch.

    Args:
        rows: Columns ``row_id``, ``event_time``, ``key`` and ``amount_cents``.
        wait_ms: Time that a call per row takes.
    """
    kept = rows.where("key is not null").withColumn("day", sf.to_date("event_time"))
    if not wait_ms:
        return kept
    return kept.where(sf.expr(f"java_method('java.lang.Thread', 'sleep', {int(wait_ms)}L)").isNotNull())
