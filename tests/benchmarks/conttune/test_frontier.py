from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.conttune.frontier import Point, at, compared, points
from benchmarks.conttune.methods import FLOW_FRONTIER
from benchmarks.record import Record

FIGURES = ("core_seconds_vs_oracle", "reconfigurations_per_tuning", "bad_per_tuning")


def measured(scenario: str, **methods: tuple[float, float, float]) -> list[Record]:
    return [
        Record("conttune", scenario, method.replace("__", "."), figure, value, "")
        for method, values in methods.items()
        for figure, value in zip(FIGURES, values, strict=True)
    ]


def by_figure(records: list[Record]) -> dict[str, Record]:
    return {r.figure: r for r in records}


FLOW = {"flow": (1.0, 1.0, 0.04), "flow_r10": (1.2, 0.8, 0.0)}


def test_points_when_measured_then_rise_in_core_seconds() -> None:
    records = measured("paper", flow_r10=(1.2, 0.8, 0.0), flow=(1.0, 1.0, 0.04), ds2=(0.9, 2.0, 1.0))
    assert [p.method for p in points(records, "paper", FLOW_FRONTIER)] == ["flow", "flow_r10"]


def test_at_when_cores_are_between_two_settings_then_interpolates() -> None:
    found = at([Point("a", 1.0, 1.0, 0.04), Point("b", 1.2, 0.8, 0.0)], 1.05)
    assert found is not None
    assert (found.reconfigurations, found.bad) == pytest.approx((0.95, 0.03))


def test_at_when_cores_are_out_of_range_then_is_the_largest_above_and_nothing_below() -> None:
    frontier = [Point("a", 1.0, 1.0, 0.04), Point("b", 1.2, 0.8, 0.0)]
    assert at(frontier, 5.0) == frontier[1]
    assert at(frontier, 0.9) is None


@given(st.lists(st.floats(0.5, 3), min_size=1, max_size=6, unique=True), st.floats(0.4, 3.5))
def test_at_when_there_is_an_answer_then_it_never_uses_more_cores(cores: list[float], asked: float) -> None:
    found = at([Point("", c, 1 / c, 0.0) for c in sorted(cores)], asked)
    assert (found is None) == (asked < min(cores))
    assert found is None or found.cores <= asked


def test_compared_when_flink_is_worse_at_its_cores_then_targets_hold() -> None:
    records = measured("paper", **FLOW, **{"flink_0__9_0__2": (1.1, 1.4, 0.2)})
    found = by_figure(list(compared(records, "paper")))
    assert found["frontier_dominated"].value == 0
    calm = found["reconfigurations_at_flink_0.9_0.2"]
    assert (calm.value, calm.target, calm.holds) == (pytest.approx(0.9), "<1.4", True)
    assert found["bad_at_flink_0.9_0.2"].holds


def test_compared_when_flink_is_better_throughout_then_says_so() -> None:
    records = measured("paper", **FLOW, **{"flink_0__9_0__2": (1.0, 0.5, 0.01)})
    found = by_figure(list(compared(records, "paper")))
    assert found["frontier_dominated"].value == 1
    assert not found["reconfigurations_at_flink_0.9_0.2"].holds and not found["bad_at_flink_0.9_0.2"].holds


def test_compared_when_neither_has_a_bad_choice_then_zero_is_few_enough() -> None:
    records = measured("paper", **FLOW, **{"flink_0__7_0__3": (1.5, 0.9, 0.0)})
    found = by_figure(list(compared(records, "paper")))["bad_at_flink_0.7_0.3"]
    assert (found.target, found.holds) == ("<=0", True)


def test_compared_when_flink_was_not_measured_then_reports_only_flows_target() -> None:
    assert not list(compared(measured("paper", **FLOW), "paper"))
    found = by_figure(list(compared(measured("etl", **FLOW), "etl")))
    assert (found["bad_at_1.18_cores"].value, found["bad_at_1.18_cores"].holds) == (pytest.approx(0.004), False)
