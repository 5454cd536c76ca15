"""A user's script: reads a table, calls a slow service for each row, and appends the rows to a table."""

import sys
import time

from pyspark.sql import SparkSession

source, target, checkpoint, wait_s = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def ask(parts):
    for part in parts:
        time.sleep(float(wait_s) * len(part))
        yield part


rows = spark.readStream.format("delta").load(source).repartition(spark.sparkContext.defaultParallelism)
writer = rows.mapInPandas(ask, "id long").writeStream.format("delta").option("checkpointLocation", checkpoint)
writer.start(target).awaitTermination()
