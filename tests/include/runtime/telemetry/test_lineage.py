"""Names of sources and sinks, from the descriptions that Spark 4.2, Delta 4.4 and Spark's Kafka connector write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.runtime.telemetry import lineage
from millrace.runtime.telemetry.batches import AppIdentity, batch_metrics, marker
from millrace.runtime.telemetry.sink import sink_name
from millrace.runtime.telemetry.sources.api import UNKNOWN, Position

TIME = "2026-11-28T10:00:00.000Z"
BRONZE = "DeltaSource[file:/data/bronze]"
KAFKA_SINK = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1674f2d1"
NAMELESS_SINKS = [
    "ForeachBatchSink",
    "NoopTable",
    "MemorySink",
    "org.apache.spark.sql.execution.streaming.ConsoleTable$@1467f64f",
    KAFKA_SINK,
    "",
]
NAMELESS_SOURCES = [
    "RatePerMicroBatchStream[rowsPerBatch=3, numPartitions=1, startTimestamp=0, advanceMsPerBatch=1000]",
    "TextSocketV2[host: localhost, port: 9999]",
    "MemoryStream[value#1]",
    "io.delta.spark.internal.v2.read.DeltaV2MicroBatchStream@51d7a8",
    "",
]


def entry(description: str, rows: int = 10, start: Any = None, end: Any = None) -> dict[str, Any]:
    return {"description": description, "numInputRows": rows, "startOffset": start, "endOffset": end}


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("/data/silver", "path:/data/silver"),
        ("/data/silver/", "path:/data/silver"),
        ("//data//silver", "path:/data/silver"),
        ("file:/data/silver", "path:/data/silver"),
        ("file:///data/silver/", "path:/data/silver"),
        ("file:/data/two words", "path:/data/two words"),
        ("/", "path:/"),
        ("s3a://bucket/silver", "path:s3://bucket/silver"),
        ("s3n://bucket/silver/", "path:s3://bucket/silver"),
        ("S3://bucket/silver", "path:s3://bucket/silver"),
        ("s3a://bucket", "path:s3://bucket"),
        ("s3a://bucket/", "path:s3://bucket"),
        ("hdfs://node:8020/data", "path:hdfs://node:8020/data"),
        ("abfss://box@account.dfs.core.windows.net/silver", "path:abfss://box@account.dfs.core.windows.net/silver"),
        ("dbfs:/silver", "path:dbfs:/silver"),
        ("data/silver", ""),
        ("file:", ""),
        ("", ""),
    ],
)
def test_name_of_a_path_does_not_depend_on_how_it_is_written(uri: str, name: str) -> None:
    assert lineage.path(uri) == name


@pytest.mark.parametrize(
    ("sink", "source"),
    [
        ("DeltaSink[/data/silver]", "DeltaSource[file:/data/silver]"),
        ("DeltaSink[file:/warehouse/t_silver]", "DeltaSource[file:/warehouse/t_silver]"),
        ("DeltaSink[s3a://bucket/silver]", "DeltaSource[s3a://bucket/silver]"),
        ("FileSink[file:/data/out]", "FileStreamSource[file:/data/out]"),
        ("FileSink[file:/data/out]", "FileStreamSource[file:/data/out/*.parquet]"),
        ("FileSink[file:/data/out]", "FileStreamSource[file:/data/out/day=*/part-[01]*.json]"),
        ("FileSink[s3a://bucket]", "FileStreamSource[s3a://bucket/{a,b}/x]"),
        ("DeltaSink[/data/a[1]]", "DeltaSource[file:/data/a[1]]"),
    ],
)
def test_sink_and_source_of_the_same_data_have_the_same_name(sink: str, source: str) -> None:
    (name,) = lineage.sources([entry(source)], 10)
    assert lineage.sink(sink) == name


@pytest.mark.parametrize("description", NAMELESS_SINKS)
def test_sink_that_hides_its_target_has_no_name(description: str) -> None:
    assert lineage.sink(description) == ""


@pytest.mark.parametrize("description", NAMELESS_SOURCES)
def test_source_without_a_name_is_left_out(description: str) -> None:
    assert lineage.sources([entry(description), entry(BRONZE)], 20) == {"path:/data/bronze": 10}


def test_rows_of_two_reads_of_one_table_are_added_up() -> None:
    silver = entry("DeltaSource[file:/data/silver]", 5)
    assert lineage.sources([entry(BRONZE), silver, entry(BRONZE)], 25) == {
        "path:/data/bronze": 20,
        "path:/data/silver": 5,
    }


def test_rows_that_foreach_batch_counts_again_do_not_count() -> None:
    twice = [entry(BRONZE, 14), entry("DeltaSource[file:/data/silver]", 6)]
    assert lineage.sources(twice, 10) == {"path:/data/bronze": 7, "path:/data/silver": 3}


def test_rows_that_spark_did_not_count_belong_to_the_only_source() -> None:
    assert lineage.sources([entry(BRONZE, 0)], 10) == {"path:/data/bronze": 10}
    silver = entry("DeltaSource[file:/data/silver]", 0)
    assert lineage.sources([entry(BRONZE, 0), silver], 10) == {"path:/data/bronze": 0, "path:/data/silver": 0}


def test_topics_share_rows_by_the_offsets_that_the_batch_passed() -> None:
    start = {"one": {"0": 4, "1": 0}, "two": {"0": 1, "1": 0}}
    end = {"one": {"0": 8, "1": 0}, "two": {"0": 2, "1": 0}, "three": {"0": 5}}
    batch = entry("KafkaV2[Subscribe[one, two]]", 10, start, end)
    assert lineage.sources([batch], 10) == {"kafka:three": 5, "kafka:one": 4, "kafka:two": 1}


@pytest.mark.parametrize(
    ("description", "end", "names"),
    [
        ("KafkaV2[Subscribe[one]]", {"one": {"0": 10, "1": 0}}, {"kafka:one": 10}),
        (
            "KafkaV2[SubscribePattern[t.*]]",
            {"two": {"0": 1, "1": 0}, "three": {"0": 4, "1": 5}},
            {"kafka:three": 9, "kafka:two": 1},
        ),
        ("KafkaV2[Assign[one-0]]", {"one": {"0": 10}}, {"kafka:one": 10}),
        ("KafkaSourceV1[Subscribe[one]]", {"one": {"0": 10}}, {"kafka:one": 10}),
        ("KafkaV2[Subscribe[one]]", None, {}),
        ("KafkaV2[Subscribe[one]]", {"one": 3}, {}),
        ("KafkaV2[Subscribe[one]]", "latest", {}),
    ],
)
def test_first_batch_of_topics_has_no_start(description: str, end: Any, names: dict[str, int]) -> None:
    assert lineage.sources([entry(description, 10, None, end)], 10) == names


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(1, 50), min_size=1, max_size=9), st.integers(0, 1000))
def test_topics_share_all_rows(passed: dict[str, int], rows: int) -> None:
    end = {name: {"0": n} for name, n in passed.items()}
    found = lineage.sources([entry("KafkaV2[SubscribePattern[.*]]", rows, None, end)], rows)
    assert sum(found.values()) == rows and set(found) == {f"kafka:{name}" for name in passed}


def test_only_the_sources_with_most_rows_are_named() -> None:
    end = {f"topic{n}": {"0": n} for n in range(500)}
    found = lineage.sources([entry("KafkaV2[SubscribePattern[.*]]", 0, None, end)], sum(range(500)))
    assert list(found) == [f"kafka:topic{n}" for n in range(499, 499 - lineage.MOST_SOURCES, -1)]


def test_row_of_a_batch_and_its_markers_contain_the_lineage() -> None:
    facts = {
        "id": "q",
        "batchId": 3,
        "timestamp": TIME,
        "numInputRows": 20,
        "sources": [entry(BRONZE, 20)],
        "sink": {"description": "DeltaSink[/data/silver]", "numOutputRows": -1},
    }
    row = batch_metrics(facts, AppIdentity("p", "a", 1, 1, 4), Position(read=10), (), None)
    assert (row.rows_in, row.sources, row.sink) == (10, {"path:/data/bronze": 10}, "path:/data/silver")
    row = replace(row, sink="kafka:out")
    rest = marker(row, datetime.now(UTC), 4, {}, UNKNOWN)
    assert (rest.rows_in, rest.sources, rest.sink) == (0, {"path:/data/bronze": 0}, "kafka:out")


class Options:
    """A Scala map of options."""

    def __init__(self, **values: str) -> None:
        self._values = values

    def keysIterator(self) -> Any:  # noqa: N802 - Scala's name
        keys: Iterator[str] = iter(self._values)
        left = len(self._values)

        def has_next() -> bool:
            return left > 0

        def following() -> str:
            nonlocal left
            left -= 1
            return next(keys)

        return SimpleNamespace(hasNext=has_next, next=following)

    def apply(self, key: str) -> str:
        return self._values[key]


@pytest.mark.parametrize(
    ("options", "name"),
    [({"checkpointLocation": "/c", "topic": "out"}, "kafka:out"), ({"Topic": "out"}, "kafka:out"), ({"key": "x"}, "")],
)
def test_topic_of_a_sink_is_an_option_of_the_writer(options: dict[str, str], name: str) -> None:
    kind = SimpleNamespace(getName=lambda: KAFKA_SINK.split("@")[0])
    sink = SimpleNamespace(getClass=lambda: kind, toString=lambda: KAFKA_SINK)
    plan = SimpleNamespace(writeOptions=lambda: Options(**options))
    assert sink_name(SimpleNamespace(sink=lambda: sink, logicalPlan=lambda: plan), None) == name
