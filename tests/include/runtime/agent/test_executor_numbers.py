"""Numbers of executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.runtime.agent.allocation import Executor
from millrace.runtime.agent.executor_numbers import ExecutorNumbers, staying


def numbers(
    executors: ExecutorNumbers, ids: Sequence[int], placement: Mapping[str, tuple[int, ...]] | None = None
) -> dict[int, str]:
    present = executors.update([Executor(str(id), "host") for id in ids], placement or {})
    return {number: executor.id for number, executor in present.items()}


def test_executor_that_replaces_a_lost_one_takes_its_number() -> None:
    executors = ExecutorNumbers()
    assert numbers(executors, [0, 1, 2]) == {0: "0", 1: "1", 2: "2"}
    assert numbers(executors, [0, 2]) == {0: "0", 2: "2"}
    assert numbers(executors, [0, 2, 3, 4]) == {0: "0", 1: "3", 2: "2", 3: "4"}
    assert [executors.number(id) for id in ("1", "3", "9")] == [1, 1, None]


def test_executors_of_a_new_driver_take_the_numbers_in_the_placement() -> None:
    placement = {"q/0": (0, 2, -1, 2), "r/0": (2, 5)}
    assert numbers(ExecutorNumbers(), [0, 1], placement) == {0: "0", 2: "1"}
    assert numbers(ExecutorNumbers(), [0, 1, 2, 3], placement) == {0: "0", 1: "3", 2: "1", 5: "2"}


def test_replacement_takes_the_number_in_the_placement_even_if_a_lower_one_is_free() -> None:
    executors, placement = ExecutorNumbers(), {"q/0": (0, 2)}
    numbers(executors, [0, 1], placement)
    assert numbers(executors, [0], placement) == {0: "0"}
    assert numbers(executors, [0, 2], placement) == {0: "0", 2: "2"}


@given(
    steps=st.lists(st.sets(st.integers(0, 6)), max_size=8),
    placement=st.dictionaries(st.sampled_from("qr"), st.lists(st.integers(-1, 9)).map(tuple)),
)
def test_no_two_present_executors_share_a_number(steps: list[set[int]], placement: dict[str, tuple[int, ...]]) -> None:
    executors, gone, before = ExecutorNumbers(), set[int](), dict[str, int]()
    for ids in steps:
        present = sorted(ids - gone)  # Spark gives no id twice
        found = numbers(executors, present, placement)
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
        ({"q/0": (2, 3, 2, 3), "former/0": (0, 1, 2, 3)}, 2, {2, 3}),
    ],
)
def test_executors_with_the_most_partitions_in_a_placement_stay(
    placement: dict[str, tuple[int, ...]], count: int, stay: set[int]
) -> None:
    assert staying(range(4), placement, count) == stay
