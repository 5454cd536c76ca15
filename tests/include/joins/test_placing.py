"""Blocks and hand-overs leave no worker more than a block above another."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from include.joins.blocks import Block
from include.joins.placing import moved, moves, place
from include.joins.terms import Terms
from include.model.join import JoinSettings

SIZES = st.lists(st.integers(0, 500), max_size=8)


def block(stream: int, rows: int) -> Block:
    return Block(stream, 0, 0, rows, 0, 0, b"", b"")


@given(SIZES, st.integers(1, 8), st.integers(1, 100))
def test_moves_when_made_then_workers_are_level_and_those_beyond_are_empty(sizes, workers, size) -> None:
    made = moves(sizes, workers, size)
    after = moved(sizes, made)
    assert sum(after) == sum(sizes) and min(after, default=0) >= 0
    staying = [*after[:workers], *[0] * (workers - len(after))]
    assert max(staying) - min(staying) <= size and not any(after[workers:])
    assert all(m.tuples > 0 and m.source != m.target for m in made)
    assert moves(after, workers, size) == ()


@given(
    st.integers(0, 300),
    st.integers(1, 6),
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 50)), max_size=40),
)
def test_place_when_workers_were_level_then_neighbours_stay_within_a_block(start, workers, size, coming) -> None:
    blocks = [block(stream, min(rows, size)) for stream, rows in coming]
    terms = Terms(3, JoinSettings(workers, size), sizes=(start,) * workers)
    homes = place(blocks, terms)
    after = [start] * workers
    for home, each in zip(homes, blocks, strict=True):
        after[home] += each.rows
    assert all(abs(a - b) <= size for a, b in pairwise(after))


def test_place_when_a_worker_was_added_then_it_gets_the_next_blocks() -> None:
    terms = Terms(3, JoinSettings(3, 10), sizes=(40, 40))
    assert place([block(0, 10), block(1, 10), block(0, 10)], terms) == [2, 2, 2]
