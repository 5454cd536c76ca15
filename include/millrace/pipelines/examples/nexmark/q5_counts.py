"""The first part of Nexmark's query 5, hot items: the bids per auction in each sliding window.

    bids (Delta, from split.py) -> count per window and auction -> counts (Delta, for q5_hottest.py)

The paper's windows are an hour long and start every minute. Here they are 10 s long and start every 2 s.
"""

from __future__ import annotations

from nexmark_app import BID, append, late_option, options, read  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

LENGTH, SLIDE = "10 seconds", "2 seconds"


def count(bids: DataFrame, late_s: float) -> DataFrame:
    """Return the bids per window and auction, once no more bids of that window can arrive."""
    return (
        bids.withWatermark("event_time", f"{late_s} seconds")
        .groupBy(sf.window("event_time", LENGTH, SLIDE), "auction")
        .agg(sf.count("*").alias("bids"))
        .select(
            sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end"), "auction", "bids"
        )
    )


def main() -> None:
    """Run until stopped."""
    arguments = options(__doc__.splitlines()[0], "source")
    late_option(arguments)
    given = arguments.parse_args()
    spark = SparkSession.builder.appName("q5 counts").getOrCreate()
    append(count(read(spark, given.source, given, BID), given.late_s), "q5_counts", given)


if __name__ == "__main__":
    main()
