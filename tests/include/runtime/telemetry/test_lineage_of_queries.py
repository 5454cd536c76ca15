"""The lineage of real queries in the lake: what one of them writes has the name of what the next one reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.lake.row_codec import batch_from_row
from millrace.lake.store import Lake
from millrace.model.telemetry import BatchMetrics
from millrace.runtime.telemetry.batches import AppIdentity

pytestmark = pytest.mark.spark

ROWS = 12
PATIENCE_S = 400


@pytest.fixture
def telemetry(spark: Any, tmp_path: Path) -> Iterator[Any]:
    from millrace.runtime.telemetry.driver_telemetry import Telemetry

    opened = Telemetry(spark, AppIdentity("p", "a", 1, 1, 4), tmp_path / "lake", 5)
    yield opened
    for query in spark.streams.active:
        query.stop()
    opened.close()


@pytest.fixture
def bronze(spark: Any, tmp_path: Path) -> Path:
    spark.range(ROWS).coalesce(1).write.format("delta").save(str(tmp_path / "bronze"))
    return tmp_path / "bronze"


def write(frame: Any, name: str, kind: str, checkpoints: Path, path: str | None = None) -> Any:
    options = {"checkpointLocation": str(checkpoints / f"checkpoint-{name}")}
    return frame.writeStream.format(kind).queryName(name).options(**options).trigger(availableNow=True).start(path)


def finish(query: Any) -> None:
    assert query.awaitTermination(PATIENCE_S)


def read(spark: Any, path: Path) -> Any:
    return spark.readStream.format("delta").load(str(path))


def reported(telemetry: Any, lake: Path) -> dict[str, BatchMetrics]:
    """Return the batch of each query that read rows."""
    assert telemetry.flush()
    rows = map(batch_from_row, Lake(lake).rows("select * from batches", "telemetry/batches"))
    return {row.query: row for row in rows if row.rows_in}


def test_sink_of_each_query_in_a_chain_is_the_source_of_the_next(
    spark: Any, tmp_path: Path, telemetry: Any, bronze: Path
) -> None:
    silver, files = tmp_path / "silver", tmp_path / "files"
    finish(write(read(spark, bronze), "refine", "delta", tmp_path, f"{silver}/"))
    finish(write(read(spark, silver).where("id < 5"), "export", "json", tmp_path, f"file://{files}"))
    finish(write(spark.readStream.schema("id long").json(f"{files}/*.json"), "last", "noop", tmp_path))

    found = reported(telemetry, tmp_path / "lake")
    refine, export, last = found["refine"], found["export"], found["last"]
    assert refine.sources == {f"path:{bronze}": ROWS}
    assert refine.sink == f"path:{silver}"
    assert export.sources == {refine.sink: ROWS}
    assert export.sink == f"path:{files}"
    assert last.sources == {export.sink: 5}
    assert last.sink == ""


def test_relative_sink_has_the_name_of_its_source(spark: Any, tmp_path: Path, telemetry: Any, bronze: Path) -> None:
    system = spark._jvm.java.lang.System.getProperty("user.dir")  # the JVM does not follow os.chdir
    relative = "../" * len(Path(system).parts[1:]) + str(tmp_path / "rel").lstrip("/")
    finish(write(read(spark, bronze), "relative", "delta", tmp_path, relative))
    finish(write(read(spark, tmp_path / "rel"), "after", "noop", tmp_path))
    found = reported(telemetry, tmp_path / "lake")
    assert found["after"].sources == {found["relative"].sink: ROWS} == {f"path:{tmp_path / 'rel'}": ROWS}


def test_table_of_the_catalog_has_the_name_of_its_path(
    spark: Any, tmp_path: Path, telemetry: Any, bronze: Path
) -> None:
    table = tmp_path / "table"
    spark.sql(f"create table lineage_silver (id long) using delta location '{table}'")
    try:
        writer = read(spark, bronze).writeStream.format("delta").queryName("totable").trigger(availableNow=True)
        finish(writer.option("checkpointLocation", str(tmp_path / "checkpoint-table")).toTable("lineage_silver"))
        finish(write(spark.readStream.table("lineage_silver"), "after", "noop", tmp_path))
    finally:
        spark.sql("drop table lineage_silver")
    found = reported(telemetry, tmp_path / "lake")
    assert found["totable"].sink == f"path:{table}"
    assert found["after"].sources == {f"path:{table}": ROWS}


def test_rows_of_two_sources_are_counted_apart_and_foreach_batch_hides_the_sink(
    spark: Any, tmp_path: Path, telemetry: Any, bronze: Path
) -> None:
    spark.range(4).coalesce(1).write.format("delta").save(str(tmp_path / "other"))

    def twice(frame: Any, _: int) -> None:
        frame.count()
        frame.count()

    both = read(spark, bronze).union(read(spark, tmp_path / "other"))
    options = {"checkpointLocation": str(tmp_path / "checkpoint-both")}
    writer = both.writeStream.queryName("both").options(**options).trigger(availableNow=True)
    finish(writer.foreachBatch(twice).start())
    batch = reported(telemetry, tmp_path / "lake")["both"]
    assert (batch.sources, batch.sink) == ({f"path:{bronze}": ROWS, f"path:{tmp_path / 'other'}": 4}, "")
