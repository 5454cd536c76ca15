"""The join's Spark job against Spark's own stream-stream join, on the same flights and weather in one run.

Flights of 2013 meet the weather of their airport within an hour. The second task joins a delayed flight with the next
departures of its plane; Spark needs a second query and further copies of the flights for it. Processor time covers the
whole process tree (driver, JVM and Python workers) over all micro-batches but the first, in which the JVM compiles.
Methods take turns, so none has the warmer JVM. Spark's join writes plain Parquet, which costs less than our Delta
tables, and uses its default state store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.dataset as ds

from benchmarks.drfm.session import SLOTS, spark_session
from benchmarks.esj.processor_time import Meter
from benchmarks.record import Record
from millrace.local.feeds.nycflights import data_folder, flights
from millrace.model.join import JoinDefinition, JoinSettings, JoinStream, JoinTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WEATHER = JoinTask("weather", "flights", "weather", (("origin", "origin"),), -3600, 3600)
NEXT_LEG = JoinTask("next_leg", "flights", "flights", (("tailnum", "tailnum"),), 60, 43_200, "delay >= 15")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "flights": ("id", "origin", "tailnum", "delay"),
    "weather": ("id", "origin", "temp", "wind_speed"),
}
WORKERS, BLOCK = SLOTS, 1_000
LATE = "0 seconds"
IDS = ["left_id", "right_id"]


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        scenario: Its name.
        flights: Rows of the flights.
        batches: Micro-batches of a run; the first one is not counted.
        runs: Runs of each method.
        tasks: The joins.
    """

    scenario: str
    flights: int
    batches: int
    runs: int
    tasks: tuple[JoinTask, ...] = (WEATHER,)


FULL = (
    Size("spark_join", 60_000, 8, 3),
    Size("spark_join_large_batches", 120_000, 8, 1),
    Size("spark_join_two_tasks", 60_000, 8, 3, (WEATHER, NEXT_LEG)),
)
"""Larger sizes take minutes per run: with three airports as keys, Spark's join compares each row with a third of its
state."""
QUICK = (Size("spark_join", 40_000, 3, 1),)


def records(quick: bool) -> Iterator[Record]:
    """Measure both joins.

    Args:
        quick: Fewer rows and batches, one run and one task.
    """
    with spark_session() as spark, tempfile.TemporaryDirectory(prefix="millrace-join-") as scratch:
        for size in QUICK if quick else FULL:
            folder = Path(scratch) / size.scenario
            write_source(folder / "source", size)
            yield from _measured(spark, folder, size)


