"""Telemetry of real queries, from plain scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from millrace.lake.row_codec import batch_from_row
from millrace.lake.source_tables import SourceTable
from millrace.lake.store import Lake
from millrace.model.telemetry import RUNNING, BatchMetrics
from millrace.runtime.telemetry.batches import AppIdentity
from tests.jobs.driving import until

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.int64())])
SLOTS = 4
WAIT_S = 0.8
PATIENCE_S = 400


class Feed:
    """Commits of rows in files of equal size."""

    def __init__(self, path: Path) -> None:
        self.table, self.rows, self.commits = SourceTable(path, SCHEMA, "test"), 0, 0

    def append(self, rows: int, files: int) -> None:
        ids = list(range(self.rows, self.rows + rows))
        self.table.append(pa.table({"id": ids, "key": [i % 7 for i in ids]}, SCHEMA), files, "feed", self.commits)
        self.rows, self.commits = self.rows + rows, self.commits + 1


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "source")


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    from millrace.runtime.telemetry.driver_telemetry import Telemetry

    opened = []

    def attached(generation: int = 1, lake: Path | None = None) -> Any:
        identity = AppIdentity("p", "a", generation, 1, SLOTS)
        opened.append(Telemetry(spark, identity, lake or tmp_path / "lake", 5))
        return opened[-1]

    yield attached
    for query in spark.streams.active:
        query.stop()
    for telemetry in opened:
        telemetry.close()


def batches(root: Path, query: str = "q", *, running: bool = False) -> list[BatchMetrics]:
    """Return what was reported of a query, without markers of running batches, which depend on the machine's speed."""
    rows = Lake(root).rows("select * from batches order by time", "telemetry/batches")
    found = [b for b in map(batch_from_row, rows) if b.query == query]
    return found if running else [b for b in found if RUNNING not in b.durations_ms]


def waiting(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        time.sleep(WAIT_S)
        yield part


def stream(spark: Any, tmp_path: Path, files: int) -> Any:
    return spark.readStream.format("delta").option("maxFilesPerTrigger", files).load(str(tmp_path / "source"))


def drain(frame: Any, tmp_path: Path, name: str = "q") -> None:
    writer = frame.writeStream.queryName(name).option("checkpointLocation", str(tmp_path / f"checkpoint-{name}"))
    query = writer.trigger(availableNow=True).format("noop").outputMode("update").start()
    assert query.awaitTermination(PATIENCE_S)


def test_batches_of_a_plain_query_count_rows_and_backlog_exactly(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any]
) -> None:
    for rows in (40, 60):
        feed.append(rows, files=4)
    telemetry = start()
    rows = stream(spark, tmp_path, 4)
    drain(rows.mapInPandas(waiting, rows.schema).groupBy("key").count(), tmp_path)
    telemetry.flush()  # its last event reports the table's end as it is now
    feed.append(24, files=4)  # a second run continues from the log, not from the snapshot
    feed.append(8, files=1)
    drain(rows.mapInPandas(waiting, rows.schema).groupBy("key").count(), tmp_path)
    assert telemetry.flush()

    found = batches(tmp_path / "lake")
    assert [b.batch_id for b in found] == list(range(len(found)))
    assert sum(b.rows_in for b in found) == feed.rows == 132
    read, origins = 0, set()
    for batch in found:
        read += batch.rows_in
        assert batch.backlog_rows == (100 if read <= 100 else 132) - read
        origins.add(batch.source_end - batch.backlog_rows - read)
        assert batch.state_rows == 7
        assert batch.durations_ms["triggerExecution"] > 0
        assert batch.host_cpu_other is None or 0 <= batch.host_cpu_other <= 1
    assert len(origins) == 1  # both runs count from the same start
    assert all(a.time <= b.time for a, b in pairwise(found))

    whole = [b for b in found if b.rows_in > 8]
    planned = [b for b in whole if {"MapInPandas", "StateStoreSave"} <= {o.name for o in b.operators}]
    assert planned  # on a busy machine the next batch may have replaced a plan, or metrics of its last stage come late
    for batch in planned:
        operators = {o.name: o for o in batch.operators}
        wait = operators["MapInPandas"]
        assert (wait.tasks, wait.p) == (4, 4)
        assert wait.rows_in == wait.rows_out == batch.rows_in
        assert operators["StateStoreSave"].tasks == 2
        assert operators["Scan parquet"].rows_in == batch.rows_in
        assert wait.useful_s is not None and wait.useful_s >= 4 * WAIT_S * 0.97
        assert wait.useful_s <= 4 * batch.duration_s
        assert batch.gc_s is not None and 0 <= batch.gc_s <= 4 * batch.duration_s
    single = [b for b in found if b.rows_in == 8 and any(o.name == "MapInPandas" for o in b.operators)]
    if single:  # one file is one task, whatever the slots
        assert {(o.tasks, o.p) for b in single for o in b.operators if o.name == "MapInPandas"} == {(1, 1)}


