"""State partitions of real queries, from plain scripts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming import StatefulProcessor

from millrace.lake.partition_runs import partition_flows, partition_runs
from millrace.lake.row_codec import batch_from_row
from millrace.lake.store import Lake
from millrace.model.telemetry import BatchMetrics, PartitionFlow, PartitionRun
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.host import HostCpu
from millrace.runtime.telemetry.state_size import HadoopStorage, LocalStorage, StateSizes

pytestmark = pytest.mark.spark

PARTITIONS = 4
KEYS = 100
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
PATIENCE_S = 400
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORE = "spark.sql.streaming.stateStore.providerClass"


class Source:
    """A folder of files: rows with an id, a key and a time, one second apart."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.files = folder, 0, 0
        folder.mkdir()

    def append(self, rows: int) -> None:
        ids = range(self.rows, self.rows + rows)
        columns = {"id": ids, "key": [i % KEYS for i in ids], "time": [NOON + timedelta(seconds=i) for i in ids]}
        types = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
        pq.write_table(pa.table({k: list(v) for k, v in columns.items()}, types), self.folder / f"{self.files}.parquet")
        self.rows, self.files = self.rows + rows, self.files + 1


@dataclass
class Sampled:
    """A session whose queries are measured, each batch of them unless the clock stands still."""

    spark: Any
    root: Path
    telemetry: Callable[[], None]

    def stream(self, source: Source, **options: str) -> Any:
        reader = self.spark.readStream.schema("id long, key long, time timestamp").format("parquet").options(**options)
        return reader.load(str(source.folder))

    def run(self, frame: Any, mode: str = "update", name: str = "q") -> None:
        """Process all available rows."""
        writer = frame.writeStream.queryName(name).option("checkpointLocation", str(self.root / name)).outputMode(mode)
        query = writer.trigger(availableNow=True).format("noop").start()
        assert query.awaitTermination(PATIENCE_S)
        self.telemetry()

    def batches(self) -> list[BatchMetrics]:
        found = Lake(self.root / "lake").rows("select * from batches order by time", "telemetry/batches")
        return [batch_from_row(row) for row in found]

    def runs(self) -> list[PartitionRun]:
        return partition_runs(Lake(self.root / "lake"), "p", LONG_AGO)

    def newest(self) -> list[PartitionRun]:
        runs = self.runs()
        return [run for run in runs if run.time == runs[-1].time]

    def flows(self) -> list[PartitionFlow]:
        return partition_flows(Lake(self.root / "lake"), "p", LONG_AGO)

    def rows_in(self, operator: str) -> int:
        """Return the rows that a batch's operator read, for the last batch with rows."""
        batch = [b for b in self.batches() if b.rows_in][-1]
        return sum(o.rows_in or 0 for o in batch.operators if o.name == operator)


@pytest.fixture
def measured(spark: Any, tmp_path: Path) -> Iterator[Callable[..., Sampled]]:
    from millrace.runtime.telemetry.driver_telemetry import EVENTS_TIMEOUT_MS
    from millrace.runtime.telemetry.listener import TelemetryListener
    from millrace.runtime.telemetry.partitions import PartitionSampler
    from millrace.runtime.telemetry.writer import Writer

    ends: list[Callable[[], None]] = []
    settings = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        # a batch without rows may replace the plan of the previous one
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    before = {name: spark.conf.get(name, None) for name in (*settings, STORE, CHANGELOGS)}

    def sampled(clock: Callable[[], float] | None = None) -> Sampled:
        identity, host = AppIdentity("p", "a", 1, 7, 4), HostCpu()
        writer = Writer(Lake(tmp_path / "lake"), identity, 3600, host)
        sampler = PartitionSampler(spark, writer, 0.0, clock or itertools.count(step=1000.0).__next__)
        listener = TelemetryListener(spark, identity, writer, host, sampler)
        spark.streams.addListener(listener)
        ends.extend((lambda: spark.streams.removeListener(listener), sampler.close, writer.close))

        def flush() -> None:
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(EVENTS_TIMEOUT_MS)
            sampler.flush(PATIENCE_S)
            assert writer.flush()

        return Sampled(spark, tmp_path, flush)

    for name, value in settings.items():
        spark.conf.set(name, value)
    yield sampled
    for query in spark.streams.active:
        query.stop()
    for end in ends:
        end()
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "source")


