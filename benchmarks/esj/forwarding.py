"""Both ways to bring new tuples to the workers of a live join, on the same streams: broadcast blocks, or MP-2PF.

Two streams of one tuple per second each. A window is some micro-batches long, and on average a tuple has one partner.
Processor time covers the whole process tree. It is counted from the batch in which the window is full for the first
time, so both methods pass on, join and drop as many tuples as arrive. Methods take turns, so none has the warmer JVM.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.drfm.session import spark_session
from benchmarks.esj.processor_time import Meter
from benchmarks.record import Record
from millrace.joins.batch_plan import BatchPlan
from millrace.joins.worker import WorkerReport
from millrace.model.join import BROADCAST, MP2PF, JoinDefinition, JoinSettings, JoinStream, JoinTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

BENCH, SCENARIO = "esj", "forwarding"
METHODS = {"ours": BROADCAST, "ours_mp2pf": MP2PF}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("key", pa.int64()), ("value", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
)


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        workers: m.
        batch: Tuples of each stream per micro-batch.
        window: Length of the window, micro-batches.
        batches: Micro-batches that are counted.
        runs: Runs of each method.
    """

    workers: int
    batch: int = 20_000
    window: int = 4
    batches: int = 6
    runs: int = 3

    @property
    def first(self) -> int:
        """The last batch before those that are counted: window and chain are full."""
        return self.window + self.workers


FULL = (Size(2), Size(4))
QUICK = (Size(2, batch=1_000, window=3, batches=4, runs=1),)


@dataclass
class _Run:
    """What a run's batches reported."""

    meter: Meter
    reports: list[Sequence[WorkerReport]] = field(default_factory=list)

    def note(self, query: str, batch: BatchPlan, reports: Sequence[WorkerReport]) -> None:
        self.meter.note()
        self.reports.append(reports)


def records(quick: bool) -> Iterator[Record]:
    """Measure both methods with each number of workers.

    Args:
        quick: Fewer rows and batches, and one run.
    """
    for size in QUICK if quick else FULL:
        with (
            spark_session(size.workers) as spark,
            tempfile.TemporaryDirectory(prefix="millrace-forwarding-") as scratch,
        ):
            yield from _measured(spark, Path(scratch), size)


def _measured(spark: SparkSession, folder: Path, size: Size) -> Iterator[Record]:
    keys = _write(folder / "source", size)
    runs: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    for number in range(size.runs):
        for method, way in METHODS.items():
            at = folder / f"{method}-{number}"
            runs[method].append(_figures(_join(spark, folder / "source", at, size, way), at, size, keys))
    units = {"rows_per_s": "rows/s", "cpu_us_per_tuple": "us", "messages_per_tuple": "messages"}
    units |= {"bytes_per_tuple": "bytes", "pairs_waiting_ratio": "ratio", "pairs_doubled": "pairs"}
    for method, each in runs.items():
        for name, unit in units.items():
            values = [figures[name] for figures in each]
            low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
            yield Record(
                BENCH, f"{SCENARIO}_{size.workers}", method, name, median(values), unit, low, high, len(values)
            )


def _write(folder: Path, size: Size) -> dict[str, np.ndarray]:
    """Write a file of each stream per micro-batch, and return the keys."""
    draw, count = np.random.default_rng(0), size.first + size.batches + 1
    keys = {}
    for stream in "rs":
        (folder / stream).mkdir(parents=True)
        ids = np.arange(count * size.batch)
        keys[stream] = draw.integers(0, 2 * size.window * size.batch, len(ids))
        rows = pa.table([ids, keys[stream], draw.random(len(ids)), ids * 1_000_000], schema=SCHEMA)
        for i in range(count):
            pq.write_table(rows.slice(i * size.batch, size.batch), folder / stream / f"{i:04d}.parquet")
    return keys


def _join(spark: SparkSession, source: Path, at: Path, size: Size, way: str) -> _Run:
    from millrace.joins.query import start

    streams = tuple(JoinStream(s, "", "at", {name: name for name in ("id", "key", "value")}) for s in "rs")
    reach = float(size.window * size.batch)
    task = JoinTask("near", "r", "s", (("key", "key"),), -reach, reach)
    definition = JoinDefinition(streams, (task,), str(at / "results"), str(at / "checkpoint"), 1_000_000, way)
    run = _Run(Meter(2 * size.batch * size.batches))
    schema = spark.read.parquet(str(source / "r")).schema
    query = start(
        spark,
        definition,
        lambda: JoinSettings(size.workers, max(1, size.batch // 10)),
        run.note,
        source=lambda stream: (
            spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source / stream.name))
        ),
        available_now=True,
    )
    query.awaitTermination()
    return run


def _figures(run: _Run, at: Path, size: Size, keys: dict[str, np.ndarray]) -> dict[str, float]:
    meter, first, last = run.meter, size.first, size.first + size.batches
    reports = [report for batch in run.reports[first + 1 : last + 1] for report in batch]
    files = [str(f) for f in (at / "results" / "near").rglob("*.parquet") if "_delta_log" not in f.parts]
    found = ds.dataset(files).to_table(["left_id", "right_id"]).to_pandas()
    return {
        "rows_per_s": meter.rows / (meter.wall_s[last] - meter.wall_s[first]),
        "cpu_us_per_tuple": 1e6 * (meter.cpu_s[last] - meter.cpu_s[first]) / meter.rows,
        "messages_per_tuple": sum(r.messages for r in reports) / meter.rows,
        "bytes_per_tuple": sum(r.bytes for r in reports) / meter.rows,
        "pairs_waiting_ratio": 1 - len(found) / _pairs(keys, size),
        "pairs_doubled": float(found.duplicated().sum()),
    }


def _pairs(keys: dict[str, np.ndarray], size: Size) -> int:
    """Return the number of pairs of all rows."""
    times: dict[int, list[int]] = {}
    for at, key in enumerate(keys["s"].tolist()):
        times.setdefault(key, []).append(at)
    reach = size.window * size.batch
    return sum(abs(at - other) <= reach for at, key in enumerate(keys["r"].tolist()) for other in times.get(key, ()))
