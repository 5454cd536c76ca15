"""Nexmark's query 2, selection: the bids for every 123rd auction.

    bids (Delta, from split.py) -> select -> auction and price (Delta)

The paper names five auctions. As in Apache Beam's suite, more are selected, and results keep coming.
"""

from __future__ import annotations

from nexmark_app import BID, append, options, read  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

EVERY = 123


def select(bids: DataFrame) -> DataFrame:
    """Return auction and price of the bids for every 123rd auction."""
    return bids.where(sf.col("auction") % EVERY == 0).select("row_id", "auction", "price")


def main() -> None:
    """Run until stopped."""
    given = options(__doc__.splitlines()[0], "source").parse_args()
    spark = SparkSession.builder.appName("q2").getOrCreate()
    append(select(read(spark, given.source, given, BID)), "q2", given)


if __name__ == "__main__":
    main()
