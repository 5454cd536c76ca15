"""A windowed join of streams as one streaming query; workers, block size and shed ratio change between batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from include.joins.blocks import BLOCK
from include.joins.matching import TIME, condition
from include.joins.plan import Plan, check
from include.joins.router import HASH, router
from include.joins.sink import Sink, Tell
from include.joins.terms import TermsFolder, write_whole
from include.joins.worker import OUTPUT, JoinWorker
from include.model.errors import MillraceError
from include.model.join import JoinDefinition, JoinSettings, JoinStream
from include.runtime.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

FOLDER, FACTS = "join", "join.json"
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start(
    spark: SparkSession,
    definition: JoinDefinition,
    wanted: Callable[[], JoinSettings],
    tell: Tell = lambda query, terms, reports: None,
    *,
    name: str = "join",
    source: Callable[[JoinStream], DataFrame] | None = None,
    available_now: bool = False,
) -> StreamingQuery:
    """Start a join; each task's pairs go to a Delta table of its own, each pair once.

    Args:
        spark: The session. Its shuffle partitions at the first start are the most workers that the join can have.
        definition: What is joined. Checkpoint and results are folders that driver and executors see.
        wanted: Says how the join is to be set, asked between batches.
        tell: Takes the query's id, a batch's terms and what each worker did.
        name: The query's name.
        source: Returns a stream's rows; by default its Delta table's.
        available_now: End when all that is there at the start has been joined.

    Raises:
        MillraceError: If a column or an expression does not exist, key columns are of different types, or the
            checkpoint belongs to a join of other streams.
    """
    ship(spark.sparkContext)
    rows = {s.name: _rows(definition, s, source or _delta(spark)) for s in definition.streams}
    plan = _plan(spark, definition, rows)
    TermsFolder(plan.folder).begin(plan.bounded(wanted()))
    blocks = [frame.mapInArrow(router(plan, stream), BLOCK) for stream, frame in rows.items()]
    joined = (
        reduce(lambda a, b: a.union(b), blocks)
        .groupBy("key")
        .transformWithState(JoinWorker(plan), outputStructType=OUTPUT, outputMode="append", timeMode="none")
    )
    writer = joined.writeStream.queryName(name).outputMode("append").foreachBatch(Sink(plan, wanted, tell))
    writer = writer.option("checkpointLocation", definition.checkpoint)
    with _set(spark, "spark.sql.streaming.stateStore.providerClass", STATE_STORE):
        return (writer.trigger(availableNow=True) if available_now else writer).start()


@contextmanager
def _set(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Set what a query keeps from its start on; other queries of the session have what they had."""
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
    return lambda stream: spark.readStream.format("delta").load(stream.source)


def _rows(definition: JoinDefinition, stream: JoinStream, source: Callable[[JoinStream], DataFrame]) -> DataFrame:
    """Return a stream's columns with its time, its hash and the conditions of its tasks."""
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
        remedy = f"Mend the expression ({problem})."
        raise MillraceError(at, json.dumps(dict(stream.columns)), ", ".join(read.columns), remedy) from error


def _plan(spark: SparkSession, definition: JoinDefinition, rows: dict[str, DataFrame]) -> Plan:
    """Return the plan; what a checkpoint fixed at its first start stays fixed."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schemas = {stream: to_arrow_schema(frame.drop(HASH).schema, timezone="UTC") for stream, frame in rows.items()}
    folder = Path(definition.checkpoint) / FOLDER
    facts, shapes = folder / FACTS, {stream: str(schema) for stream, schema in schemas.items()}
    if facts.exists():
        found = json.loads(facts.read_text(encoding="utf-8"))
        if found["streams"] != shapes:
            remedy = "Name a new checkpoint and new results: the window that this one keeps has other columns."
            raise MillraceError(
                "checkpoint", definition.checkpoint, f"streams {list(found['streams'])} as then", remedy
            )
        keys = found["keys"]
    else:
        keys = _keys(spark)
    plan = Plan(definition, schemas, folder, tuple(keys))
    check(plan)
    if not facts.exists():
        write_whole(facts, json.dumps({"streams": shapes, "keys": keys}).encode())
    return plan


def _keys(spark: SparkSession) -> list[int]:
    """Return a key for each partition of state that Spark's hash brings there."""
    count = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    most = 64 * count  # enough that each partition is hit
    hashed = spark.range(0, most, 1, 1).selectExpr("cast(id as int) key", f"pmod(hash(cast(id as int)), {count}) place")
    found = {row["place"]: row["key"] for row in sorted(hashed.collect(), key=lambda row: -row["key"])}
    return [found[place] for place in range(count)]
