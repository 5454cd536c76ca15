from __future__ import annotations

from dataclasses import replace

from benchmarks.placement.bench import drift_records, resize_records, skew_records
from benchmarks.placement.drift import Drifted
from benchmarks.placement.resizing import Resized
from benchmarks.placement.skew import ALBIC, METHODS, Steady
from tests.include.control.test_placement import plan

OURS = Steady(2.0, 0.0, plan(batch_after_s=4.0), achieved_s=4.6, evaluations=2)


def test_worst_round_is_judged_and_a_failed_rival_of_another_round_is_not_compared() -> None:
    rounds = [{ALBIC: OURS, "even": Steady(4.0, 3.0)}, {ALBIC: replace(OURS, batch_s=6.0)}, {"even": Steady(1.0, 0.0)}]
    found = {(r.method, r.figure): r for r in skew_records(rounds)}
    assert (found[ALBIC, "batch_time_vs_even"].value, found[ALBIC, "batch_time_vs_even"].n) == (0.5, 1)
    assert (ALBIC, "batch_time_vs_wait_0") not in found
    times = found[ALBIC, "batch_time_s"]
    assert (times.value, times.low, times.high, times.n) == (4.0, 2.0, 6.0, 2)
    assert (found["even", "moves"].value, found["even", "moves"].holds) == (3.0, None)
    assert found[ALBIC, "moves"].holds and found[ALBIC, "evaluations_to_balance"].holds
    achieved = found[ALBIC, "achieved_vs_planned"]
    assert (round(achieved.value, 2), achieved.holds) == (1.15, True)


def test_rivals_are_spark_itself_and_an_even_spread() -> None:
    assert set(METHODS) == {ALBIC, "even", "spark_wait_3s", "spark_wait_0"}


def test_worst_drift_and_change_are_judged() -> None:
    rounds = [{ALBIC: Drifted(3.0, 8), "even": Drifted(6.0, 0)}, {ALBIC: Drifted(4.8, 2), "even": Drifted(6.0, 0)}, {}]
    found = {(r.method, r.figure): r for r in drift_records(rounds)}
    assert (round(found[ALBIC, "batch_time_vs_even"].value, 2), found[ALBIC, "batch_time_vs_even"].holds) == (
        0.8,
        False,
    )
    assert (found[ALBIC, "moves"].value, found[ALBIC, "moves"].holds) == (8, True)
    resizes = {(r.scenario, r.figure): r for r in resize_records([(Resized(1, 1.5), Resized(3, 2.5))])}
    assert resizes["scale_out", "evaluations_to_balance"].holds and resizes["scale_out", "longest_batch_ratio"].holds
    assert not resizes["scale_in", "evaluations_to_balance"].holds
    assert not list(resize_records([]))
