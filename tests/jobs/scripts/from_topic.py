"""A user's script: reads a Kafka topic, drops rows that were sent again, calls a slow service, and keeps totals by key.

The totals are those of all rows so far, so a repeated batch writes the same totals again.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

servers, topic, results, checkpoint, wait_s = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
topics = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
messages = topics.option("startingOffsets", "earliest").load()
rows = messages.select("timestamp", sf.from_json(sf.col("value").cast("string"), "id long").alias("row"))
# an hour is longer than a producer needs to restart and send rows again
once = rows.select("timestamp", "row.id").withWatermark("timestamp", "1 hour").dropDuplicatesWithinWatermark(["id"])


def ask(parts):
    for part in parts:
        time.sleep(float(wait_s) * len(part))
        yield part.assign(key=part["id"] % 7)


def keep(frame, _):
    totals = {row["key"]: [row["rows"], row["total"]] for row in frame.collect()}
    Path(f"{results}.new").write_text(json.dumps(totals))
    Path(f"{results}.new").rename(results)


spread = once.select("id").repartition(spark.sparkContext.defaultParallelism)
counted = spread.mapInPandas(ask, "id long, key long").groupBy("key")
totals = counted.agg(sf.count("*").alias("rows"), sf.sum("id").alias("total"))
writer = totals.writeStream.outputMode("complete").foreachBatch(keep)
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
