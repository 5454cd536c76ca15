"""A user's script: drops duplicates, counts by key, and calls a slow service for each key; one partition is hot."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

source, results, checkpoint, wait_s = sys.argv[1:]
KEYS = {True: 7, False: 1}
spark = SparkSession.builder.getOrCreate()
partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
numbered = spark.range(1000).withColumn("partition", sf.pmod(sf.hash("id"), sf.lit(partitions))).collect()
keys = []
for partition in range(partitions):
    keys += [row["id"] for row in numbered if row["partition"] == partition][: KEYS[partition == 0]]


def ask(parts):
    for part in parts:
        time.sleep(float(wait_s) * len(part))
        yield part


counts = json.loads(Path(results).read_text()) if Path(results).exists() else {}


def keep(frame, _):
    counts.update({str(row["key"]): row["rows"] for row in frame.collect()})
    Path(f"{results}.new").write_text(json.dumps(counts))
    Path(f"{results}.new").rename(results)


rows = spark.readStream.schema("id long").json(source).dropDuplicates(["id"])
key = sf.get(sf.array(*map(sf.lit, keys)), (sf.col("id") % len(keys)).cast("int")).cast("long")
counted = rows.groupBy(key.alias("key")).agg(sf.count("*").alias("rows")).mapInPandas(ask, "key long, rows long")
writer = counted.writeStream.outputMode("update").queryName("hot").foreachBatch(keep)
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
