"""The rows that Millrace counts for a Delta source, compared with the rows that Spark reads, for each option."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millrace.runtime.telemetry.positions import Positions
from millrace.runtime.telemetry.sources.kinds import spark_sources

pytestmark = pytest.mark.spark

SEED = 3
STEPS = 8
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "skip": {"skipChangeCommits": "true"},
    "ignore": {"ignoreChanges": "true"},
    "exclude": {"skipChangeCommits": "true", "excludeRegex": "part=1"},
    "feed": {"readChangeFeed": "true"},
    "feed_from": {"readChangeFeed": "true", "startingVersion": "1"},
    "latest": {"ignoreChanges": "true", "startingVersion": "latest"},
}
Run = Any


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "part": [n % 2 for n in range(first, first + count)]})


def change(path: Path, kind: str, at: random.Random) -> None:
    """Commit one change of a kind, with a library other than Spark."""
    table = DeltaTable(path)
    some = f"id >= {at.randrange(20)} AND id < {at.randrange(20, 40)}"
    match kind:
        case "append":
            write_deltalake(path, rows(at.randrange(1000), at.randrange(1, 30)), mode="append", partition_by=["part"])
        case "update":
            table.update({"id": "id + 1"}, predicate=some)
        case "delete":
            table.delete(some)
        case "partition":
            table.delete(f"part = {at.randrange(2)}")
        case "merge":
            merge = table.merge(rows(at.randrange(30), 10), "t.id = s.id", source_alias="s", target_alias="t")
            merge.when_matched_update({"id": "s.id + 100"}).when_not_matched_insert_all().execute()
        case "optimize":
            table.optimize.compact()


def changes_by_a_library(path: Path, _: Any) -> None:
    at = random.Random(SEED)
    kinds = ["append", "update", "delete", "partition", "merge", "optimize"]
    for kind in [*at.sample(kinds, len(kinds)), *at.choices(kinds, k=STEPS - len(kinds)), "append"]:
        change(path, kind, at)


def changes_with_deletion_vectors(path: Path, spark: Any) -> None:
    table = f"delta.`{path}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    spark.sql(f"UPDATE {table} SET id = 500 WHERE id = 4")
    change(path, "append", random.Random(SEED))
    spark.sql(f"DELETE FROM {table} WHERE id IN (5, 6)")


def read_all(spark: Any, path: Path, checkpoints: Path, names: Sequence[str]) -> dict[str, Run]:
    """Run a query with each of the options, side by side, until it has read the table, and return Spark's queries."""
    queries = {}
    for name in names:
        options = OPTIONS[name]
        frame = spark.readStream.format("delta").options(**options, maxFilesPerTrigger="3").load(str(path))
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoints / name))
        queries[name] = writer.trigger(availableNow=True).start()
    for query in queries.values():
        query.awaitTermination()
    return queries


def batches(query: Run) -> list[dict[str, Any]]:
    """Return the source's part of each batch that ran."""
    sources = [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]
    return [source for source in sources if source["startOffset"] != source["endOffset"]]


def positions(query: Run) -> Positions:
    return Positions.following(spark_sources(query._jsq.streamingQuery()))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        (changes_by_a_library, list(OPTIONS)),
        pytest.param(changes_with_deletion_vectors, ["ignore", "feed"], marks=pytest.mark.slow),
    ],
)
def test_rows_counted_are_the_rows_that_spark_reads(
    spark: Any, tmp_path: Path, changes: Callable[[Path, Any], None], names: Sequence[str]
) -> None:
    table = tmp_path / "t"
    feed = {"delta.enableChangeDataFeed": "true"}
    for first in (0, 20):
        write_deltalake(table, rows(first, 20), mode="append", partition_by=["part"], configuration=feed)
    before = {name: batches(query) for name, query in read_all(spark, table, tmp_path, names).items()}
    changes(table, spark)
    after = read_all(spark, table, tmp_path, names)
    found, told = {}, {}
    for name, query in after.items():
        ran, counted = batches(query), positions(query)
        known = [positions(query).at_rest(before[name][-1:])] if before[name] else []
        told[name] = [p.backlog for p in known], [counted.of([batch]).read for batch in before[name] + ran]
        read = [batch["numInputRows"] for batch in ran]
        found[name] = [sum(read)] * len(known), [batch["numInputRows"] for batch in before[name]] + read
    assert found["ignore"][1] and found["feed"][1]
    assert told == found
