"""Run a windowed stream join as one streaming query; workers, block size and shed ratio can change between batches."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from millrace.joins.batch_plan import BatchPlan, BatchPlans
from millrace.joins.blocks import DDL
from millrace.joins.first_start import FirstStart
from millrace.joins.join_plan import TIME, JoinPlan
from millrace.joins.matching import condition
from millrace.joins.results import OUTPUT
from millrace.joins.router import HASH, router
from millrace.joins.sink import Listener, Sink
from millrace.joins.worker import JoinWorker
from millrace.model.errors import MillraceError
from millrace.model.join import JoinDefinition, JoinSettings, JoinStream
from millrace.places import PACKAGE, SOURCES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

FOLDER = "join"
"""Folder of the batch plans inside the checkpoint."""
ARCHIVE = "millrace-modules.zip"
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start(
    spark: SparkSession,
    definition: JoinDefinition,
    settings: Callable[[], JoinSettings],
    listener: Listener = lambda query, batch, reports: None,
    *,
    name: str = "join",
    source: Callable[[JoinStream], DataFrame] | None = None,
    available_now: bool = False,
) -> StreamingQuery:
    """Start a join; write each task's pairs to its own Delta table, each pair once.

    Args:
        spark: The session. Its shuffle partitions at the first start are the join's maximum number of workers.
        definition: The join. The driver and the executors must be able to access its checkpoint and result folders.
        settings: Returns the settings wanted; called between batches.
        listener: Called with the query's id, a batch's plan and each worker's report.
        name: The query's name.
        source: Returns a stream's rows; by default those of its Delta table.
        available_now: Stop after joining all rows that exist at the start.

    Raises:
        MillraceError: If a column or an expression does not exist, key columns have different types, or the
            checkpoint belongs to a join of other streams.
    """
    add_modules(spark.sparkContext)
    before = FirstStart.read(Path(definition.checkpoint) / FOLDER)
    definition = definition if before is None else before.continued(definition)
    rows = {s.name: _rows(definition, s, source or _delta(spark)) for s in definition.streams}
    plan = _plan(spark, definition, rows, before)
    first = plan.bounded(settings())
    BatchPlans(plan.folder).begin(BatchPlan(0, first, chain=first.workers if plan.sides else 0))
    blocks = [frame.mapInArrow(router(plan, stream), DDL) for stream, frame in rows.items()]
    joined = (
        reduce(lambda a, b: a.union(b), blocks)
        .groupBy("key")
        .transformWithState(JoinWorker(plan), outputStructType=OUTPUT, outputMode="append", timeMode="none")
    )
    writer = joined.writeStream.queryName(name).outputMode("append").foreachBatch(Sink(plan, settings, listener))
    writer = writer.option("checkpointLocation", definition.checkpoint)
    with _setting(spark, "spark.sql.streaming.stateStore.providerClass", STATE_STORE):
        return (writer.trigger(availableNow=True) if available_now else writer).start()


def add_modules(context: SparkContext) -> None:
    """Let the Python workers of a driver import ``millrace``, although they have neither its path nor its folder.

    Can be called repeatedly.
    """
    if any(ARCHIVE in name for name in context._python_includes):
        return
    archive = Path(context._temp_dir) / ARCHIVE  # Spark deletes its temporary folder when the application ends
    write_modules(archive)
    context.addPyFile(str(archive))
    # Spark does not give the file to the worker it starts next to the driver to prepare a stateful operator
    before = context.environment.get("PYTHONPATH")
    context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(archive), before]))


def write_modules(archive: Path) -> None:
    """Write the package ``millrace`` as an archive that Python can import from."""
    with zipfile.ZipFile(archive, "w") as modules:
        for path in sorted(PACKAGE.rglob("*")):
            # Python finds a package without __init__.py in an archive only if its folder has an entry
            if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__"):
                modules.write(path, path.relative_to(SOURCES))


@contextmanager
def _setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Set a value that a query keeps from its start, and restore it for the session's other queries."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


def _delta(spark: SparkSession) -> Callable[[JoinStream], DataFrame]:
    # a commit that changes rows would end the query, again at each restart
    reader = spark.readStream.format("delta").option("skipChangeCommits", True)
    return lambda stream: reader.load(stream.source)


def _rows(definition: JoinDefinition, stream: JoinStream, source: Callable[[JoinStream], DataFrame]) -> DataFrame:
    """Return a stream's columns with its time, its hash and its tasks' conditions."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sf
    from pyspark.sql.types import TimestampType

    at = f"streams.{stream.name}"
    read = source(stream)
    try:
        if not isinstance(read.select(sf.expr(stream.time)).schema[0].dataType, TimestampType):
            raise MillraceError(f"{at}.time", stream.time, "a column of type timestamp", "Cast it in the expression.")
        chosen = [sf.expr(expression).alias(name) for name, expression in stream.columns.items()]
        rows = read.select(sf.unix_micros(sf.expr(stream.time)).alias(TIME), *chosen)
        conditions = [
            sf.expr(where).cast("boolean").alias(condition(task.name, side))
            for task in definition.tasks
            for side, of, where in (("left", task.left, task.left_where), ("right", task.right, task.right_where))
            if of == stream.name and where
        ]
        return rows.select("*", *conditions, sf.xxhash64("*").alias(HASH))
    except AnalysisException as error:
        problem = str(error).splitlines()[0]
        remedy = f"Fix the expression ({problem})."
        raise MillraceError(at, json.dumps(dict(stream.columns)), ", ".join(read.columns), remedy) from error


def _plan(
    spark: SparkSession, definition: JoinDefinition, rows: dict[str, DataFrame], before: FirstStart | None
) -> JoinPlan:
    """Return the plan, keeping what the checkpoint fixed at its first start."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schemas = {stream: to_arrow_schema(frame.drop(HASH).schema, timezone="UTC") for stream, frame in rows.items()}
    first = before or FirstStart.of(definition, schemas, _keys(spark))
    folder = Path(definition.checkpoint) / FOLDER
    plan = JoinPlan(definition, first.stored(definition, schemas), folder, first.keys)
    plan.check_keys()
    first = first.with_sides(definition)
    if first != before:
        first.write(folder)
    return plan


def _keys(spark: SparkSession) -> tuple[int, ...]:
    """Return a key per state partition that Spark's hash maps there."""
    count = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    most = 64 * count  # enough to hit every partition
    hashed = spark.range(0, most, 1, 1).selectExpr("cast(id as int) key", f"pmod(hash(cast(id as int)), {count}) place")
    least = {row["place"]: row["key"] for row in sorted(hashed.collect(), key=lambda row: -row["key"])}
    return tuple(least[place] for place in range(count))
