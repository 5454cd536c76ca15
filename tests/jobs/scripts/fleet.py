"""A fleet's script: copies a table per stream. Files next to the tables make a stream fail, or hold its batches."""

import time
from pathlib import Path

from pyspark import TaskContext


def stream(spark, name, options):
    root = Path(options["root"])
    if (root / f"broken-{name}").exists():
        raise ValueError(f"{name} is broken")
    held = root / f"held-{name}"

    def pause(parts):
        assert TaskContext.get().getLocalProperty("spark.scheduler.pool") == name
        while held.exists():
            time.sleep(0.05)
        yield from parts

    spark.conf.set("spark.sql.shuffle.partitions", "1")
    rows = spark.readStream.format("delta").load(str(root / "in" / name)).mapInPandas(pause, "id long")
    sink = str(root / "out" / options.get(name, name))
    writer = rows.writeStream.format("delta").option("path", sink)
    return writer.trigger(processingTime=options.get("trigger", "500 milliseconds"))
