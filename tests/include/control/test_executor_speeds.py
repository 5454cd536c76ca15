from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from millrace.control.executor_speeds import executor_speeds, host_speeds
from millrace.lake.store import Lake
from millrace.model.placement import Speeds
from millrace.model.telemetry import PartitionRun
from tests.include.control.test_partition_loads import run, sampled
from tests.include.control.world import NOON

FAST, SLOW = "10.0.0.1", "10.0.0.2"
SPEED = {FAST: 1.5, SLOW: 0.5}


def moved(noise: float = 0.05, stays: frozenset[int] = frozenset(), cost: float = 1.0) -> list[PartitionRun]:
    """Return partitions with different costs. Half start on each host, and they change places in the middle."""
    rng = np.random.default_rng(3)
    runs = []
    for batch in range(20):
        for partition in range(8):
            there = (partition % 2 == 1) != (batch >= 10 and partition not in stays)
            host = SLOW if there else FAST
            rows = int(rng.integers(50, 500))
            run_s = cost * (1 + partition) * rows / 100 / SPEED[host] * np.exp(noise * rng.standard_normal())
            runs.append(run(batch, partition, host=host, executor_number=int(there), rows_in=rows, run_s=float(run_s)))
    return runs


def test_hosts_are_compared_by_partitions_that_ran_on_both() -> None:
    found = host_speeds(moved())
    assert found[FAST] / found[SLOW] == pytest.approx(3.0, rel=0.15)
    assert found[FAST] * found[SLOW] == pytest.approx(1.0, rel=0.01)  # to the mean of both


def test_unit_of_cost_does_not_matter() -> None:
    assert host_speeds(moved(cost=1000.0)) == pytest.approx(host_speeds(moved()), rel=1e-3)


def test_costly_keys_do_not_make_their_host_slow() -> None:
    # higher partitions cost more, and nothing has moved
    assert host_speeds(moved(stays=frozenset(range(8)))) == {}


def test_noise_does_not_count_as_a_difference() -> None:
    alike = [replace(r, run_s=1.0 + r.batch_id % 3) for r in moved()]
    assert host_speeds(alike) == {}


def test_workers_have_the_speed_of_their_host(tmp_path: Path) -> None:
    lake, runs = Lake(tmp_path), moved()
    sampled(lake, *runs, run(30, 0, generation=1, host=SLOW))
    now = NOON + timedelta(seconds=60)
    speeds = executor_speeds(lake, runs[-8:], now)
    assert speeds.of(0) > 1.2 and speeds.of(1) < 0.8 and speeds.of(2) == 1.0
    one_host = [run(r.batch_id, r.partition, host=FAST) for r in runs[-8:]]
    assert executor_speeds(lake, one_host, now) == Speeds() == executor_speeds(lake, [run(1, 0)], now)
