"""Rows that were appended to a table, after compactions, deletions and a clean-up of its log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from millrace.lake.appended_files import Appended, appended_files, source_state
from millrace.lake.log import DeltaLog
from millrace.model.errors import MillraceError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A table by days whose version 0 has row 0 of day 1, and versions 1 and 2 rows 1 and 2 of day 2."""
    for n, day in ((0, 1), (1, 2), (2, 2)):
        append(tmp_path, n, day)
    return tmp_path


def append(source: Path, n: int, day: int) -> None:
    write_deltalake(source, pa.table({"n": [n], "day": [day]}), mode="append", partition_by=["day"])


def tidy(source: Path, *days: int) -> None:
    """Compact some days' files, then delete all files that the newest version does not need."""
    for day in days:
        DeltaTable(source).optimize.compact([("day", "=", str(day))])
    DeltaTable(source).vacuum(0, dry_run=False, enforce_retention_duration=False)


def newest(source: Path) -> int:
    return source_state(source).version


def rows(found: Appended) -> list[int]:
    return sorted(n for file in found.files for n in pq.ParquetFile(file).read(columns=["n"])["n"].to_pylist())


def test_all_rows_are_in_the_files_of_the_newest_version(source: Path) -> None:
    append(source, 3, 1)
    tidy(source, 1, 2)
    assert DeltaLog(source).has(0)
    found = appended_files(source, -1, newest(source))
    assert (rows(found), found.problems) == ([0, 1, 2, 3], ())


def test_new_rows_are_in_the_file_into_which_only_they_were_compacted(source: Path) -> None:
    tidy(source, 2)
    append(source, 3, 2)
    tidy(source, 2)
    found = appended_files(source, 0, newest(source))
    assert (rows(found), len(found.files), found.problems) == ([1, 2, 3], 1, ())


def test_new_rows_that_were_compacted_with_old_ones_are_in_their_own_files_while_these_exist(source: Path) -> None:
    append(source, 3, 1)
    DeltaTable(source).optimize.compact([("day", "=", "2")])
    found = appended_files(source, 1, newest(source))
    assert (rows(found), found.problems) == ([2, 3], ())
    tidy(source)
    found = appended_files(source, 1, newest(source))
    assert rows(found) == [3]
    (problem,) = found.problems
    assert problem.startswith("Rows of 1 file compacted with older rows and deleted before they were read are not")


def test_deleted_rows_are_left_out(source: Path) -> None:
    DeltaTable(source).delete("n = 2")
    tidy(source)
    found = appended_files(source, 0, newest(source))
    assert (rows(found), found.problems) == ([1], ())


def test_older_rows_that_a_change_writes_again_are_left_out_and_new_ones_are_not(source: Path) -> None:
    table = DeltaTable(source)
    table.update({"n": "n + 100"}, predicate="n = 0")
    append(source, 3, 1)
    table.update_incremental()
    table.update({"n": "n + 10"}, predicate="n = 3")  # of rows that are new themselves
    merge = table.merge(pa.table({"n": [2, 4], "day": [2, 2]}), "t.n = s.n", source_alias="s", target_alias="t")
    merge.when_matched_update({"n": "s.n"}).when_not_matched_insert_all().execute()
    found = appended_files(source, 2, newest(source))
    assert rows(found) == [13]
    assert found.problems == (
        "Rows of 2 commits that changed older rows (UPDATE, DELETE, MERGE, overwrite) are not counted, version 3 among "
        "them.",
    )
    table.delete("n = 100")  # alone in its file
    assert appended_files(source, 6, newest(source)) == Appended(())


def test_rows_of_versions_that_left_the_log_are_named(source: Path) -> None:
    append(source, 3, 1)
    for version in (0, 1):
        (source / "_delta_log" / f"{version:020}.json").unlink()
    found = appended_files(source, 0, 3)
    assert rows(found) == [2, 3]
    assert found.problems == ("Versions 1 to 1 had left the log before they were read: their rows are not counted.",)


def test_state_has_another_id_if_the_table_was_recreated(source: Path, tmp_path: Path) -> None:
    before, again = source_state(source), tmp_path / "again"
    for n in range(3):
        append(again, n, 1)
    after = source_state(again)
    assert before.version == after.version == 2 and before.table_id != after.table_id
    with pytest.raises(MillraceError, match="a Delta table"):
        source_state(tmp_path / "nothing")
