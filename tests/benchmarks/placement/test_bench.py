from __future__ import annotations

from dataclasses import replace

from benchmarks.placement.bench import skew_records
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
