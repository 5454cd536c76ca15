"""What measuring state partitions costs: 64 partitions of two operators, in a driver with nothing else to do.

All processor time of the driver's Python, and of the JVM threads that serve it, counts as measuring. The script itself
is idle while its query runs, so this is the time of the listener, the sampler, and their commits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.placement.figures import BENCH
from benchmarks.record import Record, at_most
from millrace.model.submit_options import conf_words

OVERHEAD = "overhead"
PARTITIONS, SLOTS, ROWS_A_BATCH = 64, 2, 20_000
PERIOD_S = 15.0
"""The shortest period with the highest sampling rate of partitions, every 5 s."""
WARM_BATCHES, POLL_S = 3, 0.5
SERVING = "Thread-"
"""Name prefix of threads that serve the driver's Python: py4j gives them no other name."""
LIMIT = 0.02


def overhead_records(seconds: float) -> list[Record]:
    """Measure a query under telemetry.

    Args:
        seconds: Duration.

    Raises:
        RuntimeError: If the driver ends with an error.
    """
    from millrace.environment.spark_env import driver_submit_conf, environment, spark_submit

    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        conf = driver_submit_conf() | {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": str(PARTITIONS),
            "spark.sql.adaptive.enabled": "false",
        }
        options = ["--master", f"local[{SLOTS}]", *conf_words(conf)]
        command = [str(spark_submit()), *options, __file__, folder, f"{seconds:g}"]
        env = {**os.environ, **environment()}
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"the driver failed: {ended.stdout[-2000:]}")  # spark-submit prints tracebacks there
        spent = json.loads((Path(folder) / "spent.json").read_text(encoding="utf-8"))
    ratio = (spent["python_s"] + spent["serving_s"]) / spent["all_s"]
    target, holds = at_most(ratio, LIMIT)
    n = spent["batches"]
    return [Record(BENCH, OVERHEAD, "millrace", "overhead_ratio", ratio, "ratio", n=n, target=target, holds=holds)]


def _drive(folder: Path, seconds: float) -> None:
    from pyspark.sql import SparkSession

    from millrace.lake.store import Lake
    from millrace.runtime.telemetry.batches import AppIdentity
    from millrace.runtime.telemetry.host import HostCpu
    from millrace.runtime.telemetry.listener import TelemetryListener
    from millrace.runtime.telemetry.partitions import PartitionSampler
    from millrace.runtime.telemetry.writer import Writer

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    identity, host = AppIdentity(BENCH, OVERHEAD, 1, 1, SLOTS), HostCpu()
    writer = Writer(Lake(folder / "lake"), identity, PERIOD_S, host)
    sampler = PartitionSampler(spark, writer, writer.interval_s)
    spark.streams.addListener(TelemetryListener(spark, identity, writer, host, sampler))
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH).load()
    counts = rows.dropDuplicates(["value"]).groupBy((rows.value % 1000).alias("key")).count()
    query = counts.writeStream.outputMode("update").format("noop").option("checkpointLocation", str(folder / "c"))
    running = query.start()
    while (progress := running.lastProgress) is None or progress["batchId"] < WARM_BATCHES:
        time.sleep(POLL_S)
    before, first = _spent(spark), running.lastProgress["batchId"]
    time.sleep(seconds)
    after, last = _spent(spark), running.lastProgress["batchId"]
    spent = {name: after[name] - before[name] for name in after}
    (folder / "spent.json").write_text(json.dumps({**spent, "batches": last - first}), encoding="utf-8")
    running.stop()


def _spent(spark: Any) -> dict[str, float]:
    """Return the processor time so far of the driver's Python, of the threads that serve it, and in total."""
    threads = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    infos = threads.getThreadInfo(threads.getAllThreadIds())
    serving = [info.getThreadId() for info in infos if info is not None and info.getThreadName().startswith(SERVING)]
    python_s, jvm_s = (sum(process.cpu_times()[:2]) for process in (psutil.Process(), psutil.Process(os.getppid())))
    serving_s = sum(threads.getThreadCpuTime(thread) for thread in serving) / 1e9
    return {"python_s": python_s, "serving_s": serving_s, "all_s": python_s + jvm_s}


if __name__ == "__main__":
    _drive(Path(sys.argv[1]), float(sys.argv[2]))
