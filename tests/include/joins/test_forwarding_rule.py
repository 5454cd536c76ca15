"""When a worker passes blocks on, and where they come to rest."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.joins.forwarding_rule import blocks_to_forward, forwards, resting_place
from millrace.model.errors import MillraceError

SIDES: Any = st.sampled_from(["left", "right"])
Side = Literal["left", "right"]


def apart(sizes: list[int]) -> int:
    return max((abs(a - b) for a, b in pairwise(sizes)), default=0)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 40))
def test_blocks_to_forward_are_those_of_one_after_the_other(own: int, successor: int, block: int) -> None:
    count, left, there = 0, own, successor
    while forwards(left, there, block):
        count, left, there = count + 1, left - block, there + block
    assert blocks_to_forward(own, successor, block) == count and left >= 0


@given(st.integers(1, 6), st.integers(1, 5), st.lists(SIDES, max_size=60))
def test_resting_place_keeps_neighbours_within_a_block_from_any_side(
    workers: int, block: int, sides: list[Side]
) -> None:
    sizes = [0] * workers
    for side in sides:
        sizes[resting_place(sizes, side, block)] += block
        assert apart(sizes) <= block


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), SIDES, st.integers(1, 9))
def test_resting_place_keeps_neighbours_a_block_apart(sizes: list[int], side: Side, block: int) -> None:
    before = apart(sizes)
    sizes[resting_place(sizes, side, block)] += block
    assert apart(sizes) <= max(before, block)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 5))
def test_resting_place_when_mirrored_then_is_mirrored(sizes: list[int], block: int) -> None:
    mirrored = len(sizes) - 1 - resting_place(sizes[::-1], "right", block)
    assert resting_place(sizes, "left", block) == mirrored


def test_resting_place_when_the_chain_is_empty_then_is_the_far_end() -> None:
    assert resting_place([0, 0, 0], "left", 4) == 2
    assert resting_place([0, 0, 0], "right", 4) == 0
    assert resting_place([0, 4, 4], "left", 4) == 0


@pytest.mark.parametrize(("sizes", "block"), [([], 1), ([1, -1], 1), ([1], 0)])
def test_resting_place_when_input_is_invalid_then_names_it(sizes: list[int], block: int) -> None:
    with pytest.raises(MillraceError, match=r"sizes|block"):
        resting_place(sizes, "left", block)