def write_source(folder: Path, size: Size) -> None:
    """Write both streams as files, in order of time, two per micro-batch."""
    for name, rows in _streams(size.flights).items():
        (folder / name).mkdir(parents=True)
        for i in range(2 * size.batches):
            part = rows.iloc[len(rows) * i // (2 * size.batches) : len(rows) * (i + 1) // (2 * size.batches)]
            part.to_parquet(folder / name / f"{i:04d}.parquet", index=False)


def _streams(count: int) -> dict[str, pd.DataFrame]:
    told = flights()
    flown = pd.DataFrame(
        {
            "time": told["departed"].dt.tz_localize("UTC").astype("datetime64[us, UTC]"),
            "origin": told["origin"],
            "tailnum": told["tailnum"],
            "delay": pd.to_numeric(told["dep_delay"], errors="coerce"),
        }
    ).sort_values("time", kind="stable")[:count]
    csv = pd.read_csv(data_folder() / "weather.csv")
    hour = pd.to_datetime(csv[["year", "month", "day", "hour"]]).dt.tz_localize("UTC").astype("datetime64[us, UTC]")
    weather = csv.assign(time=hour)[["time", "origin", "temp", "wind_speed"]].sort_values("time", kind="stable")
    weather = weather[weather["time"] <= flown["time"].max()]
    found = {"flights": flown, "weather": weather}
    for rows in found.values():
        rows.insert(0, "id", range(len(rows)))
    return found


def _measured(spark: SparkSession, folder: Path, size: Size) -> Iterator[Record]:
    source = folder / "source"
    methods: dict[str, Callable[[Path], list[Meter]]] = {
        "ours": lambda at: [_ours(spark, source, at, size.tasks)],
        "spark_join": lambda at: [_sparks(spark, source, at, task) for task in size.tasks],
    }
    spent: dict[str, list[float]] = {name: [] for name in methods}
    for run in range(size.runs):
        for name, method in methods.items():
            meters = method(folder / f"{name}-{run}")
            spent[name].append(sum(_cpu_us_per_tuple(meter, size) for meter in meters))
    expected = {task: _expected(spark, source, task) for task in size.tasks}
    yield Record("esj", size.scenario, "source", "rows", float(_rows(spark, source)), "rows")
    for name, values in spent.items():
        low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
        target = holds = None
        if name == "ours":
            limit = median(spent["spark_join"])
            target, holds = f"<{limit:.4g}", median(values) < limit
        figure, n = "cpu_us_per_tuple", len(values)
        yield Record("esj", size.scenario, name, figure, median(values), "us", low, high, n, target, holds)
        wrong = sum(
            _different(folder / f"{name}-{run}", task, pairs)
            for run in range(size.runs)
            for task, pairs in expected.items()
        )
        target, holds = ("<=0", wrong == 0) if name == "ours" else (None, None)
        yield Record("esj", size.scenario, name, "matches_different", wrong, "pairs", None, None, n, target, holds)


def _cpu_us_per_tuple(meter: Meter, size: Size) -> float:
    counted = meter.rows * (size.batches - 1) / size.batches
    return 1e6 * (meter.cpu_s[size.batches - 1] - meter.cpu_s[0]) / counted


def _read(spark: SparkSession, source: Path, stream: str) -> DataFrame:
    schema = spark.read.parquet(str(source / stream)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(source / stream))


def _ours(spark: SparkSession, source: Path, at: Path, tasks: tuple[JoinTask, ...]) -> Meter:
    from millrace.joins.query import start

    streams = tuple(
        JoinStream(name, "", "time", {column: column for column in columns}) for name, columns in COLUMNS.items()
    )
    definition = JoinDefinition(streams, tasks, str(at / "results"), str(at / "checkpoint"), 1_000_000)
    meter = Meter(_rows(spark, source))
    query = start(
        spark,
        definition,
        lambda: JoinSettings(WORKERS, BLOCK, 0.0),
        lambda *_: meter.note(),
        source=lambda stream: _read(spark, source, stream.name),
        available_now=True,
    )
    query.awaitTermination()
    return meter


def _sparks(spark: SparkSession, source: Path, at: Path, task: JoinTask) -> Meter:
    left = _side(spark, source, task.left, "left")
    right = _side(spark, source, task.right, "right")
    joined = left.join(right, _condition(task))
    meter = Meter(_rows(spark, source))

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.write.mode("overwrite").parquet(
            str(at / "results" / task.name / f"batch={batch_id}")
        )  # cheaper than Delta
        meter.note()

    writer = joined.writeStream.foreachBatch(write).option("checkpointLocation", str(at / "checkpoint" / task.name))
    writer.trigger(availableNow=True).start().awaitTermination()
    return meter


def _rows(spark: SparkSession, source: Path) -> int:
    return sum(spark.read.parquet(str(source / stream)).count() for stream in COLUMNS)


def _side(spark: SparkSession, source: Path, stream: str, side: str, *, batch: bool = False) -> DataFrame:
    from pyspark.sql import functions as sf

    read = spark.read.parquet(str(source / stream)) if batch else _read(spark, source, stream)
    rows = read.select(*(sf.col(c).alias(f"{side}_{c}") for c in ("time", *COLUMNS[stream])))
    return rows if batch else rows.withWatermark(f"{side}_time", LATE)


def _condition(task: JoinTask) -> Any:
    from pyspark.sql import functions as sf

    words = [f"left_{a} = right_{b}" for a, b in task.on]
    after, before = f"interval {task.after_s:g} seconds", f"interval {task.before_s:g} seconds"
    words.append(f"right_time between left_time + {after} and left_time + {before}")
    if task.left_where:
        words.append(f"left_{task.left_where}")
    return sf.expr(" and ".join(words))


def _expected(spark: SparkSession, source: Path, task: JoinTask) -> pd.Series[int]:
    """Return the number of times that a batch join produces each pair."""
    sides = [_side(spark, source, of, side, batch=True) for of, side in ((task.left, "left"), (task.right, "right"))]
    pairs = sides[0].join(sides[1], _condition(task)).select(*IDS).toArrow()
    return pairs.to_pandas().value_counts()


def _different(found: Path, task: JoinTask, expected: pd.Series[int]) -> int:
    """Return the number of pairs, with repeats, that only the stream or only the batch join has."""
    # the raw files are enough: ours is a Delta table without deletions
    files = [str(file) for file in (found / "results" / task.name).rglob("*.parquet") if "_delta_log" not in file.parts]
    pairs = ds.dataset(files).to_table(IDS).to_pandas().value_counts()
    return int(pairs.sub(expected, fill_value=0).abs().sum())
