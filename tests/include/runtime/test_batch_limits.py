"""Batch limits of real sources: as the script sets them, and raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.streaming.readwriter import DataStreamReader

from millrace.runtime.batch_limits import raise_limits
from millrace.runtime.telemetry.batch_limits import limits_in_force

pytestmark = pytest.mark.spark

Limits = Callable[[Any], Mapping[str, int]]


@pytest.fixture
def limits(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Return the limits of a query on some frames, which has run one batch."""
    for name in ("option", "options"):  # undoes what the test changes
        monkeypatch.setattr(DataStreamReader, name, getattr(DataStreamReader, name))

    def of(frame: Any) -> Mapping[str, int]:
        checkpoint = str(tmp_path / f"checkpoint{len(list(tmp_path.iterdir()))}")
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            return limits_in_force(query._jsq.streamingQuery(), spark.sparkContext._gateway)
        finally:
            query.stop()

    return of


@pytest.fixture
def table(tmp_path: Path) -> str:
    write_deltalake(tmp_path / "table", pa.table({"id": range(10)}))
    return str(tmp_path / "table")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1}\n')
    return str(tmp_path / "in")


def test_limits_are_those_that_the_script_sets(spark: Any, limits: Limits, table: str, folder: str) -> None:
    delta, files = spark.readStream.format("delta"), spark.readStream.schema("id long")
    assert limits(delta.load(table)) == {}, "nobody asked for Delta's 1,000 files"
    both = spark.readStream.format("delta").option("maxFilesPerTrigger", 7).option("maxBytesPerTrigger", "10m")
    assert limits(both.load(table)) == {"maxFilesPerTrigger": 7, "maxBytesPerTrigger": 10 << 20}
    json = files.option("maxFilesPerTrigger", 3).json(folder)
    assert limits(json) == {"maxFilesPerTrigger": 3}
    assert limits(json.union(both.load(table))) == {"maxBytesPerTrigger": 10 << 20}, "the sources differ in the other"


def test_raised_limits_hold_for_readers_that_have_any(spark: Any, limits: Limits, table: str, folder: str) -> None:
    raise_limits({"maxFilesPerTrigger": 20, "maxBytesPerTrigger": 20 << 20})
    few = spark.readStream.format("delta").options(maxFilesPerTrigger=7, ignoreChanges=True)
    assert limits(few.option("MAXBYTESPERTRIGGER", "10m").load(table)) == {
        "maxFilesPerTrigger": 20,
        "maxBytesPerTrigger": 20 << 20,
    }
    assert limits(spark.readStream.format("delta").load(table, maxFilesPerTrigger="50")) == {"maxFilesPerTrigger": 50}
    assert limits(spark.readStream.format("delta").load(table)) == {}
    assert limits(spark.readStream.schema("id long").option("maxFilesPerTrigger", 3).json(folder)) == {
        "maxFilesPerTrigger": 20
    }
