"""Where blocks come to rest."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.joins.mp2pf.forwarding import resting_place
from include.model.errors import MillraceError

SIDES = st.sampled_from(["left", "right"])


def apart(sizes):
    return max((abs(a - b) for a, b in pairwise(sizes)), default=0)


@given(st.integers(1, 6), st.integers(1, 5), st.lists(SIDES, max_size=60))
def test_resting_place_when_blocks_enter_from_any_side_then_neighbours_stay_a_block_apart(workers, block, sides):
    sizes = [0] * workers

    for side in sides:
        sizes[resting_place(sizes, side, block)] += block

        assert apart(sizes) <= block


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), SIDES, st.integers(1, 9))
def test_resting_place_when_neighbours_were_a_block_apart_then_they_still_are(sizes, side, block):
    before = apart(sizes)

    sizes[resting_place(sizes, side, block)] += block

    assert apart(sizes) <= max(before, block)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 5))
def test_resting_place_when_mirrored_then_is_mirrored(sizes, block):
    mirrored = len(sizes) - 1 - resting_place(sizes[::-1], "right", block)

    assert resting_place(sizes, "left", block) == mirrored


def test_resting_place_when_the_chain_is_empty_then_is_the_far_end():
    assert resting_place([0, 0, 0], "left", 4) == 2
    assert resting_place([0, 0, 0], "right", 4) == 0
    assert resting_place([0, 4, 4], "left", 4) == 0


@pytest.mark.parametrize(("sizes", "block"), [([], 1), ([1, -1], 1), ([1], 0)])
def test_resting_place_when_asked_nonsense_then_names_it(sizes, block):
    with pytest.raises(MillraceError, match=r"sizes|block"):
        resting_place(sizes, "left", block)
