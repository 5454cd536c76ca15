from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.partition_loads import partition_loads
from millrace.lake.row_codec import partition_run_row
from millrace.lake.store import Lake
from millrace.model.telemetry import PartitionRun
from tests.include.control.world import NAME, NOON, spec

SPEC = spec(placement={}, submit={"master": "embedded"}, period_s=10)


def run(batch: int, partition: int, **changes: Any) -> PartitionRun:
    told: dict[str, Any] = {
        "pipeline": NAME,
        "app": NAME,
        "generation": 2,
        "version": 1,
        "query": "q",
        "operator": 0,
        "operators": (0,),
        "partition": partition,
        "time": NOON + timedelta(seconds=batch),
        "batch_id": batch,
        "executor": "7",
        "rows_in": 10 * (partition + 1),
        "run_s": 1.0 + partition,
        "local_bytes": 300,
        "remote_bytes": 100,
        "state_bytes": None,
        "executor_number": 0,
    }
    return PartitionRun(**(told | changes))


def sampled(lake: Lake, *runs: PartitionRun) -> None:
    lake.append("telemetry/partitions", [partition_run_row(run) for run in runs])


def test_partition_loads_match_their_newest_batches(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    sampled(lake, *(run(batch, partition) for batch in range(5) for partition in range(2)))
    loaded_its_state = run(5, 0, executor_number=3, run_s=40.0, state_bytes=9)
    sampled(lake, loaded_its_state, run(5, 1, executor_number=None))
    sampled(lake, run(4, 0, operators=(1, 2), operator=1, executor_number=1))
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert found is not None
    assert (found.since, found.until, found.batches) == (NOON, NOON + timedelta(seconds=5), 1)
    assert found.operator == ("q/0", "q/0", "q/1+2") and found.partition == (0, 1, 0)
    assert found.executor == (3, -1, 1)
    assert found.busy_s == (1.0, 2.0, 1.0) and found.busy_error_s == (0.0, 0.0, 0.0)
    assert found.rows == (10.0, 20.0, 10.0) and found.state_bytes == (9, None, None)
    assert found.remote_ratio == 0.25


def test_partition_loads_follow_hot_keys(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    sampled(lake, *(run(batch, 0, run_s=9.0) for batch in range(10)), *(run(10 + batch, 0) for batch in range(10)))
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=20))
    assert found is not None and found.busy_s == (1.0,) and found.batches == 10


def test_of_two_batches_the_larger_one_counts(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    sampled(lake, *(run(1, p, rows_in=1, run_s=4.0 - p) for p in range(2)), *(run(2, p) for p in range(2)))
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert found is not None and found.batches == 2
    assert (found.busy_s, found.busy_error_s, found.rows) == ((1.0, 2.0), (0.0, 0.0), (10.0, 20.0))


def test_batches_with_other_hot_keys_do_not_count(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    hot = {batch: 0 if batch < 6 else 1 for batch in range(8)}
    sampled(lake, *(run(b, p, run_s=9.0 if p == hot[b] else 1.0) for b in hot for p in range(4)))
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    # of the newest three, which always count, two have the new keys
    assert found is not None and found.busy_s == (1.0, 9.0, 1.0, 1.0) and found.batches == 3
    sampled(lake, *(run(8, p, run_s=(1.3, 8.0, 0.9, 1.1)[p]) for p in range(4)))  # noise
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert found is not None and found.busy_s == (1.0, 9.0, 1.0, 1.0) and found.batches == 3


def test_partition_loads_before_executors_changed_do_not_count(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    alone = (run(batch, partition, run_s=1.0) for batch in range(4) for partition in range(2))
    shared = (run(batch, p, run_s=3.0, executor=str(p)) for batch in range(4, 6) for p in range(2))
    sampled(lake, *alone, *shared)
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert found is not None and found.busy_s == (3.0, 3.0) and found.batches == 2


def test_state_sizes_before_executors_changed_still_count(tmp_path: Path) -> None:
    """They are measured once per minute, and a move does not change them."""
    lake = Lake(tmp_path)
    measured = run(0, 0, state_bytes=9, memory_bytes=8, time=NOON - timedelta(seconds=100))
    sampled(lake, measured, *(run(batch, p, executor=str(p)) for batch in range(4, 6) for p in range(2)))
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert found is not None and found.batches == 2
    assert (found.state_bytes, found.memory_bytes) == ((9, None), (8, None))


def test_partition_that_two_executors_report_in_one_batch_is_left_to_other_batches(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    sampled(lake, *(run(batch, 0) for batch in range(5)), run(3, 0, executor="8", executor_number=1, run_s=90.0))
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert found is not None
    assert (found.partition, found.executor, found.busy_s, found.batches) == ((0,), (0,), (1.0,), 4)


def test_partition_loads_of_earlier_drivers_and_other_pipelines_do_not_count(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    sampled(lake, run(90, 0, generation=1), run(1, 5, pipeline="another"), run(2, 1))
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert found is not None and found.partition == (1,)


@pytest.mark.parametrize("late_s", [61, 100_000])
def test_old_key_groups_are_none(tmp_path: Path, late_s: int) -> None:
    lake = Lake(tmp_path)
    assert partition_loads(SPEC, lake, NOON) is None
    sampled(lake, run(0, 0))
    assert partition_loads(SPEC, lake, NOON + timedelta(seconds=late_s)) is None
