"""A query of two stages with state, in which one partition of the first feeds each partition of the second.

Rows get a payload after the first stage. Their key in the second stage is chosen so that its partition is that of the
first, shifted: Spark's own numbering puts no pair on one executor.
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from benchmarks.elastic.scripts.busy_state import ROWS_A_BATCH, follow, run

SHIFT = 5
CANDIDATES = 128
"""Numbers to try for a key of the wanted partition: one row in 4,000 finds none, and gets any partition."""
DIGESTS = 256
"""Digests of 64 bytes each: a payload that does not compress away."""


def partition(key: Column, partitions: int) -> Column:
    """Return the shuffle partition of a key."""
    return sf.pmod(sf.hash(key), sf.lit(partitions))


def main() -> None:
    """Run until stopped."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--checkpoint", required=True)
    arguments.add_argument("--executors", type=Path, help="file that says how many to ask for, as in busy_state.py")
    given = arguments.parse_args()

    spark = SparkSession.builder.getOrCreate()
    if given.executors:
        threading.Thread(target=follow, args=(spark, given.executors), daemon=True).start()
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH).load()
    wanted = sf.pmod(partition(sf.col("value"), partitions) + SHIFT, sf.lit(partitions))
    candidates = sf.transform(
        sf.sequence(sf.lit(0), sf.lit(CANDIDATES - 1)), lambda i: sf.col("value") * CANDIDATES + i
    )
    twins = sf.filter(candidates, lambda key: partition(key, partitions) == wanted)
    digests = sf.transform(
        sf.sequence(sf.lit(1), sf.lit(DIGESTS)),
        lambda i: sf.sha2(sf.concat_ws("-", sf.col("value"), i), 256),
    )
    first = rows.dropDuplicates(["value"])
    keyed = first.select(sf.get(twins, sf.lit(0)).alias("twin"), sf.array_join(digests, "").alias("payload"))
    run(keyed.dropDuplicates(["twin"]), "paired_state", "append", given.checkpoint)


if __name__ == "__main__":
    main()
