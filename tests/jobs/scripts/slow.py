"""A user's script whose first batch works, or only waits, until a file exists: ``where`` is a task or the sink."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

where, folder = sys.argv[1:3]
done = Path(folder, "done")


def wait():
    Path(folder, "begun").touch()
    while not done.exists():
        time.sleep(0.1)


def task(batches):
    for batch in batches:
        wait()
        yield batch


def sink(frame, number):
    if where == "sink":
        wait()
    frame.collect()


spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
if where == "task":
    rows = rows.mapInPandas(task, rows.schema)
rows.writeStream.foreachBatch(sink).option("checkpointLocation", f"{folder}/checkpoint").trigger(
    processingTime="1 second"
).start().awaitTermination()