def test_p_is_one_task_if_a_batch_is_one_file(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any]
) -> None:
    feed.append(40, files=1)
    telemetry = start()
    rows = stream(spark, tmp_path, 4)
    drain(rows.mapInPandas(waiting, rows.schema), tmp_path)
    telemetry.flush()
    (batch,) = [b for b in batches(tmp_path / "lake") if b.rows_in]
    assert batch.rows_in == batch.rows_out == 40
    assert {(o.tasks, o.p) for o in batch.operators} == {(1, 1)}


def test_batches_when_replayed_by_a_successor_then_exist_once(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any]
) -> None:
    feed.append(20, files=2)
    feed.append(20, files=2)
    first = start(1)
    drain(stream(spark, tmp_path, 2), tmp_path)
    first.close()
    before = batches(tmp_path / "lake")
    last = max(b.batch_id for b in before)
    for name in (f"{last}", f".{last}.crc"):  # as if the driver had died before Spark noted the commit
        (tmp_path / "checkpoint-q" / "commits" / name).unlink(missing_ok=True)
    feed.append(10, files=2)
    second = start(2)
    drain(stream(spark, tmp_path, 2), tmp_path)
    second.close()
    after = batches(tmp_path / "lake")
    ids = [b.batch_id for b in after]
    assert len(ids) == len(set(ids)) and max(ids) > last
    assert sum(b.rows_in for b in after) == feed.rows == 50


def test_query_continues_while_the_lake_is_not_writable(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "lake"
    broken.write_text("no folder")
    feed.append(20, files=2)
    telemetry = start()
    drain(stream(spark, tmp_path, 2), tmp_path)
    assert not telemetry.flush()
    assert not telemetry.flush()
    assert sum("Telemetry cannot be written yet" in m for m in caplog.messages) == 1
    broken.unlink()
    assert telemetry.flush()
    assert sum(b.rows_in for b in batches(broken)) == 20


def test_batches_when_foreach_batch_acts_twice_then_count_rows_once(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any]
) -> None:
    feed.append(40, files=4)
    telemetry = start()

    def twice(frame: Any, _: int) -> None:
        frame.count()
        frame.groupBy("key").count().collect()

    rows = stream(spark, tmp_path, 4)
    waited = rows.mapInPandas(waiting, rows.schema).writeStream.foreachBatch(twice).queryName("q")
    other = stream(spark, tmp_path, 4).writeStream.format("noop").queryName("other")
    running = [
        w.option("checkpointLocation", str(tmp_path / f"both-{n}")).trigger(availableNow=True).start()
        for n, w in enumerate((waited, other))
    ]
    assert all(q.awaitTermination(PATIENCE_S) for q in running)
    telemetry.flush()
    (batch,) = [b for b in batches(tmp_path / "lake") if b.rows_in]
    assert (batch.rows_in, batch.rows_out) == (40, None)
    operators = {o.name: o for o in batch.operators}
    assert operators["MapInPandas"].rows_in == 40
    assert operators["MapInPandas"].useful_s >= 2 * 4 * WAIT_S * 0.97  # it waited twice for each row
    assert "foreachBatch" in operators
    assert sum(b.rows_in for b in batches(tmp_path / "lake", "other")) == 40


def test_marker_when_nothing_arrives_then_reports_waiting_rows_and_slots(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any]
) -> None:
    feed.append(20, files=2)
    telemetry = start()
    writer = stream(spark, tmp_path, 4).writeStream.format("noop").queryName("q")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(processingTime="1 second").start()
    deadline = time.monotonic() + PATIENCE_S
    markers: list[BatchMetrics] = []
    while not markers and time.monotonic() < deadline:
        assert query.exception() is None
        telemetry.flush()
        found = batches(tmp_path / "lake")
        markers = [b for b in found if not b.durations_ms]
        if found and not markers:
            telemetry.resized(2, SLOTS + 3)
        time.sleep(0.3)
    query.stop()
    assert (markers[0].rows_in, markers[0].backlog_rows, markers[0].source_end) == (0, 0, 20)
    assert markers[0].batch_id == max(b.batch_id for b in found if b.durations_ms)
    assert (found[0].slots, markers[0].slots) == (SLOTS, SLOTS + 3)
    assert {b.trigger_s for b in found} == {1.0}


