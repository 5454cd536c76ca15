"""Nexmark's query 3, local item suggestion: who sells in three states in one category, and which auctions.

    persons in OR, ID and CA (Delta, from split.py) --+
                                                      +-> join on the seller -> person and auction (Delta)
    auctions in category 10 (Delta, from split.py) ---+

The query in the paper remembers all persons. Here the join forgets a person after ten minutes of event time, which
bounds its state: later auctions of the same person have no result.
"""

from __future__ import annotations

from nexmark_app import AUCTION, PERSON, append, late_option, options, read  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

REMEMBERED = "10 minutes"


def suggest(persons: DataFrame, auctions: DataFrame, late_s: float) -> DataFrame:
    """Return name, city and state of each seller with the id of the auction and when it was opened."""
    sellers = persons.withWatermark("event_time", f"{late_s} seconds").select(
        sf.col("event_time").alias("joined_at"), sf.col("id").alias("person"), "name", "city", "state"
    )
    offers = auctions.withWatermark("event_time", f"{late_s} seconds").select(
        sf.col("event_time").alias("opened_at"), sf.col("id").alias("auction"), "seller"
    )
    remembered = f"opened_at between joined_at and joined_at + interval {REMEMBERED}"
    found = sellers.join(offers, sf.expr(f"person = seller and {remembered}"))
    return found.select("name", "city", "state", "auction", "opened_at")


def main() -> None:
    """Run until stopped."""
    arguments = options(__doc__.splitlines()[0], "persons", "auctions")
    late_option(arguments)
    given = arguments.parse_args()
    spark = SparkSession.builder.appName("q3").getOrCreate()
    persons, auctions = read(spark, given.persons, given, PERSON), read(spark, given.auctions, given, AUCTION)
    append(suggest(persons, auctions, given.late_s), "q3", given)


if __name__ == "__main__":
    main()
