from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSystem

from millrace.lake.files import ArrowFiles
from millrace.lake.location import Location
from millrace.lake.log import DeltaLog
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE = "telemetry/apps"


def append(lake: Lake, pipeline: str = "a", count: int = 1) -> None:
    for _ in range(count):
        lake.append(TABLE, [{"pipeline": pipeline, "time": NOW, "app": pipeline}])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def log(lake: Lake) -> DeltaLog:
    return DeltaLog(lake.path(TABLE))


def test_newest_when_the_table_grows_then_follows_it(lake: Lake) -> None:
    seen = log(lake)
    assert seen.newest() == -1
    for count in (1, 2, 7, 45, 60):
        append(lake, count=count)
        assert seen.newest() == log(lake).newest() == DeltaTable(str(lake.path(TABLE))).version()


@pytest.mark.parametrize("left", ["checkpoint", "nothing", "garbage", "another table's"])
def test_newest_of_a_cleaned_log_is_the_same_by_any_path(lake: Lake, left: str) -> None:
    append(lake, count=60)
    folder = lake.path(TABLE) / "_delta_log"
    for version in range(40):
        (folder / f"{version:020d}.json").unlink()
    hint = folder / "_last_checkpoint"
    if left != "checkpoint":
        hint.unlink()
    if left == "garbage":
        hint.write_text("{")
    if left == "another table's":
        hint.write_text(json.dumps({"version": 900}))
    assert log(lake).newest() == 60


def test_newest_when_the_table_is_recreated_then_starts_over(lake: Lake) -> None:
    append(lake, count=20)
    seen = log(lake)
    assert seen.newest() == 20
    shutil.rmtree(lake.path(TABLE))
    append(lake, count=3)
    assert seen.newest() == 3


def test_newest_when_the_table_is_recreated_up_to_the_same_version_then_reads_its_entries(lake: Lake) -> None:
    append(lake, "a", 3)
    seen = log(lake)
    assert (seen.newest(), seen.newest(), seen.restarts) == (3, 3, 0)
    before = seen.commit(3)
    append(lake, "a", 2)
    assert (seen.newest(), seen.restarts) == (5, 0) and seen.commit(3) is before
    shutil.rmtree(lake.path(TABLE))
    append(lake, "b", 5)
    assert (seen.newest(), seen.restarts) == (5, 1)
    after = seen.commit(3)
    assert after is not None and [file.partition["pipeline"] for file in after.added] == ["b"]


def test_table_id_of_a_cleaned_log_comes_from_the_checkpoint(lake: Lake) -> None:
    assert log(lake).table_id() is None
    append(lake, count=3)
    before = log(lake).table_id()
    assert before == str(DeltaTable(str(lake.path(TABLE))).metadata().id)
    DeltaTable(str(lake.path(TABLE))).create_checkpoint()
    for version in range(3):
        (lake.path(TABLE) / "_delta_log" / f"{version:020d}.json").unlink()
    assert log(lake).table_id() == before
    shutil.rmtree(lake.path(TABLE))
    append(lake)
    assert log(lake).table_id() != before


def test_commit_names_the_pipelines_of_its_files(lake: Lake) -> None:
    append(lake, "a")
    append(lake, "b")
    for version, pipeline in {1: "a", 2: "b"}.items():
        commit = log(lake).commit(version)
        assert commit is not None and commit.time is not None
        assert [f.partition["pipeline"] for f in commit.added] == [pipeline]
        assert [f.may_hold(name) for f in commit.added for name in ("a", "b")] == [pipeline == "a", pipeline == "b"]
    assert log(lake).commit(3) is None


def test_commit_when_read_then_has_files_rows_and_times(lake: Lake) -> None:
    append(lake, "a")
    commit = log(lake).commit(1)
    assert commit is not None
    (file,) = commit.added
    assert (lake.path(TABLE) / file.path).is_file()
    assert file.newest_time == NOW and file.has_only("app", "a") and not file.may_have("app", "b")
    assert abs(datetime.now(UTC) - (commit.time or NOW)) < timedelta(minutes=5)


def test_commit_of_a_compaction_adds_nothing(lake: Lake) -> None:
    append(lake, "a", 3)
    DeltaTable(str(lake.path(TABLE))).optimize.compact()
    commit = log(lake).commit(4)
    assert commit is not None
    assert (commit.added, commit.removed, len(commit.rewritten)) == ((), frozenset(), 3)
    assert len(commit.moved) == 1


def test_commit_when_rows_were_deleted_then_their_files_are_removed(lake: Lake) -> None:
    append(lake, "a")
    append(lake, "b")
    DeltaTable(str(lake.path(TABLE))).delete("pipeline = 'a'")
    commit = log(lake).commit(3)
    assert commit is not None and len(commit.removed) == 1


def test_commit_when_an_entry_is_garbage_then_names_it(lake: Lake) -> None:
    append(lake, "a")
    (lake.path(TABLE) / "_delta_log" / f"{1:020d}.json").write_text("{broken")
    with pytest.raises(MillraceError, match=r"00000000000000000001\.json"):
        log(lake).commit(1)


def test_table_created_while_its_folder_is_listed_does_not_exist_yet(tmp_path: Path) -> None:
    class JustMade:
        """Files that Arrow did not list, but found when it checked for them."""

        def get_file_info(self, _: object) -> list[object]:
            raise FileNotFoundError

    log = DeltaLog(tmp_path / "table")
    files = ArrowFiles(cast("FileSystem", JustMade()))
    log.location = cast("Location", SimpleNamespace(files=files, folder=tmp_path))
    assert log.versions() == ([], [])


def test_versions_come_from_entries_and_checkpoints(lake: Lake) -> None:
    assert log(lake).versions() == ([], [])
    append(lake, count=50)
    entries, checkpoints = log(lake).versions()
    assert sorted(entries) == list(range(51)) and len(checkpoints) == 1 and set(checkpoints) < set(entries)
