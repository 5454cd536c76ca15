"""Pairs of state partitions, and the cost of a byte from another executor."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from millrace.control.flows import remote_s_per_mb
from millrace.control.partition_loads import partition_loads
from millrace.lake.row_codec import partition_flow_row
from millrace.lake.store import Lake
from millrace.model.placement import Flows
from millrace.model.telemetry import PartitionFlow
from tests.include.control.test_partition_loads import SPEC, run, sampled
from tests.include.control.world import NAME, NOON

PARTITIONS = 8


def flow(emits: int, receives: int, size: int, **changes: Any) -> PartitionFlow:
    told: dict[str, Any] = {
        "pipeline": NAME,
        "app": NAME,
        "generation": 2,
        "query": "q",
        "from_operator": 1,
        "from_partition": emits,
        "to_operator": 0,
        "to_partition": receives,
        "time": NOON,
        "batch_id": 3,
        "bytes": size,
    }
    return PartitionFlow(**(told | changes))


def measured(tmp_path: Path, *flows: PartitionFlow) -> Flows:
    lake = Lake(tmp_path)
    for operator in (0, 1):
        of_it = {"operator": operator, "operators": (operator,), "run_s": 1.0}
        sampled(lake, *(run(batch, p, **of_it) for batch in range(4) for p in range(PARTITIONS)))
    lake.append("telemetry/flows", [partition_flow_row(f) for f in flows])
    found = partition_loads(SPEC, lake, NOON + timedelta(seconds=9))
    assert found is not None
    return found.flows


def test_pairs_are_those_with_a_large_flow(tmp_path: Path) -> None:
    one_to_one = [flow(p, p, 1000 + p) for p in range(4)]
    everybody = [flow(a, b, 100) for a in range(PARTITIONS) for b in range(4, PARTITIONS)]
    former = flow(7, 7, 9999, batch_id=2)
    of_another_start = flow(6, 6, 9999, generation=1)
    found = measured(tmp_path, *one_to_one, *everybody, former, of_another_start)
    assert found.producer == (8, 9, 10, 11) and found.consumer == (0, 1, 2, 3)  # operators in order: q/0, q/1
    assert found.bytes == (1000, 1001, 1002, 1003) and found.s_per_mb is None


def test_missing_flows_give_no_pairs(tmp_path: Path) -> None:
    assert measured(tmp_path) == Flows()
    assert measured(tmp_path / "b", flow(0, 0, 5, from_operator=9)) == Flows()  # of an operator that was not sampled


def tasks(cost_s_per_mb: float, noise_s: float, seed: int = 0) -> list[list[Any]]:
    chance = Random(seed)
    groups = []
    for partition in range(16):
        remote, rows = (4_000_000 if partition % 4 else 0), 1000 + 100 * partition
        seconds = 0.1 + 0.001 * rows + cost_s_per_mb * remote / 1e6
        groups.append(
            [
                run(b, partition, rows_in=rows, remote_bytes=remote, run_s=seconds + chance.gauss(0, noise_s))
                for b in range(10)
            ]
        )
    return groups


def test_cost_of_a_remote_byte_is_separated_from_the_cost_of_rows() -> None:
    assert remote_s_per_mb(tasks(0.05, 0.01)) == pytest.approx(0.05, rel=0.1)


def test_cost_hidden_by_noise_is_unknown() -> None:
    assert remote_s_per_mb(tasks(0.0, 0.1)) is None
    assert remote_s_per_mb(tasks(0.0001, 0.5, seed=1)) is None


def test_cost_is_unknown_if_all_is_local_or_too_few_tasks_ran() -> None:
    assert remote_s_per_mb([[run(b, p, remote_bytes=0) for b in range(5)] for p in range(4)]) is None
    assert remote_s_per_mb([[run(0, 0), run(0, 1)]]) is None
