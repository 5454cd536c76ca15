"""Many tasks over one pair of streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.esj.wire import settle
from include.joins.mp2pf.chain import Chain
from include.joins.mp2pf.rules import Rules
from include.joins.mp2pf.tasks import Task, results, shared_rules
from include.model.errors import MillraceError

TIMES = st.lists(st.integers(0, 12), min_size=1, max_size=12).map(sorted)
TASKS = [
    Task("next", 0, 3, lambda r, s: True),
    Task("before", -4, -1, lambda r, s: r[1] % 2 == s[1] % 2),
    Task("exact", 0, 0, lambda r, s: True),
]


@given(TIMES, TIMES, st.integers(1, 4), st.integers(1, 3))
def test_tasks_when_they_share_a_chain_then_each_finds_what_it_would_alone(times_r, times_s, workers, block):
    both = [[(float(t), i) for i, t in enumerate(times)] for times in (times_r, times_s)]
    chain = Chain(shared_rules(TASKS), workers, block)
    for stream in (0, 1):
        chain.feed(stream, both[stream], both[stream][-1][0])
        chain.flush(stream)
    settle(chain)

    found = results(TASKS, chain.met)

    for task in TASKS:
        assert sorted(found[task.name]) == [(r, s) for r in both[0] for s in both[1] if task.wants(r, s)]


def test_shared_rules_when_windows_differ_then_reach_as_far_as_any():
    assert shared_rules(TASKS) == Rules(3, 4)
    assert shared_rules([Task("far", 2, 5, lambda r, s: True)]) == Rules(5, 0)


def test_tasks_when_there_are_none_or_one_allows_no_time_then_says_so():
    with pytest.raises(MillraceError, match="tasks"):
        shared_rules([])
    with pytest.raises(MillraceError, match="after"):
        Task("never", 3, 2, lambda r, s: True)