def deltas(checkpoint: Path, operator: int, partition: int) -> int:
    folder = checkpoint / "state" / str(operator) / str(partition)
    return sum(file.stat().st_size for file in folder.rglob("*.delta") if not file.name.startswith("."))


def test_partitions_of_an_aggregation_are_its_tasks_and_their_state(
    measured: Callable[..., Sampled], source: Source, tmp_path: Path
) -> None:
    sampled = measured()
    counted = sampled.stream(source).groupBy("key").count()
    source.append(50)
    sampled.run(counted)
    first = sampled.newest()
    assert [run.partition for run in first] == list(range(PARTITIONS))
    assert {(run.operator, run.operators, run.executor, run.version) for run in first} == {(0, (0,), "driver", 7)}
    assert {(run.query, run.batch_id, run.pipeline, run.app, run.generation) for run in first} == {
        ("q", 0, "p", "a", 1)
    }
    assert {run.time for run in first} == {sampled.batches()[-1].time}
    assert sum(run.rows_in for run in first) == sampled.rows_in("StateStoreSave") == 50
    assert all(run.run_s > 0 and run.remote_bytes == 0 for run in first) and sum(run.local_bytes for run in first) > 0
    assert [run.state_bytes for run in first] == [deltas(tmp_path / "q", 0, p) for p in range(PARTITIONS)]
    memory, whole = [run.memory_bytes or 0 for run in first], sampled.batches()[-1].state_bytes or 0
    assert sum(memory) == pytest.approx(whole, abs=PARTITIONS) and whole > 0
    sizes = [run.state_bytes or 0 for run in first]
    assert memory == pytest.approx([whole * size / sum(sizes) for size in sizes], abs=1)

    source.append(500)
    sampled.run(counted)
    second = sampled.newest()
    assert {run.batch_id for run in second} == {1}
    assert sum(run.rows_in for run in second) == sampled.rows_in("StateStoreSave") == KEYS
    assert [run.state_bytes for run in second] == [deltas(tmp_path / "q", 0, p) for p in range(PARTITIONS)]
    assert all((b.state_bytes or 0) > (a.state_bytes or 0) > 0 for a, b in zip(first, second, strict=True))
    assert sampled.flows() == []


def test_flows_between_a_join_and_an_aggregation_match_the_rows_read(
    measured: Callable[..., Sampled], source: Source, tmp_path: Path
) -> None:
    sampled, other = measured(), Source(tmp_path / "other")
    source.append(300)
    other.append(200)
    left = sampled.stream(source).withWatermark("time", "1 day")
    right = sampled.stream(other).selectExpr("id as other", "time as at").withWatermark("at", "1 day")
    joined = left.join(right, left["id"] == right["other"]).where("time = at")
    sampled.run(joined.groupBy("time", "key").count(), mode="append")

    by_operator = {run.operator: run for run in sampled.runs()}
    assert len(by_operator) == 2 and [run.operators for run in by_operator.values()] == [(o,) for o in by_operator]
    (join,) = {
        run.operator for run in sampled.runs() if (tmp_path / f"q/state/{run.operator}/0/left-keyToNumValues").exists()
    }
    (count,) = set(by_operator) - {join}
    rows = Counter[int]()
    for run in sampled.runs():
        rows[run.operator] += run.rows_in
    assert rows == {join: 500, count: 200}
    assert len(sampled.runs()) == 2 * PARTITIONS
    assert all(run.state_bytes == deltas(tmp_path / "q", run.operator, run.partition) for run in sampled.runs())

    flows = sampled.flows()
    assert {(f.from_operator, f.to_operator) for f in flows} == {(join, count)}
    read = {run.partition: run.local_bytes + run.remote_bytes for run in sampled.runs() if run.operator == count}
    for partition, size in read.items():
        passed = sum(f.bytes for f in flows if f.to_partition == partition)
        assert 0.98 * size <= passed <= 1.12 * size
    assert {f.from_partition for f in flows} == set(range(PARTITIONS))


