"""State of real queries with another number of partitions: results match a batch, failures leave no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.drivers.rescaler import FILE_SINK
from millrace.run_folder import rescale_record as record
from millrace.run_folder.driver_records import QueryCheckpoint
from millrace.run_folder.rescale_record import Phase, Rescale, copy_of
from millrace.runtime import rescale
from millrace.runtime.agent.placement import StatePlacement
from millrace.runtime.checkpoints import STATE_STORE, checkpoint_of
from tests.jobs.driving import until

pytestmark = pytest.mark.spark

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
KEYS, ROWS, PATIENCE_S = 40, 400, 400
STATE = "org.apache.spark.sql.execution.streaming.state."
ROCKSDB, ON_HEAP = f"{STATE}RocksDBStateStoreProvider", f"{STATE}HDFSBackedStateStoreProvider"
TYPES = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
SCHEMA = "id long, key long, time timestamp"
Frame = Any


@dataclass
class Source:
    """A folder of files: rows with an id, a key and a time."""

    folder: Path
    files: int = 0

    def append(self, ids: Sequence[int], later_s: int = 0) -> None:
        self.folder.mkdir(exist_ok=True)
        times = [NOON + timedelta(seconds=later_s + i // 2 + (i % KEYS) * (i // 100)) for i in ids]
        columns = {"id": list(ids), "key": [i % KEYS for i in ids], "time": times}
        pq.write_table(pa.table(columns, TYPES), self.folder / f"{self.files}.parquet")
        self.files += 1


@dataclass
class World:
    """Queries over two sources, in one folder."""

    spark: Any
    root: Path
    out: list[tuple[Any, ...]] = field(default_factory=list)
    query: Any = None

    def __post_init__(self) -> None:
        self.left, self.right = Source(self.root / "left"), Source(self.root / "right")

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def app(self) -> Path:
        return self.root / "app"

    def rows(self, source: Source, stream: bool) -> Frame:
        reader = self.spark.readStream if stream else self.spark.read
        return reader.schema(SCHEMA).parquet(str(source.folder))

    def run(self, frame: Frame, partitions: int, mode: str = "append", provider: str = ROCKSDB) -> QueryCheckpoint:
        """Process all available rows, and return the facts about the query's checkpoint."""
        self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        self.spark.conf.set(STATE_STORE, provider)

        def collect(batch: Frame, _number: int) -> None:
            self.out.extend(tuple(row) for row in batch.collect())

        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(self.checkpoint))
        query = writer.queryName("q").trigger(availableNow=True).foreachBatch(collect).start()
        assert query.awaitTermination(PATIENCE_S)
        checkpoint = checkpoint_of(query)
        assert checkpoint is not None
        self.query = query
        return checkpoint

    def begin(self, checkpoint: QueryCheckpoint, partitions: int) -> None:
        now, former = datetime.now(UTC), checkpoint.partitions
        record.write(self.app, Rescale(2, 1, 2, partitions, former, (checkpoint,), now))

    def change(self, checkpoint: QueryCheckpoint, partitions: int) -> Rescale:
        self.begin(checkpoint, partitions)
        return rescale.change(self.spark, self.app)

    def files(self) -> dict[str, bytes]:
        return {
            str(file.relative_to(self.checkpoint)): file.read_bytes()
            for file in self.checkpoint.rglob("*")
            if file.is_file() and not file.name.endswith(".crc")
        }

    def copied(self) -> bool:
        return Path(copy_of(str(self.checkpoint))).exists()


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> Iterator[World]:
    keys = ("spark.sql.shuffle.partitions", STATE_STORE)
    before = {key: spark.conf.get(key, None) for key in keys}
    yield World(spark, tmp_path)
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def counted(rows: Frame, _other: Frame) -> Frame:
    return rows.groupBy("key").count()


def distinct(rows: Frame, _other: Frame) -> Frame:
    return rows.dropDuplicates(["id"]).select("id")


def sessions(rows: Frame, _other: Frame) -> Frame:
    from pyspark.sql.functions import session_window

    window = session_window("time", "20 seconds").alias("w")
    grouped = rows.withWatermark("time", "1 hour").groupBy("key", window).count()
    return grouped.selectExpr("key", "w.start", "w.end", "count")


def joined(rows: Frame, other: Frame) -> Frame:
    left = rows.withWatermark("time", "1 hour").selectExpr("id", "key", "time")
    right = other.withWatermark("time", "1 hour").selectExpr("id id_2", "time time_2")
    return left.join(right, left.id == right.id_2).select("id", "key", "time", "time_2")


