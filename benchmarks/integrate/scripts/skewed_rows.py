"""A query whose rows each cost a wait in the state partition of their key: counts rows by key; some partitions are hot.

A wait leaves the processor free, so more executors are faster even on a small machine, if partitions are spread. Each
partition has one key. The results are a JSON file of counts by key.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

SCHEMA = "key long, rows long"


def key_of_each_partition(spark: SparkSession) -> list[int]:
    """Return one key of each shuffle partition."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    numbers = spark.range(100 * partitions).withColumn("partition", sf.pmod(sf.hash("id"), sf.lit(partitions)))
    found = numbers.groupBy("partition").agg(sf.min("id").alias("key")).collect()
    return [row["key"] for row in sorted(found, key=lambda row: row["partition"])]


def partitions_in_turn(rows: Sequence[int]) -> list[int]:
    """Return each partition as often as it has rows of a round, mixed: even a small batch has rows of each."""
    return [p for _, p in sorted(((row + 0.5) / n, p) for p, n in enumerate(rows) for row in range(n))]


def rows_of_partitions(arrived: int, rows: Sequence[int]) -> list[int]:
    """Return the rows of each partition, of those that arrived.

    Args:
        arrived: Rows that arrived.
        rows: Rows of each partition in a round.
    """
    turns = partitions_in_turn(rows)
    rounds, rest = divmod(arrived, len(turns))
    return [rounds * n + turns[:rest].count(p) for p, n in enumerate(rows)]


def main() -> None:
    """Run until stopped."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("source", "results", "checkpoint"):
        arguments.add_argument(f"--{name}", required=True)
    arguments.add_argument("--wait-ms", type=float, required=True)
    arguments.add_argument("--hot", type=lambda text: {int(number) for number in text.split(",")}, required=True)
    arguments.add_argument("--hot-rows", type=int, required=True, help="rows of a hot partition for each round of ids")
    arguments.add_argument("--cold-rows", type=int, required=True)
    arguments.add_argument("--trigger-s", type=float, default=0.0, help="0 for batches one after the other")
    given = arguments.parse_args()
    wait_s, results = given.wait_ms / 1000, Path(given.results)

    def count(key: tuple[int], batches: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        rows = sum(len(batch) for batch in batches)
        time.sleep(rows * wait_s)
        total = rows + (state.get[0] if state.exists else 0)
        state.update((total,))
        yield pd.DataFrame({"key": [key[0]], "rows": [total]})

    spark = SparkSession.builder.getOrCreate()
    keys = key_of_each_partition(spark)
    rows_of = [given.hot_rows if p in given.hot else given.cold_rows for p in range(len(keys))]
    each = [keys[p] for p in partitions_in_turn(rows_of)]
    counts = json.loads(results.read_text()) if results.exists() else {}

    def keep(frame: DataFrame, _: int) -> None:
        counts.update({str(row["key"]): row["rows"] for row in frame.collect()})
        written = results.with_suffix(".new")
        written.write_text(json.dumps(counts))
        written.rename(results)

    rows = spark.readStream.format("delta").load(given.source)
    key = sf.get(sf.array(*map(sf.lit, each)), (sf.col("id") % len(each)).cast("int")).cast("long")
    counted = (
        rows.select(key.alias("key"))
        .groupBy("key")
        .applyInPandasWithState(count, SCHEMA, "rows long", "update", "NoTimeout")
    )
    writer = counted.writeStream.outputMode("update").queryName("skewed").foreachBatch(keep)
    writer = writer.trigger(processingTime=f"{given.trigger_s:g} seconds")
    writer.option("checkpointLocation", given.checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
