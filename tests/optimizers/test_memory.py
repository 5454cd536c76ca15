from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.optimizers.memory import items, mapping, number, numbers, whole

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(value=ANYTHING)
def test_any_stored_value_is_read_as_expected_or_as_nothing(value: Any) -> None:
    assert all(isinstance(name, str) for name in mapping(value))
    assert isinstance(items(value), tuple)
    assert all(math.isfinite(v) and v >= 0 for v in numbers(value, 0.0).values())
    found = number(value)
    assert found is None or math.isfinite(found)
    assert whole(value, 1) >= 1


@pytest.mark.parametrize(("value", "expected"), [(3, 3.0), (0.5, 0.5), (-1, None), (True, None), ("3", None)])
def test_number_when_below_the_least_or_none_then_is_none(value: Any, expected: float | None) -> None:
    assert number(value, 0.0) == expected


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (0, 1), (2.0, 1), (True, 1), (None, 1)])
def test_whole_of_none_is_the_least(value: Any, expected: int) -> None:
    assert whole(value, 1) == expected
