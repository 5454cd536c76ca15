"""Where cars queue, how many areas have cars, and how fast the last cars of an area were: one batch over a table.

    positions of cars (Delta) -> three small tables, printed

It reads the table of the job ``traffic`` next to it, and uses the functions of Millrace's libraries that batches need.
They work without the rest of Millrace. Run it with Millrace's folder ``include`` in PYTHONPATH and

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 traffic_report.py --source DIR
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from traffic import queued  # type: ignore[import-not-found]

from millrace.windows import panes
from millrace.windows.partitioning import merged, plan, sketch, spread

SAMPLE = 0.2
"""Share of the positions that shows which areas have most of them."""
LAST, STEP = 100, 20
"""Cars of an area that its speed is the mean of, and after how many further cars it is computed again."""


def main() -> None:
    """Print the report."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--source", required=True, help="folder of the Delta table of positions")
    arguments.add_argument("--workers", type=int, default=4, help="tasks that the positions are spread over")
    given = arguments.parse_args()

    spark = SparkSession.builder.appName("traffic_report").getOrCreate()
    positions = spark.read.format("delta").load(given.source)
    for table in (queues(positions, given.workers), areas(positions), speeds(positions)):
        table.show(truncate=False)


def queues(positions: DataFrame, workers: int) -> DataFrame:
    """Return the cars of each area and those that queue; no worker gets many more positions than another."""
    by = plan(sketch(positions, "area", sample=SAMPLE), workers)
    even = spread(positions, "area", by=by)
    found = merged(even, "area", panes.count().alias("cars"), queued(0.0, 0.0))
    return found.orderBy(sf.desc("queued"), "area")


def areas(positions: DataFrame) -> DataFrame:
    """Return the number of areas with cars in windows of five minutes that slide by one minute."""
    with_cars = panes.user_columns(
        "areas",
        sf.collect_set("area"),
        merge=lambda sets: sf.flatten(sf.collect_list(sets)),
        finish=lambda found: sf.size(sf.array_distinct(found)),
    )
    return panes.sliding(positions, "at", "5 minutes", "1 minute").agg(with_cars).orderBy("window")


def speeds(positions: DataFrame) -> DataFrame:
    """Return the mean speed of the last hundred cars of each area, after every twenty of them."""
    rows = panes.sliding_rows(positions, order=["at", "row_id"], size=LAST, slide=STEP, keys="area")
    return rows.agg(panes.avg("speed").alias("kmh")).orderBy("area", "window")


if __name__ == "__main__":
    main()
