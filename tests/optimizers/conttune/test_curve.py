from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.optimizers.conformance.builders import observed
from millrace.optimizers.conformance.situations import histories
from millrace.optimizers.conttune.observed_levels import observed_levels, training_columns
from millrace.optimizers.conttune.surrogate import Curve, draw_curve, fit


def line(points: dict[int, float], p_max: int = 12, confidence: float = 1.0, variance: float = 0.0) -> Curve:
    known = observed_levels(observed(points), 5)
    return draw_curve(fit(training_columns(known)), known, p_max, confidence, variance)


@given(
    points=histories().filter(bool), confidence=st.floats(0, 1e6), variance=st.floats(0, 1e50), p_max=st.integers(1, 64)
)
@settings(deadline=None)
def test_curve_never_falls_and_its_bounds_are_finite_and_in_order(
    points: dict[int, list[float]], confidence: float, variance: float, p_max: int
) -> None:
    known = observed_levels(observed(points), 5)
    found = draw_curve(fit(training_columns(known)), known, p_max, confidence, variance)
    for values in (found.low, found.mean, found.high):
        assert np.isfinite(values).all() and (np.diff(values) >= 0).all()
    assert (found.low <= found.mean).all() and (found.mean <= found.high).all()
    assert {len(column) for column in found.columns().values()} == {p_max}


def test_curve_lets_more_slots_do_no_less_than_fewer() -> None:
    falling = {4: [400.0] * 9, 8: [480.0] * 9, 16: [240.0] * 9}
    known = observed_levels(observed(falling), 9)
    model = fit(training_columns(known))
    plain, found = model.predict(range(1, 17))[0], draw_curve(model, known, 16, 1.0)
    assert (np.diff(plain) < 0).any()
    assert found.mean == pytest.approx(np.maximum.accumulate(plain))


def test_curve_is_linear_beyond_levels_that_scaled_better() -> None:
    found = line({1: 100.0, 2: 300.0})
    assert found.mean[11] == pytest.approx(300.0 * 12 / 2)
    assert (found.mean[2:] <= 300.0 * np.arange(3, 13) / 2 + 1e-9).all()


def test_at_a_level_beyond_the_curve_is_its_end() -> None:
    found = line({1: 100.0}, p_max=4)
    assert found.at(4) == found.at(90) == found.mean[3]


def test_least_is_the_smallest_whose_lower_bound_is_enough() -> None:
    found = line({1: 100.0, 4: 325.0, 8: 580.0})
    for rate in (50.0, 200.0, 400.0, 600.0):
        p = found.least(np.full(12, rate))
        assert p is not None and found.low[p - 1] >= rate
        assert p == 1 or found.low[p - 2] < rate
    assert found.least(np.full(12, 1e9)) is None


def test_least_compares_each_level_with_its_own_requirement() -> None:
    found = line({1: 100.0, 4: 325.0})
    required = np.full(12, 1e9)
    required[7] = 1.0
    assert found.least(required) == 8


def test_bounds_widen_with_confidence_and_an_unsure_need() -> None:
    plain = line({1: 100.0, 4: 325.0})
    for wider in (line({1: 100.0, 4: 325.0}, confidence=2.0), line({1: 100.0, 4: 325.0}, variance=0.01)):
        assert (wider.low < plain.low).all() and (wider.high > plain.high).all()
        assert wider.mean == pytest.approx(plain.mean)
