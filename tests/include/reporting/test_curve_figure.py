"""The picture of a change."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.decision import Action, Decision, Proposal
from millrace.model.deployment import Change
from millrace.model.objective import Bounds, Objective
from millrace.model.signals import AppSignals, Capacity, OperatorSignals, Signals
from millrace.reporting.curve_figure import curve_figure, subject_of

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
CURVE = {
    "parallelism": tuple(float(p) for p in range(1, 41)),
    "mean": tuple(100.0 * p**0.9 for p in range(1, 41)),
    "low": tuple(90.0 * p**0.9 for p in range(1, 41)),
    "high": tuple(1e6 * p for p in range(1, 41)),
}
TRAINING = {"parallelism": (2.0, 4.0), "throughput": (190.0, 350.0), "noise": (4.0, 7.0)}
SLOTS = Change("delays", "slots", 2, 6)
COUNT = Change("delays", "parallelism", 2, 5, "count")
SINK = Change("delays", "parallelism", 1, 2, "sink")


def app(**known: Any) -> AppSignals:
    plain = AppSignals(
        "delays", 2, 2, False, 400.0, 200.0, 600, 5.0, 9, 8, 0.9, 0.5, 0.8, Capacity(2, 0.4, 200.0, 5, 9)
    )
    return replace(plain, **known)


def decision(proposal: Proposal, app: AppSignals, bounds: Bounds | None = None, target: float = 0.8) -> Decision:
    objective = Objective(target_utilisation=target, catch_up_s=60.0)
    signals = Signals("delays", NOON - timedelta(minutes=1), NOON, 7, 1, (app,), (), objective, bounds or Bounds(1, 40))
    return Decision("d", "delays", NOON, Action.APPLY, "under_provisioned", "Because.", signals, 1, (proposal,))


def proposal(*changes: Change, **more: Any) -> Proposal:
    return Proposal("flow", changes, "under_provisioned", "Because.", curve=CURVE, training=TRAINING, **more)


def labels(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_figure_of_a_change_shows_model_rates_and_choices() -> None:
    made = proposal(SLOTS)
    figure = curve_figure(decision(made, app()), made)
    # 400 + 600 / 60 rows/s to serve; linear: 2 slots do 200, so 410 / 0.8 = 512.5 take 5.1
    assert sorted(labels(figure)) == sorted(
        [
            "model",
            "band",
            "observed",
            "before: p = 2",
            "chosen: p = 6",
            "linear rule (DS2): p = 6",
            "rate to serve: 410 rows/s",
            "at 80% utilisation",
        ]
    )


def test_figure_of_several_operators_shows_the_first_and_names_it() -> None:
    measured = OperatorSignals("count", "count", 2, 150.0, None, 180.0)
    made = proposal(
        COUNT,
        SINK,
        predicted={"throughput_rows_per_s/count": 440.0, "utilisation_ratio/count": 0.9},
    )
    told = decision(made, app(operators=(measured,), capacity=None), target=1.0)
    figure = curve_figure(told, made)
    # the step is made for a rate of 0.9 * 440, not the 150 that got through: 396 / 90 = 4.4
    assert {"chosen: p = 5", "linear rule (DS2): p = 5", "rate to serve: 396 rows/s"} <= set(labels(figure))
    assert not any("utilisation" in label for label in labels(figure))
    assert figure is not None and figure.axes[0].get_title() == "delays/count (and 1 more): under_provisioned"


def test_figure_with_a_wide_band_still_shows_the_curve() -> None:
    made = proposal(SLOTS)
    figure = curve_figure(decision(made, app()), made)
    assert figure is not None
    assert figure.axes[0].get_ylim()[1] < 2 * 100 * 8**0.9
    assert figure.axes[0].get_xlim()[1] == 7.5


@pytest.mark.parametrize("curve", [{}, {"parallelism": (), "mean": ()}])
def test_figure_without_a_model_does_not_exist(curve: dict[str, tuple[float, ...]]) -> None:
    made = Proposal("ds2", (SLOTS,), "under_provisioned", "Because.", curve=curve)
    assert curve_figure(decision(made, app()), made) is None


@pytest.mark.parametrize(
    "known", [{"arrival_rows_per_s": None}, {"capacity": None}, {"app": "other"}], ids=["rate", "throughput", "app"]
)
def test_figure_is_drawn_without_unknown_values(known: dict[str, Any]) -> None:
    made = proposal(SLOTS)
    figure = curve_figure(decision(made, app(**known)), made)
    assert "model" in labels(figure) and not any("DS2" in label for label in labels(figure))


def test_figure_without_change_shows_only_the_model() -> None:
    held = proposal()
    assert sorted(labels(curve_figure(decision(held, app()), held))) == ["band", "model", "observed"]
    made = proposal(SLOTS)
    assert "model" in labels(curve_figure(replace(decision(made, app()), signals=None), made))


@settings(deadline=None)
@given(st.floats(0, 1e6), st.floats(1e-3, 1e6), st.integers(1, 50), st.integers(1, 20), st.integers(20, 100))
def test_linear_rule_is_the_lowest_p_that_it_allows(
    rate: float, throughput: float, at: int, low: int, high: int
) -> None:
    made = proposal(SLOTS)
    measured = app(arrival_rows_per_s=rate, backlog_rows=0, capacity=Capacity(at, 0.1, throughput, 1.0, 5))
    found = subject_of(decision(made, measured, Bounds(low, high), target=1.0), made)
    assert found is not None
    if rate == 0:
        assert found.linear is None
        return
    assert found.linear is not None and low <= found.linear <= high
    needed = at * rate / throughput
    if found.linear < high:
        assert found.linear >= needed * (1 - 1e-6)
    if found.linear > low:
        assert found.linear < needed + 1 + 1e-6 * needed
    assert math.isfinite(found.linear)
