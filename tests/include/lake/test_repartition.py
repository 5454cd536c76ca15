"""Tables from older versions: other partitions, fewer columns."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from millrace.lake.fenced_table import FencedTable
from millrace.lake.location import Location
from millrace.lake.maintenance import compact, maintain
from millrace.lake.recent_rows import RowQuery, read_recent
from millrace.lake.repartition import repartition
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.lake.table_schema import CONFIGURATION
from millrace.model.errors import MillraceError

NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)
TABLE = "telemetry/apps"


def row(pipeline: str, number: int, time: datetime = NOW) -> dict[str, Any]:
    return {"pipeline": pipeline, "time": time, "app": "a", "generation": number}


def rows(root: Location) -> list[tuple[str, int]]:
    found = Lake(root).rows("select pipeline, generation from apps order by pipeline, generation", TABLE)
    return [(r["pipeline"], r["generation"]) for r in found]


def partitions(root: Location) -> list[str]:
    return list((root / TABLE).table().metadata().partition_columns)


def old_table(root: Path, partition_by: list[str], lacking: tuple[str, ...] = (), table: str = TABLE) -> Lake:
    lake = Lake(root)
    lake.path(table).mkdir(parents=True)
    schema = TABLES[table].columns
    for name in lacking:
        schema = schema.remove(schema.get_field_index(name))
    DeltaTable.create(
        str(lake.path(table)), schema=schema, partition_by=partition_by or None, configuration=CONFIGURATION
    )
    return lake


@pytest.fixture(params=[["date"], []], ids=["days", "none"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return old_table(tmp_path, request.param)


def fill(lake: Lake, count: int = 30) -> list[tuple[str, int]]:
    for n in range(count):
        lake.append(TABLE, [row("ab"[n % 2], n, NOW - timedelta(days=n % 3))], {f"app/{'ab'[n % 2]}": n})
    return sorted(("ab"[n % 2], n) for n in range(count))


def test_repartition_moves_each_row_of_an_older_table_once(lake: Lake) -> None:
    expected = fill(lake)
    assert repartition(lake, TABLE)
    assert partitions(lake.location) == ["pipeline", "date"]
    assert rows(lake.location) == expected
    assert not repartition(lake, TABLE)
    assert len(DeltaTable(str(lake.path(TABLE))).file_uris()) == 6  # two pipelines, three days


def test_repartition_when_done_then_ids_transactions_and_readers_continue(lake: Lake) -> None:
    fill(lake)
    before, version = lake.log(TABLE).table_id(), lake.version(TABLE)
    newest = read_recent(lake, RowQuery(TABLE, "a", 5)).rows["generation"]
    repartition(lake, TABLE)
    fresh = Lake(lake.location)
    assert (fresh.log(TABLE).table_id(), fresh.version(TABLE)) == (before, version + 1)
    assert fresh.append(TABLE, [row("a", 4)], {"app/a": 4}) is None
    assert len(read_recent(fresh, RowQuery(TABLE, "a", 5, after=version)).rows) == 0
    assert read_recent(fresh, RowQuery(TABLE, "a", 5)).rows["generation"].to_pylist() == newest.to_pylist()


def test_maintain_moves_an_older_table_and_deletes_its_files_later(
    lake: Lake,
) -> None:
    expected = fill(lake)
    maintain(lake, TABLE, NOW.date())
    assert (partitions(lake.location), rows(lake.location)) == (["pipeline", "date"], expected)
    days_ago = time.time() - 3 * 86400
    for file in lake.path(TABLE).rglob("*.parquet"):
        os.utime(file, (days_ago, days_ago))
    maintain(lake, TABLE, NOW.date())
    assert rows(lake.location) == expected


def test_append_with_a_handle_older_than_the_move_retries(lake: Lake) -> None:
    expected = fill(lake)
    fenced = FencedTable(Lake(lake.location), TABLE, "p/a/generation", 1)
    fenced.committed([])
    repartition(Lake(lake.location), TABLE)
    assert lake.append(TABLE, [row("late", 1)], {"late": 1}) is not None
    assert fenced.committed(["x"]) == {}
    fenced.append([row("late", 2)], {"x": 2})
    assert rows(lake.location) == [*expected, ("late", 1), ("late", 2)]


def test_repartition_with_active_writers_loses_and_duplicates_no_row(lake: Lake) -> None:
    expected, errors, done = fill(lake), [], threading.Event()
    counts = dict.fromkeys("xyz", 0)

    def write(pipeline: str) -> None:
        try:
            own = Lake(lake.location)
            while not done.is_set() or counts[pipeline] < 5:
                own.append(TABLE, [row(pipeline, counts[pipeline])], {pipeline: counts[pipeline]})
                counts[pipeline] += 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(p,)) for p in counts]
    for thread in threads:
        thread.start()
    try:
        assert repartition(Lake(lake.location), TABLE)
        maintain(Lake(lake.location), TABLE, NOW.date())
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not errors
    assert rows(lake.location) == sorted([*expected, *((p, n) for p, count in counts.items() for n in range(count))])


def move(root: str) -> None:
    repartition(Lake(root), TABLE)


def test_repartition_killed_leaves_the_table_intact(tmp_path: Path) -> None:
    lake = old_table(tmp_path, ["date"])
    expected = fill(lake, 60)
    written = set(lake.path(TABLE).rglob("*.parquet"))
    mover = multiprocessing.get_context("spawn").Process(target=move, args=(str(tmp_path),))
    mover.start()
    while mover.is_alive() and not set(lake.path(TABLE).rglob("*.parquet")) - written:
        time.sleep(0.001)  # until the first copy exists
    mover.kill()
    mover.join()
    assert rows(lake.location) == expected
    repartition(lake, TABLE)
    assert (partitions(lake.location), rows(lake.location)) == (["pipeline", "date"], expected)


def test_repartition_names_a_broken_file_and_changes_nothing(lake: Lake) -> None:
    fill(lake, 4)
    broken = next(lake.path(TABLE).rglob("*.parquet"))
    broken.write_bytes(b"no parquet")
    with pytest.raises(MillraceError, match=broken.name):
        repartition(lake, TABLE)
    assert "pipeline" not in partitions(lake.location)


@pytest.mark.parametrize("older", [True, False])
def test_compact_when_hourly_then_rewrites_only_days_with_many_files(tmp_path: Path, older: bool) -> None:
    lake = old_table(tmp_path, ["date"]) if older else Lake(tmp_path)
    expected = fill(lake, 12)
    assert compact(lake, TABLE, (NOW - timedelta(days=3)).date()) == 0  # everything is from the present or later
    assert compact(lake, TABLE, NOW.date()) > 0
    assert rows(lake.location) == expected
    assert compact(lake, TABLE, NOW.date()) == 0


def test_append_adds_a_column_that_the_table_lacks(tmp_path: Path) -> None:
    table = "control/decisions"
    lake = old_table(tmp_path, ["date"], lacking=("cursor_table",), table=table)
    plain = {"pipeline": "p", "time": NOW, "action": "hold"}
    old = TABLES[table].columns.remove(TABLES[table].columns.get_field_index("cursor_table"))
    write_deltalake(
        str(lake.path(table)), pa.Table.from_pylist([{**plain, "decision_id": "1", "date": NOW.date()}], old),
        mode="append",
    )  # fmt: skip
    other = Lake(tmp_path)
    assert other.version(table) == 1 and other.rows("select decision_id from decisions", table)
    lake.append(table, [{**plain, "decision_id": "2", "cursor_table": "t"}], {"d": 2})
    other.append(table, [{**plain, "decision_id": "3", "cursor_table": "t"}], {"d": 3})
    found = read_recent(lake, RowQuery(table, "p", 9)).rows.sort_by("decision_id")
    assert found["cursor_table"].to_pylist() == [None, "t", "t"]


def test_append_when_the_table_has_an_extra_column_then_it_is_null(tmp_path: Path) -> None:
    lake, schema = Lake(tmp_path), TABLES[TABLE].columns.append(pa.field("of_a_later_version", pa.string()))
    lake.path(TABLE).mkdir(parents=True)
    DeltaTable.create(str(lake.path(TABLE)), schema=schema, partition_by=["pipeline", "date"])
    lake.append(TABLE, [row("a", 1)])
    assert rows(tmp_path) == [("a", 1)]
