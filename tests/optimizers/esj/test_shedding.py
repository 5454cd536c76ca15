from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.optimizers.esj.shedding import EXPONENT, round_to_step, shed_factor

FORMS = tuple(EXPONENT)
BEGINS = st.floats(0.01, 0.99)
SHARES = st.floats(0, 1)
STEPS = st.floats(0.001, 0.5)


@given(st.floats(0, 3), BEGINS, SHARES, st.sampled_from(FORMS))
def test_shed_factor_is_a_share_that_starts_at_tau2(utilisation: float, begin: float, base: float, form: str) -> None:
    found = shed_factor(utilisation, begin, base, form)
    assert 0 <= found <= 1
    assert found == 0 if utilisation < begin else found >= base
    assert utilisation < 1 or found == 1


@given(st.lists(st.floats(0, 1.2), min_size=2, max_size=2), BEGINS, SHARES, st.sampled_from(FORMS))
def test_factor_when_utilisation_rises_then_never_falls(
    pair: list[float], begin: float, base: float, form: str
) -> None:
    low, high = sorted(pair)
    assert shed_factor(low, begin, base, form) <= shed_factor(high, begin, base, form)


@given(st.floats(0, 1), BEGINS, SHARES)
def test_factor_when_quadratic_then_sheds_no_more_than_the_linear_one(
    utilisation: float, begin: float, base: float
) -> None:
    linear, quadratic = (shed_factor(utilisation, begin, base, form) for form in FORMS)
    assert quadratic <= linear


@pytest.mark.parametrize(
    ("form", "utilisation", "factor"),
    [("linear", 0.8, 0.1), ("linear", 0.9, 0.55), ("quadratic", 0.8, 0.1), ("quadratic", 0.9, 0.325)],
)
def test_factor_when_calculated_by_hand_then_is_the_same(form: str, utilisation: float, factor: float) -> None:
    assert shed_factor(utilisation, 0.8, 0.1, form) == pytest.approx(factor)


@pytest.mark.parametrize("form", FORMS)
def test_factor_when_utilisation_is_beyond_all_bounds_then_is_one(form: str) -> None:
    assert shed_factor(1e300, 0.8, 0.1, form) == 1


@given(SHARES, SHARES, STEPS)
def test_rounded_step_lies_within_one_of_the_factor_and_stays(factor: float, current: float, step: float) -> None:
    found = round_to_step(factor, current, step)
    assert 0 <= found <= 1
    assert abs(found - factor) <= step + 1e-9
    assert round_to_step(factor, found, step) == found


@given(SHARES, STEPS)
def test_rounding_keeps_nothing_and_everything_exact(current: float, step: float) -> None:
    assert round_to_step(0.0, current, step) == 0.0
    assert round_to_step(1.0, current, step) == 1.0


def test_step_when_the_factor_moves_by_less_then_nothing_changes() -> None:
    assert [round_to_step(factor, 0.3, 0.05) for factor in (0.26, 0.3, 0.34)] == [0.3] * 3
    assert round_to_step(0.36, 0.3, 0.05) == 0.4
