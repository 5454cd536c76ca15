"""A query whose work is in its state partitions, always under the same load: counts by key, and one wait per key.

With ``--hot`` a third of the keys are in three of the partitions, and duplicates are dropped first, so two stages keep
state. Of the three hot partitions one has a low number, one a middle and one a high number: Spark starts the tasks of a
stage by rising partition, so their positions affect the duration of the stage. With ``--drift N`` as well, ``--seed``
draws three other hot partitions after every N batches. ``--ballast FOLDER`` first adds a gigabyte of state from files
in that folder; no later row uses it.

With ``--executors FILE`` the query keeps the number of executors given in the file, the oldest ones, and leaves
everything else to Spark. This is what a user gets without Millrace when adding executors to a stream or decommissioning
some.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

KEYS_A_PARTITION = 8
HOT, HOT_KEYS = 3, 15
ROWS_A_BATCH = 640
PHASES = 10
"""Phases of a drifting load, before the first one repeats."""
POLL_S = 0.2
BALLAST_KEYS, BALLAST_BYTES, BALLAST_FILES, FILES_A_BATCH = 1 << 18, 1 << 12, 64, 8


def keys_by_partition(spark: SparkSession) -> dict[int, list[int]]:
    """Return keys of each shuffle partition, more than any partition needs."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    numbers = spark.range(100 * partitions).withColumn("partition", sf.pmod(sf.hash("id"), sf.lit(partitions)))
    keys: dict[int, list[int]] = {}
    for row in numbers.collect():
        keys.setdefault(row["partition"], []).append(row["id"])
    return keys


def hot_partitions(partitions: int) -> frozenset[int]:
    """Return the hot partitions: the middle of each third."""
    return frozenset(round((2 * i + 1) * partitions / (2 * HOT)) for i in range(HOT))


def drawn_partitions(partitions: int, seed: int, phase: int) -> frozenset[int]:
    """Return the hot partitions in one phase of a drifting load."""
    return frozenset(random.Random(f"{seed}/{phase}").sample(range(partitions), HOT))  # noqa: S311 - draws, no secrets


def keys_under_load(keys: Mapping[int, Sequence[int]], hot: Collection[int]) -> list[int]:
    """Return keys: the same number for each partition, or a third of all keys in the hot partitions."""
    cold_keys = round(2 * len(hot) * HOT_KEYS / (len(keys) - len(hot)))
    counts = {p: (HOT_KEYS if p in hot else cold_keys) if hot else KEYS_A_PARTITION for p in keys}
    return [key for partition, those in keys.items() for key in those[: counts[partition]]]


def follow(spark: SparkSession, wanted: Path) -> None:
    """Request the number of executors in the file, whenever it changes (runs in its own thread)."""
    from millrace.runtime.agent.allocation import Allocation

    allocation, total, gone = Allocation(spark), 0, set[str]()
    allocation.take_over()
    while True:
        with suppress(OSError, ValueError):
            if (newest := int(wanted.read_text(encoding="utf-8"))) != total and allocation.request(newest):
                total = newest
            # some may register only after the number has dropped
            for executor in allocation.registered()[total:]:
                if executor.id not in gone:
                    allocation.let_go(executor)
                    gone.add(executor.id)
        time.sleep(POLL_S)


def ballast(spark: SparkSession, folder: Path) -> DataFrame:
    """Write rows with keys below 0 and payloads that barely compress, and return them as a stream."""
    keys = spark.range(1, BALLAST_KEYS + 1, numPartitions=BALLAST_FILES).select((-sf.col("id")).alias("key"))
    keys.withColumn("payload", sf.randstr(BALLAST_BYTES, 1)).write.mode("ignore").parquet(str(folder))
    reader = spark.readStream.schema("key long, payload string").option("maxFilesPerTrigger", FILES_A_BATCH)
    return reader.parquet(str(folder))


def run(rows: DataFrame, name: str, output_mode: str, checkpoint: str) -> None:
    """Run a query without output until it is stopped."""
    writer = rows.writeStream.queryName(name).outputMode(output_mode).format("noop")
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def main() -> None:
    """Run until stopped."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--checkpoint", required=True)
    arguments.add_argument("--wait-ms", type=float, default=80.0)
    arguments.add_argument("--executors", type=Path)
    arguments.add_argument("--hot", action="store_true")
    arguments.add_argument("--drift", type=int)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--ballast", type=Path)
    given = arguments.parse_args()

    spark = SparkSession.builder.getOrCreate()
    if given.executors:
        threading.Thread(target=follow, args=(spark, given.executors), daemon=True).start()

    def wait(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            time.sleep(int((batch["key"] >= 0).sum()) * given.wait_ms / 1000)
            yield batch

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH).load()
    rows = rows.dropDuplicates(["value"]) if given.hot else rows
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    hot = [hot_partitions(partitions) if given.hot else frozenset()]
    if given.drift:
        hot = [drawn_partitions(partitions, given.seed, phase) for phase in range(PHASES)]
    keys = keys_by_partition(spark)
    phases = [keys_under_load(keys, those) for those in hot]
    values_a_phase = ROWS_A_BATCH * given.drift if given.drift else 1
    phase = (sf.floor(sf.col("value") / values_a_phase) % len(phases)).cast("int")
    of_phase = sf.get(sf.array(*(sf.array(*map(sf.lit, those)) for those in phases)), phase)
    key = sf.get(of_phase, (sf.col("value") % len(phases[0])).cast("int")).cast("long")
    keyed, size = rows.select(key.alias("key")), sf.lit(0)
    if given.ballast:
        keyed = keyed.withColumn("payload", sf.lit(None).cast("string")).union(ballast(spark, given.ballast))
        size = sf.length(sf.first("payload"))
    counts = keyed.groupBy("key").agg(sf.count("*").alias("count"), size.alias("size"))
    run(counts.mapInPandas(wait, counts.schema), "busy_state", "update", given.checkpoint)


if __name__ == "__main__":
    main()
