"""What telemetry costs: one driver drains the same backlog alternately with and without it.

The driver is started by spark-submit, like any app. It drains a Delta table through a plain stateful query (Python
operator, aggregation, Delta sink) repeatedly, each time from a new checkpoint. Every second time telemetry is attached,
in the order without-with, with-without, ..., so a drift of the machine affects both equally. The figures are the time
from the query's start to its end, and the processor time of the driver's process tree, which other work on the machine
disturbs less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Record, at_most
from millrace.model.submit_options import conf_words

BENCH = "telemetry"
SCENARIO = "stateful backlog, 2 slots"
SLOTS = 2
FILES, ROWS_A_FILE = 4, 20_000
PERIOD_S = 15.0
LIMIT = 1.05
RESAMPLES, SEED = 5000, 7


def measure(quick: bool) -> list[Record]:
    """Measure throughput with and without telemetry, and the time per event.

    Args:
        quick: Fewer and shorter turns.

    Raises:
        RuntimeError: If the driver ends with an error.
    """
    from millrace.environment.spark_env import driver_submit_conf, environment, spark_submit

    pairs, batches = (3, 8) if quick else (8, 16)
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as folder:
        _feed(Path(folder) / "source", batches)
        conf = driver_submit_conf() | {
            "spark.ui.enabled": "false",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.shuffle.partitions": str(SLOTS),
            "spark.sql.adaptive.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        command = [str(spark_submit()), "--master", f"local[{SLOTS}]", *conf_words(conf), __file__, folder, str(pairs)]
        ended = subprocess.run(
            command, env={**os.environ, **environment()}, capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            raise RuntimeError(f"the driver failed: {ended.stdout[-2000:]}")  # spark-submit prints tracebacks there
        return _records(json.loads((Path(folder) / "times.json").read_text()), batches * FILES * ROWS_A_FILE)


def _records(times: dict[str, list[float]], rows: int) -> list[Record]:
    records = []
    for method, label in (("without", "without telemetry"), ("with", "with telemetry")):
        rates = [rows / s for s in times[method]]
        low, high = _interval(rates)
        records.append(
            Record(BENCH, SCENARIO, label, "throughput", float(np.median(rates)), "rows/s", low, high, len(rates))
        )
    for figure, suffix in (("time", ""), ("processor time", "_cpu_s")):
        pairs = zip(times[f"with{suffix}"], times[f"without{suffix}"], strict=True)
        ratios = [a / b for a, b in pairs]
        ratio, (low, high) = float(np.median(ratios)), _interval(ratios)
        judged = at_most(ratio, LIMIT)
        records.append(Record(BENCH, SCENARIO, "with/without", figure, ratio, "ratio", low, high, len(ratios), *judged))
    for figure, scale in (("event", "event_s"), ("event, processor of the listener's thread", "event_cpu_s")):
        spent = [1000 * s for s in times[scale]]
        low, high = _interval(spent)
        records.append(
            Record(BENCH, SCENARIO, "with telemetry", figure, float(np.median(spent)), "ms", low, high, len(spent))
        )
    return records


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median by the bootstrap."""
    drawn = np.random.default_rng(SEED).choice(np.asarray(values), (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(low), float(high)


def _feed(folder: Path, batches: int) -> None:
    import pyarrow as pa

    from millrace.lake.source_tables import SourceTable

    schema = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("value", pa.float64())])
    table = SourceTable(folder, schema, "telemetry benchmark")
    rows = FILES * ROWS_A_FILE
    for number in range(batches):
        ids = np.arange(number * rows, (number + 1) * rows)
        table.append(pa.table({"id": ids, "key": ids % 1000, "value": ids / 7.0}, schema), FILES, "feed", number)


def _drive(folder: Path, pairs: int) -> None:
    """Drain alternately with and without telemetry; the first turn of each is only a warm-up."""
    from pyspark.sql import SparkSession

    from millrace.runtime.telemetry.batches import AppIdentity
    from millrace.runtime.telemetry.driver_telemetry import Telemetry
    from millrace.runtime.telemetry.host import HostCpu
    from millrace.runtime.telemetry.listener import TelemetryListener

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    names = ("with", "without", "with_cpu_s", "without_cpu_s", "event_s", "event_cpu_s")
    times: dict[str, list[float]] = {name: [] for name in names}
    host = HostCpu()
    on_progress = TelemetryListener.onQueryProgress

    def timed(self: TelemetryListener, event: Any) -> None:
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        on_progress(self, event)
        times["event_s"].append(time.perf_counter() - wall_s)
        times["event_cpu_s"].append(time.thread_time() - cpu_s)

    TelemetryListener.onQueryProgress = timed  # type: ignore[method-assign]
    for turn in range(pairs + 1):
        if turn == 1:
            for measured in times.values():
                measured.clear()
        order = ("without", "with") if turn % 2 else ("with", "without")
        for method in order:
            place = folder / f"{method}-{turn}"
            identity = AppIdentity(BENCH, method, turn + 1, 1, SLOTS)
            telemetry = Telemetry(spark, identity, folder / "lake", PERIOD_S) if method == "with" else None
            host.sample()
            began = time.time()
            times[method].append(_drain(spark, folder / "source", place))
            if telemetry is not None:
                telemetry.close()
            host.sample()
            times[f"{method}_cpu_s"].append((host.own_ratio(began) or 0.0) * (time.time() - began))
    (folder / "times.json").write_text(json.dumps(times))
    spark.stop()


def _drain(spark: Any, source: Path, place: Path) -> float:
    from pyspark.sql import functions as sf

    rows = spark.readStream.format("delta").option("maxFilesPerTrigger", FILES).load(str(source))
    counted = (
        rows.mapInPandas(lambda parts: parts, rows.schema)
        .groupBy("key")
        .agg(sf.count("*").alias("n"), sf.sum("value").alias("v"))
    )
    writer = counted.writeStream.format("delta").outputMode("complete").option("checkpointLocation", str(place / "c"))
    began = time.perf_counter()
    writer.trigger(availableNow=True).start(str(place / "results")).awaitTermination()
    return time.perf_counter() - began


if __name__ == "__main__":
    _drive(Path(sys.argv[1]), int(sys.argv[2]))
