"""Nexmark's query 1, currency conversion: the price of each bid in euros.

    bids (Delta, from split.py) -> convert -> bids in euros (Delta)

A dollar is 0.908 euros, as in the benchmark's version for Flink.
"""

from __future__ import annotations

from nexmark_app import BID, append, options, read  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

EUROS_PER_DOLLAR = "0.908"


def convert(bids: DataFrame) -> DataFrame:
    """Return bids with their price in cents of a euro, exact to a thousandth."""
    rate = sf.lit(EUROS_PER_DOLLAR).cast("decimal(4,3)")
    price = (sf.col("price").cast("decimal(18,0)") * rate).cast("decimal(23,3)")
    return bids.withColumn("price", price)


def main() -> None:
    """Run until stopped."""
    given = options(__doc__.splitlines()[0], "source").parse_args()
    spark = SparkSession.builder.appName("q1").getOrCreate()
    append(convert(read(spark, given.source, given, BID)), "q1", given)


if __name__ == "__main__":
    main()