def _count(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    rows = sum(len(frame) for frame in frames) + (state.get[0] if state.exists else 0)
    state.update((rows,))
    yield pd.DataFrame({"key": [key[0]], "rows": [rows]})


def stateful(rows: Frame, _other: Frame) -> Frame:
    by_key = rows.groupBy("key")
    return by_key.applyInPandasWithState(_count, "key long, rows long", "rows long", "update", "NoTimeout")


def last_of_key(out: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted({row[0]: row for row in out}.values())


KINDS: dict[str, tuple[Callable[..., Frame], Callable[..., Frame], str]] = {
    "aggregation": (counted, counted, "update"),
    "deduplication": (distinct, distinct, "append"),
    "session window": (sessions, sessions, "append"),
    "stream-stream join": (joined, joined, "append"),
    "applyInPandasWithState": (stateful, counted, "update"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(4, 7), (8, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_results_over_a_change_of_partitions_match_a_batch(world: World, kind: str, before: int, after: int) -> None:
    stream, batch, mode = KINDS[kind]
    half = ROWS // 2
    world.left.append(range(half))
    world.right.append(range(half // 2), later_s=5)
    frame = stream(world.rows(world.left, True), world.rows(world.right, True))
    checkpoint = world.run(frame, before, mode)
    assert (checkpoint.query, checkpoint.partitions, checkpoint.provider) == ("q", before, ROCKSDB)

    done = world.change(checkpoint, after)
    assert (done.phase, done.error, done.in_force) == (Phase.CHANGED, None, after)
    assert world.copied()

    world.left.append(range(half - 50, ROWS))  # some rows again, and partners and keys of earlier ones
    world.right.append(range(half // 2, ROWS), later_s=5)
    whole = batch(world.rows(world.left, False), world.rows(world.right, False))
    expected = sorted(tuple(row) for row in whole.collect())
    if kind == "session window":  # closes every session
        world.left.append([10**6])
    resumed = stream(world.rows(world.left, True), world.rows(world.right, True))
    assert world.run(resumed, after, mode).partitions == after
    placed = {partition.number for partition in StatePlacement(world.spark).partitions(world.query)}
    assert placed == set(range(after)), "folders of former partitions are none"
    assert (last_of_key(world.out) if mode == "update" else sorted(world.out)) == expected
    assert rescale.undo(world.spark, world.app).phase is Phase.KEPT, "results are out: there is no way back"
    assert not world.copied()


def half_done(world: World, **how: Any) -> QueryCheckpoint:
    world.left.append(range(ROWS // 2))
    return world.run(counted(world.rows(world.left, True), None), 4, "update", **how)


def the_rest_is_counted(world: World, partitions: int, **how: Any) -> None:
    """The old checkpoint continues, with its old number of partitions or with the new one."""
    world.left.append(range(ROWS // 2, ROWS))
    world.run(counted(world.rows(world.left, True), None), partitions, "update", **how)
    assert last_of_key(world.out) == [(key, ROWS // KEYS) for key in range(KEYS)]


def test_state_on_the_heap_is_refused_and_its_checkpoint_continues(world: World) -> None:
    checkpoint = half_done(world, provider=ON_HEAP)
    before = world.files()
    refused = world.change(checkpoint, 7)
    assert (refused.phase, refused.in_force, refused.copies) == (Phase.UNDONE, 4, False)
    assert "UNSUPPORTED_PROVIDER" in (refused.error or "")
    assert world.files() == before and not world.copied()
    the_rest_is_counted(world, 7, provider=ON_HEAP)


def test_sink_of_files_is_recognised(world: World) -> None:
    world.left.append(range(10))
    writer = world.rows(world.left, True).writeStream.option("checkpointLocation", str(world.checkpoint))
    query = writer.trigger(availableNow=True).format("parquet").start(str(world.root / "results"))
    assert query.awaitTermination(PATIENCE_S)
    checkpoint = checkpoint_of(query)
    assert checkpoint is not None and checkpoint.sink.startswith(FILE_SINK) and checkpoint.partitions == 0


def test_query_that_starts_without_rows_is_known_after_its_first_batch(world: World) -> None:
    world.spark.conf.set("spark.sql.shuffle.partitions", "4")
    world.left.folder.mkdir()
    writer = counted(world.rows(world.left, True), None).writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", str(world.checkpoint)).start()
    placement, run = StatePlacement(world.spark), str(query.runId)
    try:
        until(lambda: query.lastProgress, "a trigger without rows")
        assert placement.batches([query]) == {run: -1}
        assert placement.partitions(query) == () and checkpoint_of(query) is None
        written = Source(world.root / "written")
        written.append(range(10))
        (written.folder / "0.parquet").rename(world.left.folder / "0.parquet")
        until(lambda: placement.batches([query]) == {run: 0}, "the first batch")
        checkpoint = checkpoint_of(query)
        assert len(placement.partitions(query)) == 4 and checkpoint is not None and checkpoint.partitions == 4
    finally:
        query.stop()


def test_one_unsupported_checkpoint_of_two_leaves_both_unchanged(world: World) -> None:
    first = half_done(world)
    before = world.files()
    second = replace(first, folder=str(world.root / "second"))
    (world.root / "second" / "state").mkdir(parents=True)
    world.begin(first, 7)
    task = record.read(world.app)
    assert task is not None
    record.write(world.app, replace(task, checkpoints=(first, second)))
    refused = rescale.change(world.spark, world.app)
    assert refused.phase is Phase.UNDONE and "NO_COMMITTED_BATCH" in (refused.error or "")
    assert world.files() == before and not world.copied()


@pytest.mark.parametrize("phase", [Phase.COPYING, Phase.CHANGING])
def test_killed_change_is_undone(world: World, phase: Phase) -> None:
    checkpoint = half_done(world)
    before = world.files()
    world.begin(checkpoint, 7)
    folders = rescale.Folders(world.spark)
    folders.copy(checkpoint.folder, copy_of(checkpoint.folder))
    if phase is Phase.COPYING:
        folders.delete(f"{copy_of(checkpoint.folder)}/state")  # it had not got that far
    else:
        folders.delete(f"{checkpoint.folder}/state/0/2")
    task = record.read(world.app)
    assert task is not None
    record.write(world.app, replace(task, phase=phase))
    for _ in range(2):  # it may be killed and repeated too
        undone = rescale.undo(world.spark, world.app)
        assert (undone.phase, undone.copies, undone.error) == (Phase.UNDONE, False, "it was interrupted")
        assert world.files() == before and not world.copied()
    the_rest_is_counted(world, 4)


def test_change_is_undone_if_no_batch_was_committed_with_it(world: World) -> None:
    checkpoint = half_done(world)
    before = world.files()
    assert world.change(checkpoint, 7).phase is Phase.CHANGED
    assert world.files() != before
    assert rescale.undo(world.spark, world.app).phase is Phase.UNDONE
    assert world.files() == before
    the_rest_is_counted(world, 7)


@pytest.mark.slow
def test_change_stays_if_its_delta_table_has_a_batch_that_the_query_has_not_committed(world: World) -> None:
    def run(partitions: int) -> QueryCheckpoint:
        world.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        world.spark.conf.set(STATE_STORE, ROCKSDB)
        writer = distinct(world.rows(world.left, True), None).writeStream.format("delta").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(world.checkpoint)).start(str(world.root / "table"))
        assert query.awaitTermination(PATIENCE_S)
        return checkpoint_of(query) or QueryCheckpoint("none", "", 0, "", "")

    world.left.append(range(100))
    checkpoint = run(4)
    assert world.change(checkpoint, 7).phase is Phase.CHANGED
    world.left.append(range(100, 200))
    run(7)
    commits = world.checkpoint / "commits"
    newest = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for file in (commits / str(newest), commits / f".{newest}.crc"):  # it died before it could report this
        file.unlink()
    assert rescale.undo(world.spark, world.app).phase is Phase.KEPT
    world.left.append(range(200, 300))
    run(7)
    written = world.spark.read.format("delta").load(str(world.root / "table")).collect()
    assert sorted(row["id"] for row in written) == list(range(300))


def test_deleted_checkpoint_is_left_out(world: World) -> None:
    gone = QueryCheckpoint("q", str(world.root / "gone"), 4, ROCKSDB, "ForeachBatchSink")
    assert world.change(gone, 7).phase is Phase.CHANGED
    assert not (world.root / "gone").exists()


def test_state_that_already_has_the_number_is_left_alone(world: World) -> None:
    checkpoint = half_done(world)
    assert world.change(checkpoint, 4).phase is Phase.CHANGED
    the_rest_is_counted(world, 4)
