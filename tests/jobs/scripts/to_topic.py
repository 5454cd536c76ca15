"""A user's script: reads a table, calls a slow service for each row, and sends each row to a Kafka topic with its id.

The id is the message's key. Kafka's sink may send a row again after a crash, so readers drop repeated ids.
"""

import sys
import time

from pyspark.sql import SparkSession

source, servers, topic, checkpoint, wait_s = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def ask(parts):
    for part in parts:
        time.sleep(float(wait_s) * len(part))
        yield part


rows = spark.readStream.format("delta").load(source).repartition(spark.sparkContext.defaultParallelism)
messages = rows.mapInPandas(ask, "id long").selectExpr("string(id) AS key", "to_json(struct(id)) AS value")
writer = messages.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic)
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
