"""A user's script: counts rows by key and keeps the counts after each batch; ``helper`` is a module next to it."""

import sys
from pathlib import Path

from helper import twice
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

folder = Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 400).load()
keyed = rows.withColumn("key", col("value") % 50).withColumn("twice", udf(twice, "long")("value"))


def keep(frame, number):
    values = sorted((row["key"], row["count"], row["total"]) for row in frame.collect())
    temporary = folder / f".{number}"
    temporary.write_text(repr(values))
    temporary.rename(folder / str(number))


counted = keyed.groupBy("key").agg({"twice": "sum", "*": "count"}).toDF("key", "total", "count")
(
    counted.writeStream.outputMode("complete")
    .foreachBatch(keep)
    .option("checkpointLocation", f"{folder}/checkpoint")
    .start()
    .awaitTermination()
)