def test_operators_without_an_exchange_between_them_are_measured_as_one(
    measured: Callable[..., Sampled], source: Source, tmp_path: Path
) -> None:
    sampled = measured()
    source.append(300)
    once = sampled.stream(source).withWatermark("time", "1 day").dropDuplicates(["key", "time"])
    sampled.run(once.groupBy("key", "time").count(), mode="append")
    runs = sampled.runs()
    assert [(run.operator, run.operators, run.partition) for run in runs] == [(0, (0, 1), p) for p in range(PARTITIONS)]
    assert sum(run.rows_in for run in runs) == 300
    for run in runs:
        assert run.state_bytes == sum(deltas(tmp_path / "q", operator, run.partition) for operator in (0, 1))
    assert sampled.flows() == []


def counting(key: tuple[int], parts: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    rows = sum(len(part) for part in parts) + (state.get[0] if state.exists else 0)
    state.update((rows,))
    yield pd.DataFrame({"key": [key[0]], "rows": [rows]})


def test_state_of_a_users_function_is_measured(
    measured: Callable[..., Sampled], source: Source, tmp_path: Path
) -> None:
    sampled = measured()
    source.append(300)
    rows = sampled.stream(source).groupBy("key")
    sampled.run(rows.applyInPandasWithState(counting, "key long, rows long", "rows long", "update", "NoTimeout"))
    assert [(run.operators, run.partition) for run in sampled.runs()] == [((0,), p) for p in range(PARTITIONS)]
    assert sum(run.rows_in for run in sampled.runs()) == 300
    assert all(run.state_bytes == deltas(tmp_path / "q", 0, run.partition) > 0 for run in sampled.runs())


def test_session_windows_are_measured(measured: Callable[..., Sampled], source: Source, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    sampled = measured()
    source.append(300)
    timed = sampled.stream(source).withColumn("at", sf.timestamp_seconds("id")).withWatermark("at", "1 minute")
    sampled.run(timed.groupBy(sf.session_window("at", "10 seconds"), "key").count(), "append")
    assert [(run.operators, run.partition) for run in sampled.newest()] == [((0,), p) for p in range(PARTITIONS)]
    assert sum(run.rows_in for run in sampled.runs()) > 0
    assert all(run.state_bytes == deltas(tmp_path / "q", 0, run.partition) for run in sampled.runs())


class RowCounter(StatefulProcessor):
    """Counts the rows of each key in a separate value."""

    def init(self, handle: Any) -> None:
        self.rows = handle.getValueState("rows", "rows long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: tuple[int], parts: Iterator[pd.DataFrame], _timers: Any
    ) -> Iterator[pd.DataFrame]:
        rows = sum(len(part) for part in parts) + (self.rows.get()[0] if self.rows.exists() else 0)
        self.rows.update((rows,))
        yield pd.DataFrame({"key": [key[0]], "rows": [rows]})

    def close(self) -> None:
        """Nothing to release."""


def _ran(run: Callable[[], None]) -> bool:
    """Run a query; return False if its driver's Python process took more than the ten seconds that Spark allows."""
    from pyspark.errors import StreamingQueryException

    try:
        run()
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error):
            raise
        return False
    return True


def test_state_of_a_users_processor_is_measured(measured: Callable[..., Sampled], source: Source) -> None:
    sampled = measured()
    sampled.spark.conf.set(STORE, ROCKSDB)
    source.append(300)
    rows = sampled.stream(source).groupBy("key")
    counted = rows.transformWithStateInPandas(RowCounter(), "key long, rows long", "update", "none")
    while not _ran(lambda: sampled.run(counted)):
        pass
    assert [(run.operators, run.partition) for run in sampled.newest()] == [((0,), p) for p in range(PARTITIONS)]
    assert sum(run.rows_in for run in sampled.runs()) == 300
    assert all(run.state_bytes and run.host for run in sampled.runs())


def test_query_without_state_has_no_partitions(measured: Callable[..., Sampled], source: Source) -> None:
    sampled = measured()
    source.append(50)
    sampled.run(sampled.stream(source).where("key > 3"))
    assert sampled.batches()[-1].rows_in == 50
    assert sampled.runs() == [] and sampled.flows() == []


def test_batches_within_the_interval_are_not_sampled(measured: Callable[..., Sampled], source: Source) -> None:
    sampled = measured(clock=lambda: 0.0)
    for _ in range(5):
        source.append(20)
    sampled.run(sampled.stream(source, maxFilesPerTrigger="1").groupBy("key").count())
    assert len([b for b in sampled.batches() if b.rows_in]) == 5
    assert len({run.batch_id for run in sampled.runs()}) == 1


def test_state_is_measured_less_often_than_tasks(measured: Callable[..., Sampled], source: Source) -> None:
    sampled = measured(clock=itertools.count(step=5.0).__next__)  # called a few times per batch
    for _ in range(8):
        source.append(20)
    sampled.run(sampled.stream(source, maxFilesPerTrigger="1").groupBy("key").count())
    by_batch = {run.batch_id: run.state_bytes for run in sampled.runs()}
    assert len(by_batch) > 1 and by_batch[min(by_batch)] is not None
    assert None in by_batch.values()


@pytest.mark.parametrize("changelogs", ["false", "true"])
def test_state_in_rocksdb_is_the_size_of_its_snapshot_or_changelogs(
    changelogs: str, measured: Callable[..., Sampled], source: Source, tmp_path: Path
) -> None:
    sampled = measured()
    sampled.spark.conf.set(STORE, ROCKSDB)
    sampled.spark.conf.set(CHANGELOGS, changelogs)
    source.append(500)
    sampled.run(sampled.stream(source).groupBy("id").count())
    folders = [tmp_path / "q" / "state" / "0" / str(run.partition) for run in sampled.newest()]
    of_first = [
        [f for f in folder.rglob("*") if f.suffix in (".zip", ".sst", ".log", ".changelog")] for folder in folders
    ]
    assert {f.suffix for files in of_first for f in files} >= {".changelog" if changelogs == "true" else ".sst"}
    assert [run.state_bytes for run in sampled.newest()] == [sum(f.stat().st_size for f in files) for files in of_first]


def test_state_measured_through_hadoop_is_the_same(
    measured: Callable[..., Sampled], source: Source, tmp_path: Path
) -> None:
    sampled = measured()
    sampled.spark.conf.set(STORE, ROCKSDB)
    source.append(500)
    sampled.run(sampled.stream(source).groupBy("id").count(), name="with space")
    root = f"file:{tmp_path}/with space/state"
    ours, hadoops = (StateSizes(root, s) for s in (LocalStorage(), HadoopStorage(sampled.spark.sparkContext)))
    assert [ours.loaded(0, p) for p in range(PARTITIONS)] == [hadoops.loaded(0, p) for p in range(PARTITIONS)]
    assert ours.loaded(0, 0) > 0


def test_query_continues_if_its_partitions_cannot_be_measured(
    measured: Callable[..., Sampled], source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from millrace.runtime.telemetry import stage_tasks

    def broken(*_: object) -> None:
        raise OSError("no status store")

    monkeypatch.setattr(stage_tasks.TaskReader, "read", broken)
    sampled = measured()
    for _ in range(3):
        source.append(20)
    sampled.run(sampled.stream(source, maxFilesPerTrigger="1").groupBy("key").count())
    assert sum(b.rows_in for b in sampled.batches()) == 60 and sampled.runs() == []
    assert sum("no status store" in message for message in caplog.messages) == 1
