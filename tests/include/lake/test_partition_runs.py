"""State partitions as recorded in the lake."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.lake import partition_runs as module
from millrace.lake.partition_runs import FLOWS, RUNS, partition_flows, partition_runs
from millrace.lake.row_codec import partition_flow_row, partition_run_row
from millrace.lake.store import Lake
from millrace.model.telemetry import PartitionFlow, PartitionRun

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
RUN = PartitionRun("delays", "delays", 1, 3, "q", 1, (1, 2), 7, NOON, 12, "0", 400, 0.25, 1000, 50, 4096)
FLOW = PartitionFlow("delays", "delays", 1, "q", 0, 3, 1, 7, NOON, 12, 121)
SECOND = timedelta(seconds=1)


def test_partitions_of_a_pipeline_are_read_since_a_time_in_commit_order(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    later = replace(RUN, batch_id=13, time=NOON + SECOND, state_bytes=None)
    lake.append(RUNS, [partition_run_row(replace(RUN, time=NOON - SECOND)), partition_run_row(RUN)])
    lake.append(RUNS, [partition_run_row(later), partition_run_row(replace(RUN, pipeline="other"))])
    assert partition_runs(lake, "delays", NOON) == [RUN, later]
    assert partition_runs(lake, "delays", NOON + 2 * SECOND) == []
    assert partition_runs(Lake(tmp_path / "none"), "delays", NOON) == []


def test_flows_since_a_time_are_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(FLOWS, [partition_flow_row(FLOW), partition_flow_row(replace(FLOW, time=NOON - SECOND))])
    assert partition_flows(lake, "delays", NOON) == [FLOW]


def test_newest_partitions_are_read_if_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    lake = Lake(tmp_path)
    for number in range(4):
        lake.append(RUNS, [partition_run_row(replace(RUN, batch_id=number))])
    assert [run.batch_id for run in partition_runs(lake, "delays", NOON)] == [2, 3]
