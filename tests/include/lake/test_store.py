from __future__ import annotations

import contextlib
import multiprocessing
import os
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.lake.kept import Kept
from millrace.lake.location import Location
from millrace.lake.schemas import TABLES
from millrace.lake.store import KEPT_RESULTS, LARGEST_RESULT, Lake, literal
from millrace.model.errors import Conflict, MillraceError

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
BATCHES = "telemetry/batches"


def row(batch_id: int = 0, **more: Any) -> dict[str, Any]:
    return {"pipeline": "delays", "time": NOW + timedelta(seconds=batch_id), "batch_id": batch_id, **more}


def ids(lake: Lake) -> list[int]:
    return [r["batch_id"] for r in lake.rows("select batch_id from batches order by batch_id", BATCHES)]


def in_processes(*tasks: tuple[Callable[..., Any], tuple[Any, ...]]) -> list[Any]:
    """Run functions in separate processes, started together, and return their results."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(len(tasks)) as pool:
        return [r.get() for r in [pool.apply_async(function, args) for function, args in tasks]]


def append_many(root: str, first: int, count: int) -> int:
    lake = Lake(root)
    for number in range(first, first + count):
        lake.append(BATCHES, [row(number)])
    return count


def append_each(root: str, transaction: str, numbers: int) -> list[int]:
    """Try to commit the numbers 1, 2, ... as fast as possible; return those that this process wrote."""
    lake, written = Lake(root), []
    for number in range(1, numbers + 1):
        with contextlib.suppress(Conflict):
            if lake.append(BATCHES, [row(number)], {transaction: number}) is not None:
                written.append(number)
    return written


@pytest.mark.parametrize("table", TABLES)
def test_create_when_repeated_then_the_table_has_its_schema_and_partition(tmp_path: Path, table: str) -> None:
    lake = Lake(tmp_path)
    assert not lake.exists(table)
    assert lake.version(table) == -1
    lake.create(table)
    Lake(tmp_path).create(table)
    assert lake.exists(table)
    assert lake.version(table) == 0
    name = table.rsplit("/", 1)[-1]
    found = lake.query(f"select * from {name}", table)
    assert set(found.schema.names) == set(TABLES[table].columns.names)


def test_append_fills_missing_columns_with_null_and_adds_the_date(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert lake.append(BATCHES, [row(7)]) == 1
    (found,) = lake.rows("select * from batches", BATCHES)
    assert (found["time"], found["date"], found["rows_in"]) == (NOW + timedelta(seconds=7), date(2026, 3, 1), None)


def test_append_of_an_arrow_table_is_the_same(tmp_path: Path) -> None:
    lake, schema = Lake(tmp_path), TABLES[BATCHES].columns
    without_date = pa.Table.from_pylist([row(7)], schema=schema.remove(schema.get_field_index("date")))
    lake.append(BATCHES, without_date)
    lake.append(BATCHES, [row(8)])
    found = lake.rows("select * from batches order by batch_id", BATCHES)
    assert [r["date"] for r in found] == [date(2026, 3, 1)] * 2


def test_append_when_a_transaction_is_replayed_then_writes_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert lake.append(BATCHES, [row(5)], {"delays/q/0": 5}) == 1
    for replayed in (5, 4, 0):
        assert Lake(tmp_path).append(BATCHES, [row(5)], {"delays/q/0": replayed}) is None
    assert lake.append(BATCHES, [row(6)], {"delays/q/0": 6}) is not None
    assert lake.append(BATCHES, [row(1)], {"delays/q/1": 0}) is not None
    assert ids(lake) == [1, 5, 6]


def test_append_with_an_old_transaction_writes_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(BATCHES, [row(1)], {"q": 1, "generation": 3})
    assert lake.append(BATCHES, [row(2)], {"q": 2, "generation": 2}) is None
    assert ids(lake) == [1]


def test_append_when_processes_append_concurrently_then_loses_nothing(tmp_path: Path) -> None:
    in_processes(*[(append_many, (str(tmp_path), 100 * n, 15)) for n in range(2)])
    assert ids(Lake(tmp_path)) == [100 * n + i for n in range(2) for i in range(15)]


def test_append_of_one_number_by_many_processes_has_one_winner(tmp_path: Path) -> None:
    Lake(tmp_path).create(BATCHES)
    one, other = in_processes(*[(append_each, (str(tmp_path), "fence", 20))] * 2)
    assert sorted([*one, *other]) == sorted({*one, *other})
    assert ids(Lake(tmp_path)) == sorted([*one, *other])
    assert 20 in {*one, *other}


def test_append_sees_what_another_handle_committed(tmp_path: Path) -> None:
    early, other = Lake(tmp_path), Lake(tmp_path)
    early.append(BATCHES, [row(1)], {"q": 1})
    other.append(BATCHES, [row(2)], {"q": 2})
    assert early.append(BATCHES, [row(2)], {"q": 2}) is None
    assert ids(early) == [1, 2]


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that is not writable. Root ignores modes, so root's is immutable or not a folder at all."""
    if os.geteuid() == 0:
        root = tmp_path / "lake"
        root.write_text("a file where the lake should be")
        yield root
        return
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    yield tmp_path
    tmp_path.chmod(stat.S_IRWXU)


def test_folder_whose_path_deltalake_decodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match=r"team%2Fjob.*without %2F.*Set MILLRACE_HOME or MILLRACE_LAKE"):
        Lake(tmp_path / "team%2Fjob" / "lake")
    assert Lake(tmp_path / "100% größe").append(BATCHES, [row(1)]) is not None


