"""Lengths of time."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.windows.panes.sliding import MICROSECONDS, microseconds, text


@given(
    st.lists(st.tuples(st.integers(0, 999), st.sampled_from(sorted(MICROSECONDS)), st.booleans()), min_size=1),
    st.sampled_from(["", "interval ", "INTERVAL "]),
)
def test_microseconds_of_joined_terms_add_up(terms: list[tuple[int, str, bool]], prefix: str) -> None:
    written = " ".join(f"{n} {unit}{'s' if plural else ''}" for n, unit, plural in terms)
    assert microseconds("size", prefix + written) == sum(n * MICROSECONDS[unit] for n, unit, _ in terms)


@given(st.integers(0, 10**15))
def test_text_when_read_again_then_length_is_the_same(length: int) -> None:
    assert microseconds("size", text(length)) == length
    assert microseconds("size", timedelta(microseconds=length)) == length


def test_microseconds_when_units_are_ordered_then_each_is_longer() -> None:
    assert all(a < b for a, b in pairwise(MICROSECONDS.values()))
    assert microseconds("size", "1 hour -30 minutes") == microseconds("size", "30 minutes")


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("1.5 seconds", 1_500_000),
        (".25 second", 250_000),
        ("1 minute -0.5 seconds", 59_500_000),
        ("1.0000019 seconds", 1_000_001),  # as in Spark, which drops what is below a microsecond
    ],
)
def test_microseconds_of_seconds_with_decimals(written: str, length: int) -> None:
    assert microseconds("size", written) == length


@pytest.mark.parametrize(
    "bad", ["", "ten minutes", "1 month", "1 year", "5", "5 minutes ago", "1.5 minutes", "1.2.3 seconds", None, 5]
)
def test_microseconds_refuses_text_that_is_not_a_length(bad: str) -> None:
    with pytest.raises(MillraceError, match="week") as caught:
        microseconds("slide", bad)
    assert caught.value.key == "slide"
