"""A user's script that ends in the way its first argument says."""

import multiprocessing
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

ending, folder = sys.argv[1:3]
if ending == "import":
    import nowhere  # noqa: F401
spark = SparkSession.builder.getOrCreate()
if ending == "leaves-child":
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,)).start()
if ending in ("batch", "leaves-child"):
    spark.range(10).write.parquet(f"{folder}/batch")
    sys.exit(0)


def each(frame, number):
    if ending == "throws" and number == 1:
        raise ValueError("poison in batch 1")
    if ending == "loses-application" and number == 1:
        spark._jsc.sc().stop()  # as Spark does if its cluster ends the application
    if ending == "pool":
        with multiprocessing.get_context("fork").Pool(2) as pool:  # its end sends SIGTERM to its processes
            pool.map(abs, range(4))
    Path(folder, "begun").write_text(str(number))
    if ending == "runs":
        time.sleep(1)
    with Path(folder, "batches").open("a") as file:
        file.write(f"{number}\n")


rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
writer = rows.writeStream.foreachBatch(each).option("checkpointLocation", f"{folder}/checkpoint")
if ending in ("unawaited", "pool"):
    writer.trigger(once=True).start()
elif ending == "stops-session":
    writer.trigger(once=True).start().awaitTermination()
    spark.stop()
else:
    writer.trigger(processingTime="1 second").start().awaitTermination()
