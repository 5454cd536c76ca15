from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.model.errors import MillraceError
from optimizers.esj.thresholds import Thresholds, thresholds

NAMES = ("tau0", "tau1", "tau2", "tau3")


def test_thresholds_when_nothing_is_given_then_follow_the_papers_advice() -> None:
    found = thresholds({})
    assert (found.tau0, found.tau1, found.tau2) == (0.2, 0.4, 0.8)
    assert found.tau3 == pytest.approx(0.95)
    assert found == Thresholds()


@given(st.floats(0.001, 0.999))
def test_thresholds_when_only_tau2_is_given_then_the_others_are_in_order_around_it(tau2: float) -> None:
    found = thresholds({"tau2": tau2})
    assert 0 < found.tau0 < found.tau1 == tau2 / 2 < tau2 < found.tau3 <= 1


@given(st.lists(st.floats(0.01, 1), min_size=4, max_size=4))
def test_thresholds_when_given_in_any_order_then_only_the_ascending_one_is_taken(values: list[float]) -> None:
    given_ = dict(zip(NAMES, values, strict=True))
    if all(a < b for a, b in itertools.pairwise(values)):
        assert thresholds(given_) == Thresholds(*values)
        return
    with pytest.raises(MillraceError, match=r"join\.options\.tau0\.\.tau3: got 'tau0=.*ascending order"):
        thresholds(given_)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0, -0.1, 1.1, math.nan, math.inf, True, "0.5", None])
def test_thresholds_when_one_is_out_of_range_then_its_name_and_range_are_told(name: str, value: object) -> None:
    with pytest.raises(MillraceError, match=rf"join\.options\.{name}: .*a number in \(0, 1\]"):
        thresholds({name: value})