def test_append_when_the_lake_is_not_writable_then_says_what_to_do(read_only: Path) -> None:
    with pytest.raises(MillraceError) as told:
        Lake(read_only).append(BATCHES, [row(1)])
    assert told.value.key == "lake"
    assert "writable" in str(told.value)


def test_query_when_the_log_is_broken_then_says_where(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(BATCHES, [row(1)])
    (tmp_path / BATCHES / "_delta_log" / "00000000000000000001.json").write_text("{broken")
    with pytest.raises(MillraceError) as told:
        Lake(tmp_path).rows("select * from batches", BATCHES)
    assert told.value.key == "lake"


def test_query_when_a_data_file_is_missing_then_says_where(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(BATCHES, [row(1)])
    for file in (tmp_path / BATCHES).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(MillraceError):
        Lake(tmp_path).rows("select * from batches", BATCHES)


def test_query_when_the_table_does_not_exist_then_is_empty(tmp_path: Path) -> None:
    assert Lake(tmp_path).rows("select * from batches", BATCHES) == []
    assert not any(tmp_path.iterdir())


def test_query_when_the_table_is_recreated_then_the_open_handle_follows(tmp_path: Path) -> None:
    import shutil

    lake = Lake(tmp_path)
    lake.append(BATCHES, [row(1)])
    shutil.rmtree(tmp_path / BATCHES)
    assert lake.rows("select * from batches", BATCHES) == []
    lake.append(BATCHES, [row(2)])
    assert ids(lake) == [2]


def test_query_when_the_table_is_recreated_up_to_the_same_version_then_the_open_handle_follows(tmp_path: Path) -> None:
    import shutil

    lake = Lake(tmp_path)
    lake.append(BATCHES, [row(1)])
    assert ids(lake) == [1]
    position = lake.position(BATCHES)
    assert lake.position(BATCHES) == position
    shutil.rmtree(tmp_path / BATCHES)
    Lake(tmp_path).append(BATCHES, [row(2)])
    assert ids(lake) == [2]
    assert lake.position(BATCHES) != position and lake.version(BATCHES) == position[1]


def test_handle_is_opened_again_only_if_the_table_was_recreated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, other, table, opened = Lake(tmp_path), Lake(tmp_path), Location.table, list[str]()
    lake.append(BATCHES, [row(1)])
    assert ids(lake) == [1]
    monkeypatch.setattr(Location, "table", lambda self, *args: opened.append(self.uri) or table(self, *args))
    for number in (2, 4):
        lake.append(BATCHES, [row(number)])
        other.append(BATCHES, [row(number + 1)])
        assert ids(lake)[-1] == number + 1
    assert len(opened) == 1, "the other lake's"


def test_query_is_run_again_only_if_a_table_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, run, runs = Lake(tmp_path), Lake._run, list[str]()
    monkeypatch.setattr(Lake, "_run", lambda self, sql, handles: runs.append(sql) or run(self, sql, handles))
    lake.append(BATCHES, [row(1)])
    assert ids(lake) == ids(lake) == [1]
    assert len(runs) == 1
    Lake(tmp_path).append(BATCHES, [row(2)])
    assert ids(lake) == [1, 2]
    lake.append(BATCHES, [row(3)])
    assert ids(lake) == ids(lake) == [1, 2, 3]
    assert len(runs) == 3


def test_large_results_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, run, runs = Lake(tmp_path), Lake._run, list[str]()
    monkeypatch.setattr(Lake, "_run", lambda self, sql, handles: runs.append(sql) or run(self, sql, handles))
    lake.append(BATCHES, [row(1, query="x" * LARGEST_RESULT)])
    for _ in range(2):
        lake.rows("select query from batches", BATCHES)
    assert len(runs) == 2


def test_the_oldest_results_are_not_kept() -> None:
    results, small = Kept[tuple[str, int], pa.Table](KEPT_RESULTS), pa.table({"n": [1]})
    for number in range(KEPT_RESULTS + 1):
        results.put((str(number), 1), small)
    assert results.get(("0", 1)) is None
    assert results.get(("1", 1)) is small
    assert results.get(("1", 2)) is None


def test_lake_when_a_table_is_unknown_then_names_the_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match="telemetry/batches"):
        Lake(tmp_path).path("telemetry/nonsense")


@pytest.fixture(scope="module")
def one_row(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    lake.append(BATCHES, [row(1)])
    return lake


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_literal_of_any_text_reads_back_as_that_text(one_row: Lake, text: str) -> None:
    (found,) = one_row.rows(f"select {literal(text)} as x from batches", BATCHES)
    assert found["x"] == text


@given(number=st.integers(-(2**53), 2**53) | st.floats(-1e300, 1e300))
def test_literal_of_a_number_reads_back_as_that_number(one_row: Lake, number: float) -> None:
    (found,) = one_row.rows(f"select {literal(number)} as x from batches", BATCHES)
    assert found["x"] == pytest.approx(number, rel=1e-12)


@given(time=st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_literal_of_a_time_compares_to_the_microsecond(one_row: Lake, time: datetime) -> None:
    sql = f"select {literal(time)} as x, time < {literal(NOW + timedelta(seconds=1, microseconds=1))} as y from batches"
    (found,) = one_row.rows(sql, BATCHES)
    assert (found["x"], found["y"]) == (time, True)