def test_long_batch_reports_arrivals_while_it_runs(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any]
) -> None:
    """The rows that the batch reads count as waiting until it ends, and each row of the source counts once."""
    feed.append(20, files=2)
    telemetry, let_go = start(), tmp_path / "let go"

    def long(frame: Any, number: int) -> None:
        frame.count()
        while number and not let_go.exists():
            time.sleep(0.1)

    writer = stream(spark, tmp_path, 4).writeStream.foreachBatch(long).queryName("q")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()

    def running() -> list[BatchMetrics]:
        assert query.exception() is None
        telemetry.flush()
        found = batches(tmp_path / "lake", running=True)
        return [b for b in found if RUNNING in b.durations_ms and b.batch_id >= 0]  # of the second batch

    until(lambda: [b for b in batches(tmp_path / "lake") if b.rows_in] or not telemetry.flush(), "the first batch")
    feed.append(30, files=2)
    until(lambda: [b for b in running() if b.source_end == 50], "a marker of 50 rows")
    feed.append(40, files=2)
    until(lambda: [b for b in running() if b.source_end == 90], "a marker of 90 rows")
    markers = running()
    let_go.touch()
    until(lambda: telemetry.flush() and sum(b.rows_in for b in batches(tmp_path / "lake")) == 90, "all rows in batches")
    query.stop()
    assert {(b.rows_in, b.batch_id) for b in markers} == {(0, 0)}
    assert all(b.backlog_rows == (b.source_end or 0) - 20 for b in markers)
    times = [b.durations_ms[RUNNING] for b in markers]
    assert times == sorted(times) and times[0] >= 4000
    ended = [b for b in batches(tmp_path / "lake") if b.rows_in]
    assert sum(b.rows_in for b in ended) == 90 and ended[-1].backlog_rows == 0


@pytest.mark.parametrize("of_all", [True, False], ids=["of the query", "of the driver"])
def test_first_batch_is_reported_while_it_runs(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any], of_all: bool
) -> None:
    feed.append(20, files=2)
    if not of_all:
        start(generation=1)
        drain(stream(spark, tmp_path, 4), tmp_path)
        feed.append(30, files=2)
    lake, let_go = tmp_path / "lake of the driver", tmp_path / "let go"
    telemetry = start(generation=2, lake=lake)

    def long(frame: Any, number: int) -> None:
        frame.count()
        while not let_go.exists():
            time.sleep(0.1)

    writer = stream(spark, tmp_path, 4).writeStream.foreachBatch(long).queryName("q")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint-q")).start()
    until(lambda: telemetry.flush() and batches(lake, running=True), "a marker of the running batch")
    let_go.touch()
    until(lambda: telemetry.flush() and [b for b in batches(lake) if b.rows_in], "the batch")
    query.stop()
    marker, *_, batch = batches(lake, running=True)
    waiting = (None, None) if of_all else (30, marker.source_end)
    assert marker.durations_ms[RUNNING] >= 2000 and marker.batch_id == batch.batch_id - 1
    assert (marker.rows_in, marker.backlog_rows, marker.source_end) == (0, *waiting)
    assert of_all or marker.source_end == batch.source_end
    assert batch.rows_in == (20 if of_all else 30)


def test_successor_on_a_silent_source_marks_it_without_a_batch(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any]
) -> None:
    feed.append(20, files=2)
    start(generation=1)
    drain(stream(spark, tmp_path, 4), tmp_path)
    lake = tmp_path / "lake of the successor"
    telemetry = start(generation=2, lake=lake)
    writer = stream(spark, tmp_path, 4).writeStream.format("noop").queryName("q").outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint-q")).start()
    deadline = time.monotonic() + PATIENCE_S
    while not (found := batches(lake)) and time.monotonic() < deadline:
        assert query.exception() is None
        telemetry.flush()
        time.sleep(0.3)
    query.stop()
    (marker,) = found[:1]
    assert (marker.rows_in, marker.backlog_rows, marker.durations_ms) == (0, 0, {})
    assert marker.source_end is not None
    assert (marker.generation, marker.batch_id) == (2, 0)


def test_query_of_another_session_is_measured_like_any_other(
    spark: Any, tmp_path: Path, feed: Feed, start: Callable[..., Any]
) -> None:
    feed.append(20, files=2)
    telemetry = start()
    other = spark.newSession()
    rows = stream(other, tmp_path, 4)
    drain(rows.mapInPandas(waiting, rows.schema), tmp_path)
    assert telemetry.flush()
    (batch,) = [b for b in batches(tmp_path / "lake") if b.rows_in]
    assert (batch.rows_in, batch.backlog_rows, batch.source_end) == (20, 0, 20)
    assert "MapInPandas" in {o.name for o in batch.operators}
    assert not other.streams.active


def test_query_in_real_time_mode_reports_its_permanent_tasks(
    spark: Any, tmp_path: Path, start: Callable[..., Any]
) -> None:
    from pyspark.sql import DataFrame

    jvm, shortest = spark.sparkContext._jvm, "spark.sql.streaming.realTimeMode.minBatchDuration"
    memory = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
    numbers = DataFrame(memory.apply(spark._jsparkSession, 2, jvm.org.apache.spark.sql.Encoders.LONG()).toDF(), spark)
    writer = numbers.writeStream.queryName("q").format("console").outputMode("update")
    telemetry = start()
    spark.conf.set(shortest, "100")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(realTime="500 milliseconds").start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := batches(tmp_path / "lake")) and time.monotonic() < deadline:
            assert query.exception() is None
            telemetry.flush()
    finally:
        query.stop()
        spark.conf.unset(shortest)
    assert {batch.running_tasks for batch in found} == {2}
