"""The rates of a fleet's streams."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fleet import bench
from benchmarks.fleet.assignments import needed
from benchmarks.fleet.methods import METHODS, NODE_ROWS_PER_S, SLOTS, TRIGGER_MS, WAIT_MS
from benchmarks.fleet.scripts import ingest
from benchmarks.fleet.workloads import NIGHT, WORKLOADS, day, load


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("seed", [0, 1])
def test_workload_needs_one_to_four_nodes_over_its_day(workload: str, seed: int) -> None:
    found = bench.load_of(workload, bench.WHOLE, seed)
    need = needed(found.rates, NODE_ROWS_PER_S)
    assert found.rates.shape == (bench.WHOLE.periods, bench.STREAMS) == (36, len(found.streams))
    assert (need.min(), need.max()) == (1, 4) and need.mean() < 3
    assert need[0] == need[-1] == 1


@pytest.mark.parametrize("workload", WORKLOADS)
def test_single_stream_is_slower_than_the_slots_that_it_may_use(workload: str) -> None:
    assert bench.load_of(workload, bench.WHOLE, 0).rates.max() * WAIT_MS / 1000 < ingest.TASKS < SLOTS


def test_other_seed_is_another_workload() -> None:
    size = bench.Size(8, periods=5, capacity=10, period_s=2)
    first, again, other = (load("sfvar", size, seed).rates for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_day_is_low_at_both_ends_and_has_one_peak() -> None:
    shape = day(101)
    assert shape.argmax() == 50 and shape[50] == pytest.approx(1.0)
    assert shape[0] == pytest.approx(NIGHT, abs=0.01) and np.allclose(shape, shape[::-1])
    assert (np.diff(shape[:51]) > 0).all()


def test_scenarios_last_at_most_an_hour() -> None:
    around_s = 120  # start of all streams, rest of the rows, comparison
    for workload in WORKLOADS:
        assert len(METHODS) * (bench.load_of(workload, bench.WHOLE, 0).length_s + around_s) <= 3600


def test_triggers_of_streams_differ_by_less_than_a_quarter() -> None:
    assert ingest.SPREAD_MS * (ingest.SPREAD - 1) < 0.25 * TRIGGER_MS
