"""Cars that queue, per area in windows of five minutes that slide by one minute: a Structured Streaming job.

    positions of cars (Delta) -> spread by area -> panes -> windows (Delta)

A few areas have most cars, and which ones changes. So the job spreads each micro-batch with ``followed`` and
aggregates it in panes with ``sliding``, two functions of Millrace's libraries, which work without the rest of it. Run
it on its own with Millrace's folder ``include`` in PYTHONPATH and

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0
        --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension
        --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog
        traffic.py --source DIR --results DIR --checkpoint DIR

Positions of one window may come in several micro-batches, and each appends a row per window and area. Add them up:

    SELECT window_start, window_end, area, sum(cars), sum(queued), sum(kmh) / sum(cars) FROM results GROUP BY ALL
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from millrace.windows import panes
from millrace.windows.partitioning import Followed, followed

SIZE, SLIDE = "5 minutes", "1 minute"
QUEUE = 10.0
"""Cars below this speed, km/h, queue."""


def main() -> None:
    """Run until stopped."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--source", required=True, help="folder of the Delta table of positions")
    arguments.add_argument("--results", required=True, help="folder of the Delta table of windows")
    arguments.add_argument("--checkpoint", required=True, help="folder of the checkpoint; remove it with the results")
    arguments.add_argument("--wait-ms", type=float, default=0.0, help="time to find the road of a position")
    arguments.add_argument("--load-ms", type=float, default=0.0, help="time to load the roads of an area")
    arguments.add_argument("--max-files", type=int, default=40, help="most files that a micro-batch reads")
    arguments.add_argument("--trigger-s", type=float, default=0.0, help="least time from one micro-batch to the next")
    given = arguments.parse_args()

    spark = SparkSession.builder.appName("traffic").getOrCreate()
    areas = followed("areas")

    def append(batch: DataFrame, number: int) -> None:
        writer = windows(batch, areas, given.wait_ms, given.load_ms).write.format("delta").mode("append")
        # a batch that is repeated after a failure is not written twice
        writer.option("txnAppId", given.checkpoint).option("txnVersion", number).save(given.results)

    read = spark.readStream.format("delta").option("maxFilesPerTrigger", given.max_files).load(given.source)
    query = (
        read.writeStream.queryName("traffic")
        .foreachBatch(append)
        .trigger(processingTime=f"{given.trigger_s} seconds")
        .option("checkpointLocation", given.checkpoint)
        .start()
    )
    query.awaitTermination()


def windows(positions: DataFrame, areas: Followed, wait_ms: float, load_ms: float) -> DataFrame:
    """Return a row per window and area: its cars, those that queue, and the sum of their speeds."""
    spread = panes.sliding(positions, "at", SIZE, SLIDE, "area", by=areas)
    found = spread.agg(panes.count().alias("cars"), panes.sum("speed").alias("kmh"), queued(wait_ms, load_ms))
    start, end = (sf.col(f"window.{side}").alias(f"window_{side}") for side in ("start", "end"))
    return found.select(start, end, "area", "cars", "queued", "kmh")


def queued(wait_ms: float, load_ms: float) -> panes.Aggregate:
    """Return how many cars queue.

    The roads of an area are loaded once per task, so its cars should come to few workers; and finding a car's road
    takes time, so no worker should get too many. Both are simulated, but the waits are real: they leave the processor
    free and keep the task's slot busy.
    """
    loaded: set[str] = set()

    def update(state: tuple[Any, ...], cars: Any) -> tuple[Any, ...]:
        new = set(cars["area"]) - loaded
        loaded.update(new)
        time.sleep((len(cars) * wait_ms + len(new) * load_ms) / 1000)
        return (state[0] + int((cars["speed"] < QUEUE).sum()),)

    return panes.user_defined(
        "queued",
        ["area", "speed"],
        state="cars long",
        returns="long",
        init=lambda: (0,),
        update=update,
        merge=lambda a, b: (a[0] + b[0],),
        finish=lambda state: state[0],
    )


if __name__ == "__main__":
    main()
