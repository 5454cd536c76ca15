"""Where blocks come to rest, and several tasks on one pair of streams."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.esj.wire import settle
from millrace.joins.mp2pf.chain import Chain
from millrace.joins.mp2pf.rules import Rules, Task, resting_place, results, shared_rules
from millrace.model.errors import MillraceError

SIDES = st.sampled_from(["left", "right"])


def apart(sizes):
    return max((abs(a - b) for a, b in pairwise(sizes)), default=0)


@given(st.integers(1, 6), st.integers(1, 5), st.lists(SIDES, max_size=60))
def test_resting_place_keeps_neighbours_within_a_block_from_any_side(workers, block, sides):
    sizes = [0] * workers

    for side in sides:
        sizes[resting_place(sizes, side, block)] += block

        assert apart(sizes) <= block


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), SIDES, st.integers(1, 9))
def test_resting_place_keeps_neighbours_a_block_apart(sizes, side, block):
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
def test_resting_place_when_input_is_invalid_then_names_it(sizes, block):
    with pytest.raises(MillraceError, match=r"sizes|block"):
        resting_place(sizes, "left", block)


TIMES = st.lists(st.integers(0, 12), min_size=1, max_size=12).map(sorted)
TASKS = [
    Task("next", 0, 3, lambda r, s: True),
    Task("before", -4, -1, lambda r, s: r[1] % 2 == s[1] % 2),
    Task("exact", 0, 0, lambda r, s: True),
]


@given(TIMES, TIMES, st.integers(1, 4), st.integers(1, 3))
def test_tasks_sharing_a_chain_match_the_same_pairs_as_each_alone(times_r, times_s, workers, block):
    both = [[(float(t), i) for i, t in enumerate(times)] for times in (times_r, times_s)]
    chain = Chain(shared_rules(TASKS), workers, block)
    for stream in (0, 1):
        chain.feed(stream, both[stream], both[stream][-1][0])
        chain.flush(stream)
    settle(chain)

    found = results(TASKS, chain.met)

    for task in TASKS:
        assert sorted(found[task.name]) == [(r, s) for r in both[0] for s in both[1] if task.wants(r, s)]


def test_shared_rules_when_windows_differ_then_reach_as_far_as_the_widest():
    assert shared_rules(TASKS) == Rules(3, 4)
    assert shared_rules([Task("far", 2, 5, lambda r, s: True)]) == Rules(5, 0)


def test_tasks_when_empty_or_without_time_then_says_so():
    with pytest.raises(MillraceError, match="tasks"):
        shared_rules([])
    with pytest.raises(MillraceError, match="after"):
        Task("never", 3, 2, lambda r, s: True)
