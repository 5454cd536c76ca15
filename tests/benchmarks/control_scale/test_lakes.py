from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.control_scale.lakes import build
from benchmarks.control_scale.live_writers import BATCH_S, names
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.lake.table_schema import LOG_HOURS

NOW = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)
DAYS = 3


def test_lake_holds_each_pipelines_days_and_its_last_evaluation(tmp_path: Path) -> None:
    build(tmp_path / "lake", 2, DAYS, NOW)
    tables = ControlTables(Lake(tmp_path / "lake"))
    batches = DeltaTable(str(tmp_path / "lake" / "telemetry" / "batches")).to_pyarrow_table(
        columns=["pipeline", "time", "app"]
    )
    for name in names(2):
        rows = [row for row in batches.to_pylist() if row["pipeline"] == name]
        assert {row["app"] for row in rows} == {name}
        assert len(rows) == pytest.approx(DAYS * 86_400 // BATCH_S, abs=20)  # some are dropped at midnight
        last = tables.decisions.last(name)
        assert last is not None and NOW - timedelta(minutes=3) < last.time <= NOW


def test_log_holds_the_last_hours_entries_and_the_newest_checkpoint(tmp_path: Path) -> None:
    build(tmp_path / "lake", 1, DAYS, NOW)
    log = tmp_path / "lake" / "control" / "decisions" / "_delta_log"
    assert len(list(log.glob("*.json"))) == pytest.approx((LOG_HOURS + 1) * 60, abs=2)
    assert DeltaTable(str(log.parent)).version() == max(int(file.stem) for file in log.glob("*.json"))
