"""The effective slots of a stage with this number of tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.objective import Bounds
from millrace.optimizers.conttune.waves import effective, level


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [(8, [1, 2, 3, 4, 4, 4, 4, 8, 8, 8]), (3, [1, 2, 3, 3, 3, 3, 3, 3, 3, 3]), (None, list(range(1, 11)))],
)
def test_effective_slots_of_one_to_ten_slots(tasks: int | None, expected: list[int]) -> None:
    assert [effective(p, tasks) for p in range(1, 11)] == expected


def test_level_is_an_allowed_one_that_does_the_wanted_work() -> None:
    assert [level(p, 8, Bounds(2, 8)) for p in range(1, 10)] == [2, 2, 3, 4, 8, 8, 8, 8, 8]
    assert [level(p, 12, Bounds(4, 12, step=4)) for p in (1, 5, 7, 12)] == [4, 8, 12, 12]
    assert level(8, 8, Bounds(1, 7)) == 4  # the most that any level may do


@given(slots=st.integers(1, 200), tasks=st.integers(1, 300), low=st.integers(1, 20), more=st.integers(0, 100))
def test_level_never_does_less_than_wanted_and_possible(slots: int, tasks: int, low: int, more: int) -> None:
    bounds = Bounds(low, low + more)
    chosen = level(slots, tasks, bounds)
    assert chosen in bounds
    assert effective(chosen, tasks) >= min(slots, effective(bounds.max_slots, tasks))
    turns = -(-tasks // chosen)
    assert chosen == low or -(-tasks // (chosen - 1)) > turns or effective(chosen - 1, tasks) < slots
