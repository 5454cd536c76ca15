"""The log says what a table contains."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from millrace.lake.maintenance import maintain
from millrace.lake.storage import folder_bytes, table_storage
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError

NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)
TABLE = "telemetry/apps"


def row(time: datetime) -> dict[str, object]:
    return {"pipeline": "tiny", "time": time, "app": "a", "generation": 1}


def test_table_storage_counts_the_files_in_the_log_and_opens_no_data_file(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in range(3):
        lake.append(TABLE, [row(NOW - timedelta(days=number))] * 4)
    files = list(lake.path(TABLE).rglob("part-*.parquet"))
    size = sum(file.stat().st_size for file in files)
    for file in files:
        file.write_bytes(b"")
    held = table_storage(lake, TABLE)
    assert (held.rows, held.files, held.bytes, held.log_entries) == (12, 3, size, 4)
    assert held.oldest == date(2026, 3, 1) and held.upkeep is None
    assert held.disk_bytes == sum(f.stat().st_size for f in lake.path(TABLE).rglob("*") if f.is_file())


def test_table_storage_of_a_table_without_days_takes_the_oldest_from_statistics(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    deployment = {"pipeline": "tiny", "time": NOW, "version": 1, "content": "{}", "author": "person"}
    lake.append("control/deployments", [deployment, {**deployment, "time": NOW - timedelta(days=9)}])
    assert table_storage(lake, "control/deployments").oldest == date(2026, 2, 22)


def test_table_storage_shows_the_last_maintenance(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for number in (0, 9):
        lake.append(TABLE, [row(NOW - timedelta(days=number))])
    done = maintain(lake, TABLE, NOW.date(), keep_days=5)
    held = table_storage(lake, TABLE)
    assert held.upkeep == done and done.expired == 1 and held.maintained is not None
    assert abs(held.maintained - datetime.now(UTC)) < timedelta(minutes=5)
    assert (held.rows, held.oldest) == (1, NOW.date())


def test_table_storage_when_empty_or_broken(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create(TABLE)
    held = table_storage(lake, TABLE)
    assert (held.rows, held.files, held.oldest) == (0, 0, None)
    for entry in lake.path(TABLE).glob("_delta_log/*.json"):
        entry.write_text("{")
    with pytest.raises(MillraceError, match="telemetry/apps"):
        table_storage(lake, TABLE)


def test_folder_bytes_of_a_missing_folder_is_0(tmp_path: Path) -> None:
    assert folder_bytes(tmp_path / "none") == 0
