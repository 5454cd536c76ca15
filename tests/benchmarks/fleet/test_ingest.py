"""The fleet's function on real Spark, and the checksums that spare it jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.fleet.scripts.ingest import SCHEMA, appender, stream
from benchmarks.fleet.writer import CONTENT, Tables
from millrace.drivers.submit import DEFAULTS, DELTA_DEFAULTS
from millrace.environment.spark_env import driver_submit_conf
from millrace.lake.source_tables import SourceTable
from tests.include.runtime.telemetry.arriving import ids

NAME = "s00003"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    conf = {**DEFAULTS, **DELTA_DEFAULTS, **driver_submit_conf(), "spark.driver.memory": "1g"}
    session = SparkSession.builder.master("local[4]").config(map=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """A stream that gets forty rows a second."""
    return Tables([SourceTable(tmp_path / "landing" / NAME, SCHEMA, CONTENT)], np.array([[0.0], [400.0]]), 10.0)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("spark_writes", [False, True], ids=["appended", "written by Spark"])
def test_rows_are_copied_once_and_each_waits(spark: Any, tmp_path: Path, tables: Tables, spark_writes: bool) -> None:
    options = {"wait_ms": 5, "trigger_ms": 1000, "spark_writes": spark_writes}
    options |= {"landing": str(tmp_path / "landing"), "bronze": str(tmp_path / "bronze")}
    for end_s in (2.0, 5.0):
        tables.commit(0, end_s)
        writer = stream(spark, NAME, options).option("checkpointLocation", str(tmp_path / "checkpoint"))
        begun = time.monotonic()
        writer.trigger(availableNow=True).start().awaitTermination()
        assert time.monotonic() - begun > 0.005 * 80, "the rows of a file wait one after the other"
        assert ids(tmp_path / "bronze" / NAME) == list(range(int(40 * end_s)))


@pytest.mark.spark
@pytest.mark.slow
def test_log_with_checksums_is_read_without_a_job(spark: Any, tmp_path: Path, tables: Tables) -> None:
    tables.commit(0, 2.0)
    folder = str(tmp_path / "landing" / NAME)
    with_checksums = jobs_to_open(spark, folder)
    for file in (tmp_path / "landing" / NAME / "_delta_log").glob("*.crc"):
        file.unlink()
    assert with_checksums < jobs_to_open(spark, folder)


def jobs_to_open(spark: Any, folder: str) -> int:
    """Return how many Spark jobs it takes to learn a table's schema; Spark must not know the table yet."""
    group = f"jobs-{time.monotonic()}"
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.sparkContext.setJobGroup(group, "")
    assert spark.read.format("delta").load(folder).columns == ["id"]
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


class Batch:
    """Stands for a micro-batch."""

    def __init__(self, *ids: int) -> None:
        self._rows = pa.table({"id": pa.array(ids, pa.int64())})

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return self._rows


def test_batch_that_runs_again_on_another_node_is_appended_once(tmp_path: Path) -> None:
    folder = str(tmp_path / NAME)
    one, other = appender(folder, NAME), appender(folder, NAME)
    one(Batch(0, 1), 0)
    other(Batch(0, 1), 0)
    other(Batch(2), 1)
    other(Batch(), 2)
    one(Batch(2), 1)
    one(Batch(3), 3)
    assert ids(tmp_path / NAME) == [0, 1, 2, 3]


def test_checksum_counts_the_files_of_a_version_and_has_its_metadata(tmp_path: Path, tables: Tables) -> None:
    tables.commit(0, 1.0)
    tables.commit(0, 3.0)
    log = tmp_path / "landing" / NAME / "_delta_log"
    found = [json.loads((log / f"{version:020}.crc").read_text()) for version in range(3)]
    sizes = [file.stat().st_size for file in (tmp_path / "landing" / NAME).glob("*.parquet")]
    assert [one["numFiles"] for one in found] == [0, 1, 2]
    assert (found[0]["tableSizeBytes"], found[2]["tableSizeBytes"]) == (0, sum(sizes))
    assert found[2]["metadata"]["description"] == CONTENT and found[2]["protocol"]["minReaderVersion"] >= 1
    assert sorted(path.suffix for path in log.iterdir()) == [".crc"] * 3 + [".json"] * 3
