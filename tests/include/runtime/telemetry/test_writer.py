"""The writer's commits: each is made once, whatever fails in between."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from millrace.lake.partition_runs import partition_flows, partition_runs
from millrace.lake.store import Lake
from millrace.model.telemetry import BatchMetrics, PartitionFlow, PartitionRun
from millrace.runtime.telemetry import writer as module
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.host import HostCpu
from millrace.runtime.telemetry.writer import Entry, Writer


def entry(batch_id: int, series: str = "checkpoint") -> Entry:
    return Entry(BatchMetrics("p", "a", "q", datetime.now(UTC), 1, 0, batch_id, 1, 10), series, batch_id)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[Writer]]:
    writers: list[Writer] = []
    yield writers
    for one in writers:
        one.close()


def writer(opened: list[Writer], lake: Path, generation: int = 1) -> Writer:
    opened.append(Writer(Lake(lake), AppIdentity("p", "a", generation, 1, 1), 3600, HostCpu()))
    # the thread's own first commit would race with the test's
    opened[-1]._committed_at = time.monotonic()
    return opened[-1]


def ids(lake: Path) -> list[int]:
    return [r["batch_id"] for r in Lake(lake).rows("select batch_id from batches order by time", "telemetry/batches")]


def test_flush_when_rows_wait_then_commits_all_at_once(tmp_path: Path, opened: list[Writer]) -> None:
    one = writer(opened, tmp_path)
    for n in range(3):
        one.add(entry(n))
    version = Lake(tmp_path).version("telemetry/batches")
    assert one.flush() and one.flush()
    assert ids(tmp_path) == [0, 1, 2]
    assert Lake(tmp_path).version("telemetry/batches") == max(version, 0) + 1
    assert len(Lake(tmp_path).rows("select * from apps", "telemetry/apps")) == 2


def test_flush_after_a_predecessor_adds_only_new_rows(tmp_path: Path, opened: list[Writer]) -> None:
    first = writer(opened, tmp_path, 1)
    first.add(entry(0))
    first.add(entry(1))
    first.flush()
    second = writer(opened, tmp_path, 2)
    for n in (1, 2):  # batch 1 is replayed
        second.add(entry(n))
    second.add(entry(0, series="new checkpoint"))
    assert second.flush()
    assert ids(tmp_path) == [0, 1, 2, 0]


def test_flush_when_a_successor_writes_then_the_stale_driver_is_silent(
    tmp_path: Path, opened: list[Writer], caplog: pytest.LogCaptureFixture
) -> None:
    stale, fresh = writer(opened, tmp_path, 1), writer(opened, tmp_path, 2)
    stale.add(entry(0))
    stale.flush()
    fresh.add(entry(1))
    fresh.flush()
    stale.add(entry(2))
    assert not stale.flush() and not stale.flush()
    assert ids(tmp_path) == [0, 1]
    assert sum("outdated driver" in m for m in caplog.messages) == 1


def test_rows_are_written_while_a_clock_that_was_set_back_catches_up(
    tmp_path: Path, opened: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    for generation in (1, 2):  # the successor's host may be behind, too
        one = writer(opened, tmp_path, generation)
        for _ in range(2):
            now -= timedelta(hours=1)
            monkeypatch.setattr(module, "datetime", SimpleNamespace(now=lambda zone, at=now: at))
            marker = replace(entry(7).metrics, time=now)
            one.add(Entry(marker, "checkpoint/idle", one.number(now)))
            assert one.flush()
    assert len(ids(tmp_path)) == 4
    assert len(Lake(tmp_path).rows("select * from apps", "telemetry/apps")) == 4


def test_markers_of_0_2_0_do_not_hide_later_ones(tmp_path: Path, opened: list[Writer]) -> None:
    """Their number was the time alone."""
    one, now = writer(opened, tmp_path), datetime.now(UTC)
    one.add(Entry(entry(7).metrics, "checkpoint/idle", int(now.timestamp() * 1000)))
    assert one.flush()
    one.add(Entry(entry(7).metrics, "checkpoint/idle", one.number(now - timedelta(hours=1))))
    assert one.flush()
    assert len(ids(tmp_path)) == 2


def test_flush_with_a_lost_answer_duplicates_nothing(
    tmp_path: Path, opened: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = writer(opened, tmp_path)
    one.add(entry(0))
    append = module.FencedTable.append

    def lost(self: object, *args: object) -> int:
        append(self, *args)  # type: ignore[arg-type]
        raise OSError("the disk answered too late")

    monkeypatch.setattr(module.FencedTable, "append", lost)
    assert not one.flush()
    monkeypatch.setattr(module.FencedTable, "append", append)
    assert one.flush()
    assert ids(tmp_path) == [0]


def test_buffer_keeps_the_newest_while_the_lake_is_down(
    tmp_path: Path, opened: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUFFER_BATCHES", 5)
    lake = tmp_path / "lake"
    lake.write_text("no folder")
    one = writer(opened, lake)
    for n in range(9):
        one.add(entry(n))
    assert not one.flush()
    lake.unlink()
    assert one.flush()
    assert ids(lake) == [4, 5, 6, 7, 8]


def test_samples_of_partitions_wait_while_the_lake_is_down_and_are_written_once(
    tmp_path: Path, opened: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUFFER_SAMPLES", 2)
    now, lake = datetime.now(UTC), tmp_path / "lake"
    lake.write_text("no folder")
    one = writer(opened, lake)
    for n in range(3):
        runs = [PartitionRun("p", "a", 1, 1, "q", 0, (0,), p, now, n, "0", 1, 0.1, 2, 3) for p in range(4)]
        one.add_partitions(tuple(runs))
        one.add_flows((PartitionFlow("p", "a", 1, "q", 0, 1, 1, 2, now, n, 7),))
    assert not one.flush()
    lake.unlink()
    assert one.flush() and one.flush()
    found = partition_runs(Lake(lake), "p", now)
    assert Counter(run.batch_id for run in found) == {1: 4, 2: 4}
    assert [flow.batch_id for flow in partition_flows(Lake(lake), "p", now)] == [1, 2]
    assert Lake(lake).version("telemetry/partitions") == 1
