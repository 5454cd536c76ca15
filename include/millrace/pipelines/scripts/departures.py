"""Combine departures from several source tables into one: a plain Structured Streaming job.

It does not depend on Millrace. Run it on its own with

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 departures.py --source A --source B --results DIR
        --checkpoint DIR
"""

from __future__ import annotations

import argparse
from functools import reduce

from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    """Run until stopped."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--source", action="append", required=True, help="folder of a Delta table of flights")
    arguments.add_argument("--results", required=True, help="folder of the Delta table of departures")
    arguments.add_argument("--checkpoint", required=True, help="folder of the query's checkpoint")
    given = arguments.parse_args()

    spark = SparkSession.builder.appName("departures").getOrCreate()
    read = [spark.readStream.format("delta").load(source) for source in given.source]
    rows = reduce(DataFrame.unionByName, read).select("row_id", "event_time", "origin", "dest", "carrier", "tailnum")
    query = (
        rows.writeStream.queryName("departures")
        .format("delta")
        .option("checkpointLocation", given.checkpoint)
        .start(given.results)
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
