"""When a tuple can find no more partners, and which tasks are impossible."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.errors import MillraceError
from millrace.model.join import MP2PF, JoinDefinition, JoinStream, JoinTask
from tests.include.joins.tuples import SECOND, brute_force, plan

SPAN = st.tuples(st.integers(-10, 10), st.integers(0, 15)).map(lambda s: (s[0], s[0] + s[1]))
SIDES = st.sampled_from([("r", "s"), ("s", "r"), ("r", "r")])


@given(SIDES, SPAN, st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 5))
def test_oldest_live_keeps_every_tuple_that_a_later_one_could_meet(sides, span, clock_r, clock_s, late) -> None:
    task = JoinTask("t", *sides, (), *span)
    found = plan(Path(), task, late_s=late).oldest_live({"r": clock_r * SECOND, "s": clock_s * SECOND})
    clocks = {"r": clock_r, "s": clock_s}
    for stream in set(sides):
        bound = found[stream]
        assert bound is not None
        seconds = range(-60, 60)
        for old in seconds:
            meets = any(
                partner >= clocks[other] - late
                and (
                    brute_force(task, [(old,)], [(partner,)])
                    if side == 0
                    else brute_force(task, [(partner,)], [(old,)])
                )
                for side, (own, other) in enumerate((sides, sides[::-1]))
                if own == stream
                for partner in seconds
            )
            assert not meets or old * SECOND >= bound
            assert meets or old * SECOND < bound or sides == ("r", "r") or old > clocks[sides[1]]


def test_oldest_live_when_a_partner_was_never_seen_then_keeps_everything() -> None:
    task = JoinTask("t", "r", "s", (), -3, 3)
    assert plan(Path(), task).oldest_live({"r": 5 * SECOND}) == {"r": None, "s": 2 * SECOND}


def test_sides_let_the_streams_of_each_task_enter_at_different_ends() -> None:
    names = ("a", "b", "c", "d")
    streams = tuple(JoinStream(name, "", "t", {"k": "k"}) for name in names)

    def sides(*pairs: str) -> dict[str, int]:
        tasks = tuple(JoinTask(pair, pair[0], pair[1], (), 0, 0) for pair in pairs)
        return JoinDefinition(streams, tasks, "r", "c", 100, MP2PF).sides()

    assert sides("ab", "ca", "db") == {"a": 0, "b": 1, "c": 1, "d": 0}
    assert sides("ab", "cd") == {"a": 0, "b": 1, "c": 0, "d": 1}
    assert sides("dc", "cb", "ba") == {"a": 0, "b": 1, "c": 0, "d": 1}
    for impossible in (("aa",), ("ab", "bc", "ca")):
        with pytest.raises(MillraceError, match=r"join\.forwarding.*broadcast"):
            sides(*impossible)


@pytest.mark.parametrize(("on", "key"), [((("key", "nowhere"),), "tasks.t.on"), ((("key", "other"),), "tasks.t.on")])
def test_check_when_key_columns_cannot_be_compared_then_says_which(on, key) -> None:
    found = plan(Path(), replace(JoinTask("t", "r", "s", (), -1, 1), on=on))
    with pytest.raises(MillraceError) as raised:
        found.check_keys()
    assert raised.value.key == key
