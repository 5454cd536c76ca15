"""Counts the rows of a Delta table in batches of one file, each of which costs some seconds whatever it holds."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

source, results, checkpoint, fixed_s, wait_s = sys.argv[1:]


def wait(frames):
    for frame in frames:
        time.sleep(float(wait_s) * len(frame))
        yield frame


def count(frame, batch_id):
    time.sleep(float(fixed_s))
    path = Path(results)
    counted = json.loads(path.read_text()) if path.exists() else {}
    counted[str(batch_id)] = frame.count()  # a batch that runs again replaces its own count
    hidden = path.with_suffix(".new")
    hidden.write_text(json.dumps(counted))
    hidden.rename(path)


spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
query = rows.mapInPandas(wait, "id long").writeStream.foreachBatch(count).option("checkpointLocation", checkpoint)
query.start().awaitTermination()
