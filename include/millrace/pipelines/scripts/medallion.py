"""The flights of ``delays.py`` as three jobs that are joined by Delta tables, each with its own driver and checkpoint.

    flights -> clean -> enrich -> delays

It does not depend on Millrace. Run each job on its own, next to ``delays.py``, by spark-submit with Delta's package:

    medallion.py clean --source DIR --results DIR --checkpoint DIR
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable

from delays import add_options, append, delays, from_delta, looked_up, parse, read_planes, register_file
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

CLEAN = """
    row_id long, event_time timestamp, carrier string, origin string, dest string, tailnum string, flight_date date,
    dep_delay_min int, arr_delay_min int, airline string
"""
ENRICHED = f"{CLEAN}, manufacturer string, model string"


def clean(flights: DataFrame, wait_s: float) -> DataFrame:
    """Convert text to types, and keep the flights of known airlines."""
    with register_file("airlines").open(encoding="utf-8") as lines:
        airlines = {row["carrier"]: (row["name"],) for row in csv.DictReader(lines)}
    return looked_up(parse(flights), "carrier", airlines, "airline string", wait_s).where("airline is not null")


def enrich(flights: DataFrame, wait_s: float) -> DataFrame:
    """Add manufacturer and model of each flight's plane."""
    planes = {tailnum: plane[:2] for tailnum, plane in read_planes(register_file("planes")).items()}
    return looked_up(flights, "tailnum", planes, "manufacturer string, model string", wait_s)


def summarise(flights: DataFrame, wait_s: float) -> DataFrame:
    """Add the seats of each flight's plane, and aggregate to one row per hour, route and plane."""
    seats = {tailnum: plane[2:] for tailnum, plane in read_planes(register_file("planes")).items()}
    return delays(looked_up(flights, "tailnum", seats, "seats int", wait_s))


JOBS: dict[str, tuple[Callable[[DataFrame, float], DataFrame], str | None]] = {
    "clean": (clean, None),
    "enrich": (enrich, CLEAN),
    "delays": (summarise, ENRICHED),
}
"""Each job, and the columns of its source; None if somebody else creates that table."""


def main() -> None:
    """Run one job until it is stopped."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("job", choices=JOBS)
    arguments.add_argument("--source", required=True, help="folder of the Delta table to read")
    add_options(arguments)
    given = arguments.parse_args()
    work, columns = JOBS[given.job]

    spark = SparkSession.builder.appName(given.job).getOrCreate()
    if columns:  # a stream cannot start on a table that does not exist, and the job before may start later
        table = DeltaTable.createIfNotExists(spark).location(given.source)
        table.addColumns(StructType.fromDDL(columns)).execute()
    append(work(from_delta(spark, given.source, given.max_files), given.wait_ms / 1000), given.job, given)


if __name__ == "__main__":
    main()
