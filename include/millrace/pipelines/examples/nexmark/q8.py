"""Nexmark's query 8, monitor new users: persons who opened auctions in the window in which they joined.

    persons (Delta, from split.py) ---+
                                      +-> join on the seller and the window -> person and reserve price (Delta)
    auctions (Delta, from split.py) --+

The paper's windows are 12 hours long. Here they are 10 s long.
"""

from __future__ import annotations

from nexmark_app import AUCTION, PERSON, append, late_option, options, read  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

LENGTH = "10 seconds"


def monitor(persons: DataFrame, auctions: DataFrame, late_s: float) -> DataFrame:
    """Return id and name of each new person with the reserve price of each auction, by window."""
    joined = persons.withWatermark("event_time", f"{late_s} seconds").select(
        sf.window("event_time", LENGTH).alias("window"), "id", "name"
    )
    opened = auctions.withWatermark("event_time", f"{late_s} seconds").select(
        sf.window("event_time", LENGTH).alias("opened_in"), sf.col("id").alias("auction"), "seller", "reserve"
    )
    found = joined.join(opened, sf.expr("id = seller and window = opened_in"))
    return found.select(sf.col("window.start").alias("window_start"), "id", "name", "auction", "reserve")


def main() -> None:
    """Run until stopped."""
    arguments = options(__doc__.splitlines()[0], "persons", "auctions")
    late_option(arguments)
    given = arguments.parse_args()
    spark = SparkSession.builder.appName("q8").getOrCreate()
    persons, auctions = read(spark, given.persons, given, PERSON), read(spark, given.auctions, given, AUCTION)
    append(monitor(persons, auctions, given.late_s), "q8", given)


if __name__ == "__main__":
    main()
