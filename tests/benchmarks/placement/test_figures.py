from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from benchmarks.placement.drift import DriftRun
from benchmarks.placement.figures import (
    LARGE,
    ONE_HOST,
    PAIRS,
    WAIT,
    drift_records,
    kill_records,
    large_state_records,
    pair_records,
    resize_records,
    skew_records,
    wait_records,
)
from benchmarks.placement.kills import KillRun
from benchmarks.placement.pairs import PairRun
from benchmarks.placement.resizing import ResizeRun
from benchmarks.placement.skew import ALBIC, METHODS, SteadyRun, busy_s, load_distance, mean_moves
from millrace.model.telemetry import PartitionRun
from tests.include.control.test_partition_loads import run
from tests.include.control.test_placement import plan
from tests.include.control.world import NOON
from tests.optimizers.albic.partition_loads import groups

OURS = SteadyRun(2.0, 0.0, 0.0, plan(batch_after_s=4.0), achieved_s=4.6, evaluations=2)


def test_worst_round_is_judged_and_a_rival_that_failed_in_another_is_not_compared() -> None:
    rounds = [
        {ALBIC: OURS, "even": SteadyRun(4.0, 3.0, 9.0)},
        {ALBIC: replace(OURS, batch_s=6.0)},
        {"even": SteadyRun(1.0, 0.0, 0.0)},
    ]
    found = {(r.method, r.figure): r for r in skew_records(rounds)}
    assert (found[ALBIC, "batch_time_vs_even"].value, found[ALBIC, "batch_time_vs_even"].n) == (0.5, 1)
    assert (ALBIC, "batch_time_vs_wait_0") not in found
    times = found[ALBIC, "batch_time_s"]
    assert (times.value, times.low, times.high, times.n) == (4.0, 2.0, 6.0, 2)
    assert (found["even", "moves"].value, found["even", "moves"].holds) == (3.0, None)
    assert found[ALBIC, "moves"].holds and found[ALBIC, "evaluations_to_balance"].holds
    achieved = found[ALBIC, "achieved_vs_planned"]
    assert (round(achieved.value, 2), achieved.holds) == (1.15, True)


def test_state_loaded_in_the_worst_round_is_judged() -> None:
    theirs = SteadyRun(4.0, 2.0, 90.0)
    rounds = [{ALBIC: OURS, "spark_wait_0": theirs}, {ALBIC: replace(OURS, batch_s=3.6, moves=1.0, loaded_mb=60.0)}]
    found = {(r.scenario, r.method, r.figure): r for r in large_state_records(rounds)}
    loaded = found[LARGE, ALBIC, "state_bytes_loaded"]
    assert (loaded.value, loaded.holds, loaded.n) == (60.0, False, 2)
    assert (found[LARGE, "spark_wait_0", "state_bytes_loaded"].value) == 90.0
    assert found[LARGE, ALBIC, "batch_time_vs_wait_0"].value == 0.5
    assert not found[LARGE, ALBIC, "moves"].holds


def test_partitions_that_ran_elsewhere_load_their_newest_known_state() -> None:
    def runs(batch: int, executors: str, size: int | None) -> list[PartitionRun]:
        return [run(batch, p, executor=executor, state_bytes=size) for p, executor in enumerate(executors)]

    sampled = [*runs(0, "aab", 4_000_000), *runs(3, "bab", None), *runs(6, "baa", None), *runs(9, "baa", None)]
    assert mean_moves(sampled, NOON) == (2 / 3, pytest.approx(8 / 3))
    assert mean_moves(sampled, NOON + timedelta(seconds=4)) == (0.0, 0.0)
    assert mean_moves(sampled[:3], NOON) == (0.0, 0.0)


def test_rivals_are_spark_itself_and_an_even_spread() -> None:
    assert set(METHODS) == {ALBIC, "even", "spark_wait_3s", "spark_wait_0"}


