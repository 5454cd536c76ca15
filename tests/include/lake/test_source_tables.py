"""Commits of several files, each exactly once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.lake.source_tables import SourceTable, arrivals, is_table, query, split
from millrace.model.errors import Conflict, MillraceError

SCHEMA = pa.schema([("n", pa.int64())])


def _numbers(start: int, end: int) -> pa.Table:
    return pa.table({"n": range(start, end)}, schema=SCHEMA)


def _read(path: Path) -> list[int]:
    return [row["n"] for row in query("select n from t order by n", t=path).to_pylist()]


@settings(deadline=None)  # the first example pays for imports
@given(rows=st.integers(0, 200), parts=st.integers(1, 40))
def test_split_gives_near_equal_slices_none_empty(rows: int, parts: int) -> None:
    table = _numbers(0, rows)
    slices = split(table, parts)
    assert len(slices) == min(rows, parts)
    if slices:
        assert pa.concat_tables(slices).equals(table)
        lengths = [s.num_rows for s in slices]
        assert min(lengths) >= 1
        assert max(lengths) - min(lengths) <= 1


def test_append_of_eight_parts_names_eight_files_in_one_commit(tmp_path: Path) -> None:
    table = SourceTable(tmp_path / "t", SCHEMA, "numbers")
    version = table.append(_numbers(0, 20), 8, "feed", 0)
    log = (tmp_path / "t" / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    added = [json.loads(line)["add"] for line in log if '"add"' in line]
    assert len(added) == 8
    assert sorted(json.loads(a["stats"])["numRecords"] for a in added) == [2, 2, 2, 2, 3, 3, 3, 3]
    assert _read(tmp_path / "t") == list(range(20))


def test_append_when_number_was_committed_then_writes_nothing(tmp_path: Path) -> None:
    table = SourceTable(tmp_path / "t", SCHEMA, "numbers")
    assert table.append(_numbers(0, 5), 2, "feed", 3) is not None
    assert table.append(_numbers(0, 5), 2, "feed", 3) is None
    reopened = SourceTable(tmp_path / "t", SCHEMA, "numbers")
    assert reopened.last("feed") == 3
    assert reopened.append(_numbers(0, 5), 2, "feed", 2) is None
    assert _read(tmp_path / "t") == list(range(5))


def test_append_after_another_writer_is_a_conflict(tmp_path: Path) -> None:
    first, second = (SourceTable(tmp_path / "t", SCHEMA, "numbers") for _ in range(2))
    first.append(_numbers(0, 5), 2, "feed", 0)
    with pytest.raises(Conflict):
        second.append(_numbers(0, 5), 2, "feed", 0)
    assert _read(tmp_path / "t") == list(range(5))


def test_open_when_table_has_other_content_then_error_names_both(tmp_path: Path) -> None:
    SourceTable(tmp_path / "t", SCHEMA, "numbers")
    with pytest.raises(MillraceError, match=r"letters.*numbers"):
        SourceTable(tmp_path / "t", SCHEMA, "letters")


def test_open_when_folder_is_a_file_then_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("not a folder")
    with pytest.raises(MillraceError, match="writable folder"):
        SourceTable(tmp_path / "t", SCHEMA, "numbers")


def test_query_when_table_is_missing_then_error_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match="nowhere"):
        query("select 1", t=tmp_path / "nowhere")


def test_is_table_when_only_the_log_folder_exists_then_is_false(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    assert not is_table(tmp_path / "t")
    SourceTable(tmp_path / "t", SCHEMA, "numbers")
    assert is_table(tmp_path / "t")


def test_arrivals_are_the_rows_of_each_file_in_order_of_time(tmp_path: Path) -> None:
    table = SourceTable(tmp_path / "t", SCHEMA, "numbers")
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    for n in range(3):
        table.append(_numbers(0, n + 1), 1, "feed", n)
    found = arrivals(tmp_path / "t").to_pylist()
    assert [f["rows"] for f in found] == [1, 2, 3]
    times = [f["time"] for f in found]
    assert before <= times[0] <= times[1] <= times[2] <= datetime.now(UTC)


def test_arrivals_of_an_empty_table_have_no_row(tmp_path: Path) -> None:
    SourceTable(tmp_path / "t", SCHEMA, "numbers")
    assert arrivals(tmp_path / "t").num_rows == 0
