"""What a worker keeps, in state that can be read again: tuples received, minus expired and handed-over ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.esj.local_join import State
from millrace.joins.blocks import Kept, pack_kept, unpack_kept
from millrace.joins.join_plan import TIME
from millrace.joins.window import MOST_SETS, Window
from tests.include.joins.tuples import ROWS, SCHEMA, SECOND, table

SCHEMAS = {0: SCHEMA, 1: SCHEMA}


def kept(rows: list[Any], shed: list[int]) -> Kept:
    return Kept(table(rows), np.array(shed, np.int64) * SECOND)


def ordered(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


GIVEN = st.lists(st.tuples(ROWS, st.lists(st.integers(-20, 20), max_size=6)), max_size=4)


@given(GIVEN, st.integers(-25, 25))
def test_window_expires_tuples_and_removes_whole_sets_from_the_state(given_sets, oldest) -> None:
    state = State()
    window = Window(state, SCHEMAS)
    for number, (rows, shed) in enumerate(given_sets):
        window.add(0, number, kept(rows, shed))
    window.expire({0: oldest * SECOND, 1: None})
    tuples = [row for rows, _ in given_sets for row in rows if row[0] >= oldest]
    dropped = [t for _, shed in given_sets for t in shed if t >= oldest]
    assert window.size == len(tuples) and window.offered == len(tuples) + len(dropped)
    assert len(state) == sum(any(r[0] >= oldest for r in rows) or any(t >= oldest for t in s) for rows, s in given_sets)
    again = Window(state, SCHEMAS)
    times = np.asarray(again.tuples(0)[TIME].to_numpy()) // SECOND
    assert sorted(t for t in times if t >= oldest) == sorted(row[0] for row in tuples)


@given(GIVEN, st.integers(0, 60), st.integers(0, 4))
def test_take_when_tuples_are_handed_over_then_each_is_in_one_place(given_sets, count, before) -> None:
    state = State()
    window = Window(state, SCHEMAS)
    for number, (rows, shed) in enumerate(given_sets):
        window.add(number % 2, number, kept(rows, shed))
    every = [ids for stream in (0, 1) for ids in window.tuples(stream).to_pylist()]
    offered, movable = window.offered, sum(len(rows) for rows, _ in given_sets[:before])
    taken = unpack_kept(pack_kept(window.take(count, before)), SCHEMAS)
    given_away = [row for k in taken.values() for row in k.tuples.to_pylist()]
    assert len(given_away) == min(count, movable)
    stayed = [row for stream in (0, 1) for row in Window(state, SCHEMAS).tuples(stream).to_pylist()]
    assert ordered(stayed + given_away) == ordered(every)
    assert window.offered + len(given_away) + sum(len(k.shed) for k in taken.values()) == offered


@given(GIVEN, st.integers(-25, 25), st.integers(0, 60))
def test_due_and_oldest_tuples_leave_once_and_the_rest_stays(given_sets, oldest, count) -> None:
    state = State()
    window = Window(state, SCHEMAS)
    for number, (rows, shed) in enumerate(given_sets):
        window.add(0, number, kept(rows, shed))
    due = window.take_due({0: oldest * SECOND})
    times = [row[0] for rows, _ in given_sets for row in rows]
    assert sorted(t for k in due.values() for t in k.tuples[TIME].to_pylist()) == sorted(
        t * SECOND for t in times if t < oldest
    )
    order = [row for rows, _ in given_sets for row in rows if row[0] >= oldest]
    taken = window.take_oldest(count, [0])
    ids = [i for k in taken.values() for i in k.tuples["id"].to_pylist()]
    assert ids == [row[1] for row in order[:count]]
    left = Window(state, SCHEMAS)
    assert left.rows([0]) == window.rows([0]) == len(order[count:]) and left.rows([1]) == 0
    assert window.take_due({0: None}) == {}


def test_compact_leaves_few_sets_with_the_same_tuples() -> None:
    state = State()
    window = Window(state, SCHEMAS)
    for number in range(3 * MOST_SETS):
        window.add(0, number, kept([(number, number, "a", 0)] * (1 + number % 3), [number]))
        window.compact()
    assert len(state) <= MOST_SETS
    again = Window(state, SCHEMAS)
    assert again.size == sum(1 + n % 3 for n in range(3 * MOST_SETS)) and again.offered == again.size + 3 * MOST_SETS
    arrived = [n for n in range(3 * MOST_SETS) for _ in range(1 + n % 3)]
    assert again.take_oldest(again.size, [0])[0].tuples["id"].to_pylist() == arrived, "in order of arrival"