def test_worst_drift_and_change_are_judged() -> None:
    even = DriftRun(6.0, 0)
    rounds = [{ALBIC: DriftRun(3.0, 8), "even": even}, {ALBIC: DriftRun(4.8, 2), "even": even}, {}]
    found = {(r.method, r.figure): r for r in drift_records(rounds)}
    assert (round(found[ALBIC, "batch_time_vs_even"].value, 2), found[ALBIC, "batch_time_vs_even"].holds) == (
        0.8,
        False,
    )
    assert (found[ALBIC, "moves"].value, found[ALBIC, "moves"].holds) == (8, True)
    resizes = [
        {ALBIC: (ResizeRun(1.5, 2.0, 1), ResizeRun(2.5, 4.0, 3)), "spark_wait_0": (ResizeRun(9.0, 5.0),) * 2},
        {ALBIC: (ResizeRun(1.2, 2.0, 2), ResizeRun(1.9, 4.0, 1))},
    ]
    told = {(r.scenario, r.method, r.figure): r for r in resize_records(resizes)}
    assert told["scale_out", ALBIC, "evaluations_to_balance"].holds
    assert told["scale_out", ALBIC, "longest_batch_ratio"].holds
    assert not told["scale_in", ALBIC, "evaluations_to_balance"].holds
    assert (told["scale_in", ALBIC, "longest_batch_ratio"].value, told["scale_in", ALBIC, "batch_time_s"].n) == (2.5, 2)
    rival = told["scale_out", "spark_wait_0", "longest_batch_ratio"]
    assert (rival.value, rival.holds, rival.n) == (9.0, None, 1)
    assert ("scale_out", "spark_wait_0", "evaluations_to_balance") not in told
    assert not list(resize_records([]))


def test_load_distance_is_the_worst_workers_distance_from_the_mean() -> None:
    assert load_distance([1.0, 2.0, 3.0]) == 50.0 and load_distance([2.0, 2.0]) == 0.0
    assert busy_s(groups([1.0, 2.0, 4.0], [0, 2, 0]), (0, 1, 2)) == [5.0, 0.0, 2.0]
    found = {r.figure: r.value for r in skew_records([{ALBIC: replace(OURS, distance=12.0)}])}
    assert found["load_distance"] == 12.0
    assert found["load_distance_vs_planned"] == pytest.approx(12.0 / found["load_distance_planned"])


def test_rows_lost_in_any_round_and_the_slowest_return_to_balance_are_judged() -> None:
    found = {r.figure: r for r in kill_records([KillRun(7, 1, 0, 0), KillRun(7, 3, 2, 0)])}
    assert (found["rows_lost"].value, found["rows_lost"].holds, found["rows_lost"].n) == (2, False, 14)
    assert found["rows_doubled"].holds and not found["evaluations_to_balance"].holds
    assert not list(kill_records([]))


def test_remote_bytes_are_judged_against_each_rival_of_the_same_round() -> None:
    rounds = [
        {ALBIC: PairRun(2.0, 3.0, 90.0), "even": PairRun(10.0, 2.0, 80.0)},
        {ALBIC: PairRun(4.0, 3.0, 90.0), "spark_wait_0": PairRun(9.0, 4.0, 100.0)},
    ]
    found = {(r.scenario, r.method, r.figure): r for r in pair_records({PAIRS: rounds, ONE_HOST: rounds})}
    assert found[PAIRS, ALBIC, "remote_bytes_vs_even"].holds and not found[PAIRS, ALBIC, "remote_bytes_vs_wait_0"].holds
    assert not found[ONE_HOST, ALBIC, "batch_time_vs_even"].holds
    assert (PAIRS, ALBIC, "batch_time_vs_even") not in found
    assert found[PAIRS, ALBIC, "cpu_vs_wait_0"].holds and not found[PAIRS, ALBIC, "cpu_vs_even"].holds


def test_waits_are_compared() -> None:
    rounds = [{"albic_4s": OURS, "albic_30s": replace(OURS, batch_s=3.0)}, {"albic_4s": replace(OURS, moves=1.0)}]
    found = {(r.method, r.figure): r for r in wait_records(rounds)}
    assert {r.scenario for r in found.values()} == {WAIT}
    assert (found["albic_4s", "batch_time_s"].value, found["albic_30s", "batch_time_s"].value) == (2.0, 3.0)
    assert found["albic_4s", "moves"].value == 1.0
