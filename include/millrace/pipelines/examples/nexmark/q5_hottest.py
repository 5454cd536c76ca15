"""The second part of Nexmark's query 5, hot items: the auctions with the most bids in each window.

    counts per window and auction (Delta, from q5_counts.py) -> keep the highest of a window -> hot items (Delta)

The end of a window is the event time of its counts.
"""

from __future__ import annotations

from nexmark_app import COUNT, append, late_option, options, read  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf


def hottest(counts: DataFrame, late_s: float) -> DataFrame:
    """Return each window's auctions with the most bids, several if they have equally many.

    The app before writes all counts of a window in one micro-batch.
    """
    windows = (
        counts.withWatermark("window_end", f"{late_s} seconds")
        .groupBy("window_start", "window_end")
        .agg(sf.max("bids").alias("bids"), sf.collect_list(sf.struct("auction", "bids")).alias("counts"))
    )
    hot = windows.select("window_start", "window_end", "bids", sf.explode("counts").alias("counted"))
    return hot.where("counted.bids = bids").select("window_start", "window_end", "counted.auction", "bids")


def main() -> None:
    """Run until stopped."""
    arguments = options(__doc__.splitlines()[0], "source")
    late_option(arguments)
    given = arguments.parse_args()
    spark = SparkSession.builder.appName("q5 hottest").getOrCreate()
    append(hottest(read(spark, given.source, given, COUNT), given.late_s), "q5_hottest", given)


if __name__ == "__main__":
    main()
