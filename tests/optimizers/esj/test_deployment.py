from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.model.errors import MillraceError
from optimizers.esj.deployment import initial_workers, workers_for


@pytest.mark.parametrize(
    ("rate", "window_s", "capacity", "target", "workers"),
    [
        (100.0, 60.0, 1000, 0.4, 15),
        (100.1, 60.0, 1000, 0.4, 16),
        (0.3, 10.0, 10, 0.3, 1),  # 3 / 3.0 in tenths; in binary fractions more than 1
        (0.1, 3.0, 1, 0.1, 3),  # 0.1 * 3.0 is more than 0.3
        (0.7, 0.1, 1, 0.07, 1),
        (0.0, 60.0, 1000, 0.4, 1),
        (5.0, 0.0, 1000, 0.4, 1),
    ],
)
def test_workers_when_the_quotient_is_whole_then_it_is_exact(
    rate: float, window_s: float, capacity: int, target: float, workers: int
) -> None:
    assert initial_workers(rate, window_s, capacity, target) == workers


@given(st.decimals(0, 10_000, places=2), st.integers(0, 5000), st.integers(1, 10_000), st.decimals("0.01", 1, places=2))
def test_workers_when_load_is_shared_among_them_then_no_fewer_stay_at_the_target(
    rate: object, window_s: int, capacity: int, target: object
) -> None:
    found = initial_workers(float(str(rate)), window_s, capacity, float(str(target)))
    load = Fraction(str(rate)) * window_s / (capacity * Fraction(str(target)))
    assert found >= max(1, load)
    assert found - 1 < max(1, load)


@given(st.integers(0, 10**9), st.integers(1, 10**6), st.floats(0.01, 1))
def test_workers_when_found_for_tuples_then_are_those_of_the_same_rate(
    tuples: int, capacity: int, target: float
) -> None:
    assert workers_for(tuples, capacity, target) == initial_workers(tuples, 1.0, capacity, target)


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf, "many"])
def test_workers_when_the_rate_is_impossible_then_it_is_named(rate: float) -> None:
    with pytest.raises(MillraceError, match=r"join\.expected_rows_per_s"):
        initial_workers(rate, 60.0, 1000, 0.4)
