"""Run a batch per input line on one executor of two cores, and print its seconds and processor seconds."""

import sys
import time
from contextlib import suppress

import psutil
from pyspark.sql import SparkSession

CORES, MEMORY_MB = 2, 1024
JSON = """concat('{"number": ', id, ', "name": "n', id % 977, '", "values": [', id % 7, ', ', id % 11, ']}')"""
SCHEMA = "number BIGINT, name STRING, values ARRAY<INT>"
EXECUTOR = "CoarseGrainedExecutorBackend"


def main(rows: int, java_options: str) -> None:
    """Start the application, then answer each line with a batch of ``rows`` rows."""
    builder = SparkSession.builder.master(f"local-cluster[1,{CORES},{MEMORY_MB}]").config("spark.ui.enabled", False)
    builder = builder.config("spark.sql.shuffle.partitions", CORES).config("spark.log.level", "WARN")
    builder = builder.config("spark.executor.memory", f"{MEMORY_MB}m")
    if java_options:
        builder = builder.config("spark.executor.extraJavaOptions", java_options)
    spark = builder.getOrCreate()
    read = spark.range(0, rows, 1, CORES).selectExpr(
        "id % 1000 AS key", "sha2(cast(id AS STRING), 256) AS hash", f"from_json({JSON}, '{SCHEMA}') AS told"
    )
    batch = read.groupBy("key").agg({"hash": "max", "told.number": "sum", "told.name": "max"})
    for _ in sys.stdin:
        began, before_s = time.perf_counter(), executors_cpu_s()
        batch.write.format("noop").mode("overwrite").save()
        print(time.perf_counter() - began, executors_cpu_s() - before_s, flush=True)
    spark.stop()


def executors_cpu_s() -> float:
    """Return the processor seconds that this process's executor has used so far."""
    total_s = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if EXECUTOR in " ".join(process.cmdline()):
                used = process.cpu_times()
                total_s += used.user + used.system
    return total_s


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
