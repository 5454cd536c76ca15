"""The join in Spark: its pairs match a batch join, whatever settings change between batches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import StreamingQueryException

from millrace.joins.query import start, write_modules
from millrace.joins.router import sheds
from millrace.lake.source_tables import query as read
from millrace.model.errors import MillraceError
from millrace.model.join import BROADCAST, MP2PF, JoinDefinition, JoinSettings, JoinStream, JoinTask
from millrace.places import PACKAGE
from tests.include.joins.tuples import brute_force

pytestmark = pytest.mark.spark

COLUMNS = {"id": "id", "key": "key", "other": "cast(id % 3 as int)"}
WEATHER = JoinTask("near", "r", "s", (("key", "key"),), -40, 25)
NEXT = JoinTask("next", "r", "r", (("key", "key"), ("other", "other")), 0, 60, "id % 2 = 0")
BATCHES, ROWS = 6, 90
SCHEMA = pa.schema(
    [("second", pa.int64()), ("id", pa.int64()), ("key", pa.string()), ("ts", pa.timestamp("us", "UTC"))]
)
Batches = dict[str, list[list[tuple[Any, ...]]]]


@pytest.fixture
def partitions(spark) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture
def coming() -> Batches:
    """Rows (second, id, key, other) by stream and batch; the streams' clocks differ."""
    draw = np.random.default_rng(7)
    found: Batches = {}
    for stream, ahead in (("r", 0), ("s", 35)):
        times = np.sort(draw.integers(0, 600, BATCHES * ROWS)) + ahead
        rows = [(int(t), i, None if i % 17 == 0 else f"k{draw.integers(0, 5)}", i % 3) for i, t in enumerate(times)]
        found[stream] = [rows[b * ROWS : (b + 1) * ROWS] for b in range(BATCHES)]
    return found


def joined(
    spark: Any,
    root: Path,
    coming: Batches,
    wanted: Callable[[], JoinSettings],
    *tasks: JoinTask,
    late_s: float = 0.0,
) -> list[tuple[Any, Any]]:
    """Join all batches, one file of each stream per batch, and return terms and reports of each."""
    from pyspark.sql import functions as sf

    schema = "second long, id long, key string, ts timestamp"
    for stream, batches in coming.items():
        for number, rows in enumerate(batches):
            made = spark.createDataFrame([row[:3] for row in rows], "second long, id long, key string").coalesce(1)
            made = made.withColumn("ts", sf.timestamp_seconds("second"))
            made.write.parquet(str(root / "source" / f"{stream}-{number:03d}"))

    def source(stream: JoinStream) -> Any:
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).option("latestFirst", False)
        return reader.parquet(str(root / "source" / f"{stream.name}-*"))

    streams = tuple(JoinStream(name, "", "ts", COLUMNS, late_s) for name in coming)
    definition = JoinDefinition(streams, tasks, str(root / "results"), str(root / "checkpoint"), 1000)
    told: list[tuple[Any, Any]] = []
    query = start(spark, definition, wanted, lambda _, *each: told.append(each), source=source, available_now=True)
    query.awaitTermination()
    return told


def append(root: Path, coming: dict[str, list[tuple[Any, ...]]]) -> None:
    """Append rows to each stream's Delta table."""
    for name, of_stream in coming.items():
        rows = [row[:3] for row in of_stream]
        columns = [*zip(*rows, strict=True), [row[0] * 1_000_000 for row in rows]]
        write_deltalake(root / name, pa.table(columns, schema=SCHEMA), mode="append", schema_mode="merge")


def found(root: Path, task: JoinTask) -> Counter[tuple[int, int]]:
    rows = read("select left_id, right_id from results", results=root / "results" / task.name).to_pylist()
    return Counter((row["left_id"], row["right_id"]) for row in rows)


def expected(task: JoinTask, left: list[Any], right: list[Any]) -> Counter[tuple[int, int]]:
    of = [row for row in left if not task.left_where or row[1] % 2 == 0]
    return Counter((of[i][1], right[j][1]) for i, j in brute_force(task, of, right))


def every(batches: list[list[Any]]) -> list[Any]:
    return [row for rows in batches for row in rows]


