"""A user's script: counts and sums per window of event time, from one Delta table into another."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import count, sum, window

source, results, checkpoint = sys.argv[1:4]
spark = SparkSession.builder.appName("windows").config("spark.sql.shuffle.partitions", "17").getOrCreate()
(
    spark.readStream.format("delta")
    .load(source)
    .withWatermark("time", "1 second")
    .groupBy(window("time", "10 seconds").alias("window"))
    .agg(count("*").alias("n"), sum("x").alias("total"))
    .selectExpr("window.start as start", "n", "total")
    .writeStream.format("delta")
    .outputMode("append")
    .option("checkpointLocation", checkpoint)
    .start(results)
    .awaitTermination()
)
