"""A user's script: reads a table or JSON files, calls a slow service for each row, and keeps count and sum by key.

A fifth argument is the interval of its trigger.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

source, results, checkpoint, wait_s, *interval = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
delta = (Path(source) / "_delta_log").exists()
rows = spark.readStream.format("delta").load(source) if delta else spark.readStream.schema("id long").json(source)


def ask(parts):
    for part in parts:
        time.sleep(float(wait_s) * len(part))
        yield part.assign(key=part["id"] % 7)


def keep(frame, _):
    totals = {row["key"]: [row["rows"], row["total"]] for row in frame.collect()}
    Path(f"{results}.new").write_text(json.dumps(totals))
    Path(f"{results}.new").rename(results)


answered = rows.repartition(spark.sparkContext.defaultParallelism).mapInPandas(ask, "id long, key long")
counted = answered.groupBy("key").agg(sf.count("*").alias("rows"), sf.sum("id").alias("total"))
writer = counted.writeStream.outputMode("complete").foreachBatch(keep)
if interval:
    writer = writer.trigger(processingTime=interval[0])
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
