"""A user's script with one line of Millrace: reads numbers from JSON files, keeps count and sum by key."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import millrace

source, results, checkpoint, lake = sys.argv[1:]
spark = SparkSession.builder.appName("orders of a shop").getOrCreate()
millrace.attach(spark, "orders", lake=lake, period_s=15)


def keep(frame, _):
    totals = {row["key"]: [row["rows"], row["total"]] for row in frame.collect()}
    Path(f"{results}.new").write_text(json.dumps(totals))
    Path(f"{results}.new").rename(results)


files = spark.readStream.schema("id long").option("maxFilesPerTrigger", 100)
numbers = files.json(source).withColumn("key", sf.col("id") % 7)
counted = numbers.groupBy("key").agg(sf.count("*").alias("rows"), sf.sum("id").alias("total"))
writer = counted.writeStream.outputMode("complete").foreachBatch(keep).queryName("totals")
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