@pytest.mark.slow
def test_join_with_settings_changing_each_batch_equals_a_batch_join(spark, partitions, coming, tmp_path) -> None:
    settings = iter(
        [JoinSettings(m, block) for m, block in ((9, 20), (4, 7), (1, 50), (3, 1), (9, 30), (2, 500), (1, 1))]
    )
    told = joined(spark, tmp_path, coming, lambda: next(settings), WEATHER, NEXT)
    rows = {stream: every(batches) for stream, batches in coming.items()}
    assert found(tmp_path, WEATHER) == expected(WEATHER, rows["r"], rows["s"])
    assert found(tmp_path, NEXT) == expected(NEXT, rows["r"], rows["r"])
    assert [terms.settings.workers for terms, _ in told] == [4, 4, 1, 3, 4, 2]  # as many as there are partitions
    for terms, reports in told:
        assert all(sum(r.arrived[stream] for r in reports) == ROWS for stream in "rs")
        assert sum(r.late + r.shed for r in reports) == 0
        kept = {report.worker: report.tuples for report in reports}
        moving = {move.source for move in terms.moves} | {move.target for move in terms.moves}
        assert moving or all(kept.get(worker, 0) == 0 for worker in kept if worker >= terms.settings.workers)


@pytest.mark.slow
@pytest.mark.parametrize("forwarding", [BROADCAST, MP2PF])
def test_join_when_its_sources_get_versions_without_rows_then_loses_no_pair(
    spark, partitions, coming, tmp_path, forwarding
) -> None:
    """OPTIMIZE and ALTER TABLE make Spark run batches without rows while workers change and tuples move."""
    streams = tuple(JoinStream(name, str(tmp_path / name), "ts", {"id": "id", "key": "key"}) for name in coming)
    folders = (str(tmp_path / "results"), str(tmp_path / "checkpoint"))
    definition = JoinDefinition(streams, (WEATHER,), *folders, 1000, forwarding)
    # in a chain, tuples meet later: the last batches let them pass all workers
    flush = [{name: [(10_000 * n, -1, None)] for name in coming} for n in range(1, 6)] if forwarding == MP2PF else []
    batches = iter([*({name: of[n] for name, of in coming.items()} for n in range(BATCHES)), *flush])
    wanted, plans = [3], []

    def write() -> None:
        append(tmp_path, next(batches))

    def optimize() -> None:
        spark.sql(f"OPTIMIZE delta.`{tmp_path / 'r'}`")

    def alter() -> None:
        spark.sql(f"ALTER TABLE delta.`{tmp_path / 's'}` SET TBLPROPERTIES ('of.a.test' = 'yes')")

    def started() -> Any:
        return start(spark, definition, lambda: JoinSettings(wanted[0], 10), lambda _, *each: plans.append(each))

    def follow(steps: list[tuple[int, Callable[[], None]]]) -> None:
        for workers, step in steps:
            query.processAllAvailable()
            wanted[0] = workers
            step()
        query.processAllAvailable()

    write()
    write()
    query = started()
    try:
        # the number of workers that the batch after the next one should have, and the trigger of the next one
        follow(
            [
                (1, write),  # three workers plan to hand everything to the first
                (1, optimize),  # the moves wait
                (4, write),  # tuples are handed over
                (2, alter),  # the hand-overs wait, and fewer workers should remain
                (3, write),
            ]
        )
        assert [bool(reports) for _, reports in plans] == [True, True, False, True, False, True]
        assert plans[4][0].handed and (plans[2][0].moves or plans[2][0].leaving)
        # Delta ends a query whose source gets a column; the next start continues with what was on its way
        spark.sql(f"ALTER TABLE delta.`{tmp_path / 'r'}` ADD COLUMNS (more string)")
        with pytest.raises(StreamingQueryException, match="restart"):
            query.awaitTermination()
        wanted[0] = 1
        query = started()
        follow([(1, optimize), (4, write), *[(2, write) for _ in flush]])
    finally:
        query.stop()
    rows = {name: every(of_stream) for name, of_stream in coming.items()}
    assert found(tmp_path, WEATHER) == expected(WEATHER, rows["r"], rows["s"])


def test_join_continues_after_a_delete_and_with_its_streams_in_another_order(
    spark, partitions, coming, tmp_path
) -> None:
    streams = tuple(JoinStream(name, str(tmp_path / name), "ts", {"id": "id", "key": "key"}) for name in coming)
    folders = (str(tmp_path / "results"), str(tmp_path / "checkpoint"))
    for number, ordered in enumerate((streams, streams[::-1])):
        append(tmp_path, {name: of[number] for name, of in coming.items()})
        definition = JoinDefinition(ordered, (WEATHER,), *folders, 1000)
        start(spark, definition, lambda: JoinSettings(2, 10), available_now=True).awaitTermination()
        DeltaTable(tmp_path / "r").delete("id < 5")  # the window keeps what it has read
    rows = {name: every(of[:2]) for name, of in coming.items()}
    assert found(tmp_path, WEATHER) == expected(WEATHER, rows["r"], rows["s"])


