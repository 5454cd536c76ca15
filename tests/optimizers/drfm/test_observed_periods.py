from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.observed_periods import first_period, new_periods
from tests.optimizers.drfm.stream_counts import counts

FIRST = first_period(counts({}))


def test_new_periods_have_known_streams_in_alphabetical_order() -> None:
    observed = new_periods(counts({"b": [1, 2], "d": [0, 3]}), ["c", "a"], FIRST)
    assert observed.streams == ("a", "b", "c", "d") and observed.first == FIRST
    assert observed.rows.tolist() == [[0, 1, 0, 0], [0, 2, 0, 3]]


def test_new_periods_when_periods_are_known_then_only_new_ones_are_left() -> None:
    measured = counts({"a": [1, 2, 3]})
    assert new_periods(measured, [], FIRST + 1).rows.tolist() == [[2], [3]]
    assert new_periods(measured, [], FIRST + 1).first == FIRST + 1
    assert new_periods(measured, [], FIRST - 5).first == FIRST
    assert new_periods(measured, [], FIRST + 3).rows.shape == (0, 1)


def test_first_period_of_hourly_periods_counts_hours_since_1970() -> None:
    assert FIRST % 24 == 0 and first_period(counts({}, first=6)) % 24 == 6


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"rows": (1, -1)}, "streams.b.rows"),
        ({"rows": (1, None)}, "streams.b.rows"),
        ({"rows": (1,)}, "streams"),
        ({"period": (0, 1)}, "streams.period"),
        ({"period": (0, -1)}, "streams.period"),
        ({"index": (0, 2)}, "streams.index"),
        ({"stream": ("a", "a")}, "streams.stream"),
    ],
)
def test_new_periods_when_the_telemetry_is_broken_then_says_where(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(MillraceError) as refused:
        new_periods(replace(counts({"a": [1], "b": [1]}), **changes), [], FIRST)
    assert refused.value.key == key
