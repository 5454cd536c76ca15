"""Which commits of a table's log belong to a pipeline, if the log is compacted, cleaned, recreated or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from millrace.lake.commit_follower import CommitFollower
from millrace.lake.log import NOTHING
from millrace.lake.store import Lake
from tests.telemetry_commits import TABLE, commit


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def log_folder(lake: Lake) -> Path:
    return lake.path(TABLE) / "_delta_log"


def follow(lake: Lake, pipeline: str = "tiny") -> CommitFollower:
    return CommitFollower(lake.log(TABLE), pipeline)


def test_advance_when_table_is_missing_then_waits_for_its_first_commit(lake: Lake) -> None:
    followed = follow(lake)
    assert not followed.advance()
    assert followed.version == NOTHING
    commit(lake, "tiny", 1)
    assert followed.advance()
    assert not followed.advance()


def test_advance_when_another_pipeline_commits_then_does_not_count_it(lake: Lake) -> None:
    commit(lake, "tiny", 1)
    followed = follow(lake)
    followed.advance()
    commit(lake, "tiny2", 1)
    newest = commit(lake, "other", 1)
    assert not followed.advance()
    assert followed.version == newest
    commit(lake, "tiny", 2)
    assert followed.advance()


def test_advance_when_several_commits_arrived_then_counts_one_of_ours(lake: Lake) -> None:
    commit(lake, "tiny", 1)
    followed = follow(lake)
    followed.advance()
    commit(lake, "other", 1)
    commit(lake, "tiny", 2)
    newest = commit(lake, "other", 2)
    assert followed.advance()
    assert followed.version == newest
    assert not followed.advance()


def test_advance_does_not_count_compaction_and_checkpoints(lake: Lake) -> None:
    for number in range(3):
        commit(lake, "tiny", number)
    followed = follow(lake)
    followed.advance()
    table = DeltaTable(str(lake.path(TABLE)))
    table.optimize.compact()
    table.create_checkpoint()
    assert not followed.advance()
    assert followed.version == table.version()


def test_advance_continues_after_a_clean_up_of_the_log(lake: Lake) -> None:
    for number in range(5):
        commit(lake, "tiny", number)
    followed = follow(lake)
    followed.version = 1
    DeltaTable(str(lake.path(TABLE))).create_checkpoint()
    files = sorted(log_folder(lake).glob("*.json"))
    for file in files[:-1]:
        file.unlink()
    assert followed.advance()  # the commits between 1 and the rest are unknown: they count
    newest = int(files[-1].stem)
    assert followed.version == newest
    files[-1].unlink()
    assert not followed.advance(), "the checkpoint still names the version"
    (log_folder(lake) / f"{newest + 1:020d}.json").write_text('{"txn": {"appId": "tiny/tiny/main/0"}}')
    assert followed.advance()


def test_advance_when_table_is_recreated_then_starts_over(lake: Lake, tmp_path: Path) -> None:
    import shutil

    for number in range(3):
        commit(lake, "tiny", number)
    followed = follow(lake)
    followed.advance()
    shutil.rmtree(lake.path(TABLE))
    assert not followed.advance()
    commit(Lake(tmp_path), "tiny", 0)
    assert followed.advance()


def test_advance_when_a_commit_is_half_written_then_reads_it_again(lake: Lake) -> None:
    commit(lake, "tiny", 0)
    followed = follow(lake)
    followed.advance()
    file = log_folder(lake) / f"{followed.version + 1:020d}.json"
    action = json.dumps({"txn": {"appId": "tiny/tiny/main/0", "version": 1}})
    for half in ("", action[:20]):
        file.write_text(half)
        assert not followed.advance()
    file.write_text(action)
    assert followed.advance()


@pytest.mark.parametrize("content", ["not json", "1", '{"txn": {}}', '{"txn": 3}', "\0" * 8])
def test_advance_counts_a_corrupt_commit_and_continues(lake: Lake, content: str) -> None:
    commit(lake, "other", 0)
    followed = follow(lake)
    followed.advance()
    after = followed.version + 2
    (log_folder(lake) / f"{after - 1:020d}.json").write_text(content)
    (log_folder(lake) / f"{after:020d}.json").write_text('{"commitInfo": {}}')
    assert followed.advance()
    assert followed.version == after