@pytest.mark.slow
def test_join_that_sheds_pairs_the_rest_and_counts_exactly(spark, partitions, coming, tmp_path) -> None:
    from pyspark.sql import functions as sf

    shares = [0.0, 0.5, 1.0, 0.2, 0.8, 0.0]
    settings = iter([JoinSettings(2, 16, share) for share in (*shares, 0.0)])
    told = joined(spark, tmp_path, coming, lambda: next(settings), WEATHER)
    unshed = {}
    for stream, batches in coming.items():
        unshed[stream] = []
        for number, (rows, share) in enumerate(zip(batches, shares, strict=True)):
            made = spark.createDataFrame([row[:3] for row in rows], "second long, id long, key string")
            chosen = made.select(
                (sf.col("second") * 1_000_000).alias("_time"), *(sf.expr(c).alias(n) for n, c in COLUMNS.items())
            )
            hashes = np.array([row[0] for row in chosen.select(sf.xxhash64("*")).collect()])
            away = sheds(hashes, number, share)
            unshed[stream] += [row for row, gone in zip(rows, away, strict=True) if not gone]
            assert sum(report.dropped[stream] for report in told[number][1]) == away.sum()
            assert share not in (0.0, 1.0) or away.sum() == share * ROWS
    assert 0 < len(unshed["r"]) < BATCHES * ROWS
    assert found(tmp_path, WEATHER) == expected(WEATHER, unshed["r"], unshed["s"])
    for _, reports in told[1:4]:  # shed tuples still count as offered
        assert sum(r.offered for r in reports) > sum(r.tuples for r in reports)


def test_join_loses_only_late_tuples(spark, partitions, coming, tmp_path) -> None:
    late = (0, 9_999, "k1", 0)  # its time is long past when it arrives
    again = coming["r"][3][5]
    r = [*coming["r"][:4], [*coming["r"][4], late, again], coming["r"][5]]
    told = joined(spark, tmp_path / "a", {"r": r, "s": coming["s"]}, lambda: JoinSettings(2, 10), WEATHER, late_s=120)
    assert sum(report.late for _, reports in told for report in reports) == 1
    taken = [row for row in every(r) if row is not late]
    assert found(tmp_path / "a", WEATHER) == expected(WEATHER, taken, every(coming["s"]))

    nothing: Batches = {"r": coming["r"][:3], "s": [[], [], []]}
    told = joined(spark, tmp_path / "b", nothing, lambda: JoinSettings(2, 10), WEATHER)
    assert not found(tmp_path / "b", WEATHER)
    # no one knows when the silent stream starts, so all wait for it
    assert sum(report.tuples for report in told[-1][1]) == 3 * ROWS


def test_join_when_a_checkpoint_has_other_streams_then_says_so(spark, partitions, coming, tmp_path) -> None:
    joined(spark, tmp_path, {"r": coming["r"][:1], "s": coming["s"][:1]}, JoinSettings, WEATHER)
    streams = tuple(JoinStream(name, "", "ts", {"id": "id", "key": "key"}) for name in "rs")
    definition = JoinDefinition(streams, (WEATHER,), str(tmp_path / "results"), str(tmp_path / "checkpoint"), 1000)

    def source(stream: JoinStream) -> Any:
        schema = "second long, id long, key string, ts timestamp"
        return spark.readStream.schema(schema).parquet(str(tmp_path / "source" / f"{stream.name}-*"))

    with pytest.raises(MillraceError, match="new checkpoint"):
        start(spark, definition, JoinSettings, source=source)
    columns = tuple(JoinStream(name, "", "ts", COLUMNS) for name in "rs")
    with pytest.raises(MillraceError, match="forwarding"):
        start(spark, replace(definition, streams=columns, forwarding=MP2PF), JoinSettings, source=source)
    wrong = (replace(streams[0], columns={"id": "nowhere", "key": "key"}), streams[1])
    with pytest.raises(MillraceError, match=r"streams\.r"):
        start(spark, replace(definition, streams=wrong), JoinSettings, source=source)


def test_modules_shipped_to_workers_cover_the_whole_package(tmp_path) -> None:
    """Including those in a folder without __init__.py, which an archive must name."""
    archive = tmp_path / "modules.zip"
    write_modules(archive)
    inside = {str(path.relative_to(PACKAGE).parent) for path in PACKAGE.rglob("*.py")}
    packages = sorted(".".join(("millrace", *Path(folder).parts)) for folder in inside)
    missing = f"import importlib.util as u; print([p for p in {packages} if u.find_spec(p) is None])"
    env = {**os.environ, "PYTHONPATH": str(archive)}
    told = subprocess.run([sys.executable, "-c", missing], env=env, cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    assert told.stdout.decode().strip() == "[]"
