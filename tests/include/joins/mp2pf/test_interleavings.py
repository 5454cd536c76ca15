"""Safety and progress over random interleavings, shrunk to the shortest failing one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.esj.interleavings import METHODS, run_chunk
from benchmarks.esj.schedule import play, random_course
from millrace.joins.mp2pf.rules import Rules
from tests.examples import examples

PICKS = st.lists(st.integers(0, 2**20), max_size=80)
WINDOWS = st.sampled_from([0, 1, 3, 8, 1000])


def choosing(picks):
    """The given picks first, then any: a short list is a simple course."""
    rest, after = iter(picks), random.Random(len(picks))
    return lambda n: next(rest, after.randrange(2**20)) % n


@examples(400)
@given(PICKS, WINDOWS, WINDOWS)
def test_lost_messages_and_changing_workers_still_pair_once(picks, window_r, window_s):
    choose = choosing(picks)

    outcome = play(random_course(choose, 24), Rules(window_r, window_s), choose)

    assert not outcome.stuck
    assert (outcome.lost, outcome.doubled) == (0, 0)
    assert outcome.left == 0
    assert outcome.over == 0


@pytest.mark.parametrize("thousand", range(3))
def test_courses_when_drawn_at_random_then_every_pair_meets_once(thousand):
    found = run_chunk(METHODS["ours"], range(1000 * thousand, 1000 * (thousand + 1)))

    assert found.pairs > 0
    assert (found.lost, found.doubled, found.over, found.left, found.stuck) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        (Rules(9, 9, copies="both streams"), "doubled"),
        (Rules(9, 9, copies="no stream"), "lost"),
        (Rules(9, 9, sizes="reported"), "over"),
    ],
)
def test_literal_rules_when_run_then_each_fails_in_its_own_way(rules, fault):
    faults = dict.fromkeys(("lost", "doubled", "over"), 0)
    for seed in range(150):
        rng = random.Random(seed)
        outcome = play(random_course(rng.randrange, 30, disturbed=False), rules, rng.randrange)
        for name in faults:
            faults[name] += getattr(outcome, name) > 0

    assert faults.pop(fault) > 0
    assert not any(faults.values())
