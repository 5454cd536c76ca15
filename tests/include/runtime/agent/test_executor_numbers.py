"""Numbers of executors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.runtime.agent.allocation import Executor
from millrace.runtime.agent.executor_numbers import ExecutorNumbers, staying


def numbers(executors: ExecutorNumbers, ids: Sequence[int]) -> dict[int, str]:
    return {number: e.id for number, e in executors.update([Executor(str(id), "host") for id in ids]).items()}


def test_executor_that_replaces_a_lost_one_takes_its_number() -> None:
    executors = ExecutorNumbers()
    assert numbers(executors, [0, 1, 2]) == {0: "0", 1: "1", 2: "2"}
    assert numbers(executors, [0, 2]) == {0: "0", 2: "2"}
    assert numbers(executors, [0, 2, 3, 4]) == {0: "0", 1: "3", 2: "2", 3: "4"}
    assert [executors.number(id) for id in ("1", "3", "9")] == [1, 1, None]


@given(st.lists(st.sets(st.integers(0, 6)), max_size=8))
def test_no_two_present_executors_share_a_number(steps: list[set[int]]) -> None:
    executors, gone, before = ExecutorNumbers(), set[int](), dict[str, int]()
    for ids in steps:
        present = sorted(ids - gone)  # Spark gives no id twice
        found = numbers(executors, present)
        assert sorted(found.values(), key=int) == [str(id) for id in present]
        assert all(before.get(id, number) == number for number, id in found.items())
        before = {id: number for number, id in found.items()}
        gone |= set(range(7)) - ids if present else set()


@pytest.mark.parametrize(
    ("placement", "count", "stay"),
    [
        ({}, 2, {0, 1}),
        ({"q/0": (2, 2, 3)}, 2, {2, 3}),
        ({"q/0": (2, -1, 2)}, 2, {0, 2}),
        ({"q/0": (0, 1, 2, 3)}, 2, {0, 1}),
        ({"q/0": (7,)}, 9, {0, 1, 2, 3}),
    ],
)
def test_workers_named_by_a_placement_stay_first(
    placement: dict[str, tuple[int, ...]], count: int, stay: set[int]
) -> None:
    assert staying(range(4), placement, count) == stay
