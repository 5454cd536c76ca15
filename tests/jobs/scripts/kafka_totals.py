"""A user's script: reads numbers from a Kafka topic in limited batches, calls a slow service for each, keeps totals."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

servers, topic, results, checkpoint, wait_s, max_offsets, patience_ms, *available_now = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
topics = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
patient = topics.option("kafka.request.timeout.ms", patience_ms).option("kafka.default.api.timeout.ms", patience_ms)
rows = patient.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", max_offsets).load()
numbers = rows.select(sf.col("value").cast("string").cast("long").alias("id"))


def ask(parts):
    for part in parts:
        time.sleep(float(wait_s) * len(part))
        yield part.assign(key=part["id"] % 7)


def keep(frame, _):
    totals = {row["key"]: [row["rows"], row["total"]] for row in frame.collect()}
    Path(f"{results}.new").write_text(json.dumps(totals))
    Path(f"{results}.new").rename(results)


answered = numbers.repartition(spark.sparkContext.defaultParallelism).mapInPandas(ask, "id long, key long")
counted = answered.groupBy("key").agg(sf.count("*").alias("rows"), sf.sum("id").alias("total"))
writer = counted.writeStream.outputMode("complete").foreachBatch(keep)
writer = writer.trigger(availableNow=True) if available_now else writer
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
