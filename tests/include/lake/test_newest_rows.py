from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from millrace.lake.newest_rows import COMMITS_OF_ROWS, RecentRows, RowQuery, read_recent
from millrace.lake.rows_since import CATCH_UP_ROWS, read_since, read_span
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.lake.table_schema import CONFIGURATION
from millrace.model.errors import MillraceError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE = "telemetry/apps"


def row(number: int, pipeline: str = "a", **more: Any) -> dict[str, Any]:
    time = NOW + timedelta(seconds=number)
    return {"pipeline": pipeline, "time": time, "app": pipeline, "generation": number, **more}


def made(lake: Lake, partitions: list[str]) -> Lake:
    """Create the table with the partitions of telemetry, or with none, as most control tables are."""
    DeltaTable.create(
        str(lake.path(TABLE)),
        schema=TABLES[TABLE].columns,
        partition_by=partitions or None,
        configuration=CONFIGURATION,
    )
    return lake


@pytest.fixture(params=[["pipeline", "date"], []], ids=["days", "none"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    (tmp_path / TABLE).mkdir(parents=True)
    return made(Lake(tmp_path), request.param)


def fill(lake: Lake, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        lake.append(TABLE, [row(number, "ab"[number % 2])])


def numbers(found: RecentRows) -> list[int]:
    return found.rows["generation"].to_pylist() if len(found.rows) else []


def wanted(limit: int = 100, **more: Any) -> RowQuery:
    return RowQuery(TABLE, "a", limit, **more)


def test_recent_rows_are_the_pipelines_newest_oldest_first(lake: Lake) -> None:
    fill(lake, 20)
    assert numbers(read_recent(lake, wanted())) == list(range(0, 20, 2))
    found = read_recent(lake, wanted(3))
    assert (numbers(found), found.whole) == ([14, 16, 18], False)
    assert set(found.rows.column_names) == set(TABLES[TABLE].columns.names)
    assert read_recent(lake, RowQuery(TABLE, None, 2)).rows["generation"].to_pylist() == [18, 19]
    assert numbers(read_recent(lake, RowQuery(TABLE, "nobody", 5))) == []


def test_recent_rows_respect_versions_and_conditions(lake: Lake) -> None:
    fill(lake, 20)
    assert numbers(read_recent(lake, wanted(after=15))) == [16, 18]
    assert numbers(read_recent(lake, wanted(2, through=11))) == [8, 10]
    assert numbers(read_recent(lake, wanted(1, where=pc.field("generation") < 10))) == [8]
    assert numbers(read_recent(lake, wanted(equal={"app": "b"}))) == []


def test_recent_with_a_time_bound_does_not_open_older_files(lake: Lake) -> None:
    fill(lake, 40)
    for file in sorted(lake.path(TABLE).rglob("*.parquet"), key=lambda f: f.stat().st_mtime_ns)[:30]:
        file.write_bytes(b"no parquet")
    found = read_recent(lake, wanted(not_before=NOW + timedelta(seconds=30)))
    assert numbers(found) == [30, 32, 34, 36, 38]
    assert found.whole and not found.unreadable


def test_recent_rows_before_a_late_commit_are_read(lake: Lake) -> None:
    fill(lake, 10)
    lake.append(TABLE, [row(-5000)])
    fill(lake, 2, first=10)
    found = read_recent(lake, wanted(not_before=NOW))
    assert numbers(found) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("how", ["garbage", "missing"])
def test_recent_rows_name_a_file_that_cannot_be_read(lake: Lake, how: str) -> None:
    fill(lake, 8)
    spoiled = max(lake.path(TABLE).rglob("*.parquet"), key=lambda f: f.stat().st_mtime_ns)
    spoiled.unlink()
    if how == "garbage":
        spoiled.write_bytes(b"no parquet")
    found = read_recent(lake, RowQuery(TABLE, None, 3))
    assert numbers(found) == [4, 5, 6]
    assert found.unreadable == (str(spoiled.relative_to(lake.location.uri)),) == tuple(lake.unreadable)


def test_recent_rows_are_the_same_after_compaction_and_vacuum(lake: Lake) -> None:
    fill(lake, 20)
    before = [numbers(read_recent(lake, w)) for w in (wanted(), wanted(3), wanted(not_before=NOW))]
    table = DeltaTable(str(lake.path(TABLE)))
    table.optimize.compact()
    fresh = Lake(lake.location)
    assert [numbers(read_recent(fresh, w)) for w in (wanted(), wanted(3), wanted(not_before=NOW))] == before
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    fresh = Lake(lake.location)
    assert [numbers(read_recent(fresh, w)) for w in (wanted(), wanted(3), wanted(not_before=NOW))] == before
    assert not fresh.unreadable
    fill(lake, 4, first=20)
    assert numbers(read_recent(Lake(lake.location), wanted(4))) == [16, 18, 20, 22]


def test_recent_when_the_log_was_cleaned_then_rows_are_the_same(lake: Lake) -> None:
    fill(lake, 20)
    DeltaTable(str(lake.path(TABLE))).create_checkpoint()
    for entry in sorted((lake.path(TABLE) / "_delta_log").glob("*.json"))[:-2]:
        entry.unlink()
    fresh = Lake(lake.location)
    assert numbers(read_recent(fresh, wanted())) == list(range(0, 20, 2))
    found = read_recent(fresh, wanted(3))
    assert (numbers(found), found.whole) == ([14, 16, 18], False)


def test_recent_when_rows_were_deleted_then_they_stay_deleted(lake: Lake) -> None:
    fill(lake, 6)
    DeltaTable(str(lake.path(TABLE))).delete("generation = 4")
    fill(lake, 2, first=6)
    assert 4 not in numbers(read_recent(Lake(lake.location), wanted()))


def test_recent_rows_include_the_last_row_of_a_silent_pipeline(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(TABLE, [row(1, "quiet")])
    log = lake.path(TABLE) / "_delta_log"
    entry = (log / f"{1:020d}.json").read_text().replace("quiet", "other")
    for version in range(2, COMMITS_OF_ROWS + 10):
        (log / f"{version:020d}.json").write_text(entry)
    assert numbers(read_recent(lake, RowQuery(TABLE, "quiet", 1))) == [1]


def test_recent_rows_of_a_missing_table_are_empty_and_a_broken_log_raises(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert len(read_recent(lake, wanted()).rows) == 0
    fill(lake, 2)
    (lake.path(TABLE) / "_delta_log" / f"{1:020d}.json").write_text("{broken")
    with pytest.raises(MillraceError):
        read_recent(lake, wanted())


def test_new_rows_and_the_newest_before_are_separate(lake: Lake) -> None:
    fill(lake, 20)
    found = read_since(lake, TABLE, "a", 15, before_rows=2)
    assert found.version == 20 and found.whole
    assert found.rows["generation"].to_pylist() == [16, 18]
    assert found.before["generation"].to_pylist() == [12, 14]


@pytest.mark.parametrize("new", [True, False])
def test_new_rows_after_a_cleaned_log_are_not_among_those_before(tmp_path: Path, new: bool) -> None:
    lake = Lake(tmp_path)
    for number in range(6):
        lake.append(TABLE, [row(number)])
    DeltaTable(str(lake.path(TABLE))).create_checkpoint()
    for entry in sorted((lake.path(TABLE) / "_delta_log").glob("*.json"))[:-2]:
        entry.unlink()
    found = read_since(lake, TABLE, "a", 5 if new else 6)
    assert (found.rows["generation"].to_pylist() if new else len(found.rows)) == ([5] if new else 0)
    assert found.before["generation"].to_pylist() == ([0, 1, 2, 3, 4] if new else [5])


def test_new_rows_include_the_last_one_before_however_old(lake: Lake) -> None:
    fill(lake, 4)
    lake.append(TABLE, [row(86_400)])
    found = read_since(lake, TABLE, "a", 4)
    assert found.rows["generation"].to_pylist() == [86_400]
    assert found.before["generation"].to_pylist() == [2]


def test_new_rows_beyond_the_limit_are_only_the_newest(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(TABLE, [row(0)])
    lake.append(TABLE, [row(n) for n in range(1, CATCH_UP_ROWS + 10)])
    found = read_since(lake, TABLE, "a", 1)
    assert (len(found.rows), len(found.before), found.whole) == (CATCH_UP_ROWS, 0, False)
    assert found.rows["generation"][-1].as_py() == CATCH_UP_ROWS + 9


def test_span_when_nothing_new_arrived_then_contains_the_last_row_before(lake: Lake) -> None:
    fill(lake, 6)
    later = NOW + timedelta(hours=2)
    found = read_span(lake, TABLE, "a", later, later + timedelta(minutes=1))
    assert (len(found.rows), found.before["generation"].to_pylist()) == (0, [4])
    found = read_span(lake, TABLE, "a", NOW + timedelta(seconds=1), NOW + timedelta(seconds=3))
    assert found.rows["generation"].to_pylist() == [2]
