"""The chain: where blocks rest, when tuples leave, and workers that are added and removed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.esj.wire import settle
from millrace.joins.mp2pf.chain import Chain
from millrace.joins.mp2pf.link import BEFORE_ALL, R, S
from millrace.joins.mp2pf.rules import Rules, resting_place
from millrace.model.errors import MillraceError
from tests.examples import examples

ALWAYS = Rules(1000, 1000)


def rows(*times, start=0):
    return [(float(time), start + i) for i, time in enumerate(times)]


def numbers(met):
    return sorted((r[1], s[1]) for r, s in met)


@examples(60)
@given(st.integers(1, 5), st.integers(1, 4), st.sampled_from([R, S]), st.integers(1, 25))
def test_blocks_in_a_quiet_chain_rest_where_the_rule_says(workers, block, stream, blocks):
    chain, expected = Chain(ALWAYS, workers, block), [0] * workers

    for at in range(blocks):
        expected[resting_place(expected, "right" if stream else "left", block)] += block
        chain.feed(stream, rows(*[at] * block, start=at * block), at)
        settle(chain)

        assert chain.sizes(stream) == expected
        assert chain.quiet()


def test_tuples_when_all_partners_have_arrived_then_leave():
    chain = Chain(Rules(2, 2), 3, 1)
    chain.feed(R, rows(0), 0)
    settle(chain)
    for time in range(3):
        chain.feed(S, rows(time, start=time), time)
        settle(chain)
        assert sum(chain.sizes(R)) == 1

    chain.feed(S, rows(3, start=3), 3)
    settle(chain)

    assert sum(chain.sizes(R)) == 0
    assert numbers(chain.met) == [(0, 0), (0, 1), (0, 2)]


def test_streams_far_apart_miss_no_pair():
    chain = Chain(Rules(1, 1), 3, 2)
    chain.feed(S, rows(*range(50)), 49)
    settle(chain)
    chain.feed(R, rows(*range(50)), 49)
    settle(chain)
    for stream in (R, S):
        chain.flush(stream)
    settle(chain)

    assert numbers(chain.met) == sorted((r, s) for r in range(50) for s in range(50) if abs(r - s) <= 1)


def test_tuples_when_older_than_promised_then_are_dropped_and_counted():
    chain = Chain(ALWAYS, 2, 1)
    chain.feed(R, rows(5), 5)
    chain.feed(R, rows(4, 6, start=1), 6)
    chain.flush(R)
    chain.feed(R, rows(7, start=3), 7)
    settle(chain)

    assert chain.sources[R].late == 2
    assert sum(chain.sizes(R)) == 2


@pytest.mark.parametrize("workers", [1, 3])
def test_streams_when_one_is_empty_then_nothing_meets_and_all_leave(workers):
    chain = Chain(Rules(1, 1), workers, 2)
    chain.feed(R, rows(0, 1, 2), 2)
    chain.flush(R)
    chain.flush(S)
    settle(chain)

    assert chain.met == []
    assert chain.sizes(R) == [0] * workers
    assert chain.quiet()


def test_pairs_when_streams_have_not_ended_then_some_still_wait():
    chain = Chain(ALWAYS, 3, 1)
    for at in range(9):
        for stream in (R, S):
            chain.feed(stream, rows(at, start=at), at)
            settle(chain)
    waiting = 81 - len(chain.met)
    for stream in (R, S):
        chain.flush(stream)
    settle(chain)

    assert waiting > 0
    assert numbers(chain.met) == [(r, s) for r in range(9) for s in range(9)]


def filled(workers):
    """A chain with tuples at rest everywhere, and blocks in flight on every link."""
    chain = Chain(ALWAYS, workers, 1)
    for at in range(12):
        for stream in (R, S):
            chain.feed(stream, rows(at, start=at), BEFORE_ALL)
            if at < 6:
                settle(chain)
    for link in range(workers + 1):
        for direction in (0, 1):
            for _ in range(2):
                if chain.links[link][direction]:
                    chain.deliver(link, direction)
    return chain


@pytest.mark.parametrize("at", [1, 2, 3])
def test_worker_removed_with_messages_in_flight_leaves_its_tuples_to_meet_once(at):
    chain = filled(4)

    chain.remove(at)
    for stream in (R, S):
        chain.flush(stream)
    settle(chain)

    assert len(chain.workers) == 3
    assert numbers(chain.met) == [(r, s) for r in range(12) for s in range(12)]


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("side", [0, 1])
def test_worker_added_with_messages_in_flight_shares_load_and_pairs_meet_once(at, side):
    chain = filled(3)

    chain.add(at, side)
    settle(chain)
    assert chain.sizes(R)[at + side] + chain.sizes(S)[at + side] > 0
    for stream in (R, S):
        chain.flush(stream)
    settle(chain)

    assert numbers(chain.met) == [(r, s) for r in range(12) for s in range(12)]


def test_new_worker_knows_its_neighbours_blocks_at_once():
    chain = Chain(ALWAYS, 1, 1)
    chain.feed(S, rows(*range(10)), 9)
    settle(chain)

    chain.add(0, 1)
    chain.feed(S, rows(10, start=10), 10)
    chain.deliver(2, 1)

    assert chain.sizes(S) == [10, 1]


def test_block_size_when_halved_then_differences_follow():
    chain = Chain(ALWAYS, 2, 8)
    chain.feed(R, rows(*range(13)), 13)
    settle(chain)
    chain.feed(R, rows(*range(13, 20), start=13), 20)
    settle(chain)

    chain.resize(1)
    settle(chain)

    sizes = chain.sizes(R)
    assert sizes[0] - sizes[1] < 1


def test_chain_when_copied_then_the_two_are_independent():
    chain = filled(3)
    other, met, sizes = chain.copy(), len(chain.met), chain.sizes(R)

    other.remove(1)
    other.flush(R)
    other.flush(S)
    settle(other)

    assert (len(chain.met), chain.sizes(R)) == (met, sizes)
    assert len(other.met) == 144


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Chain(ALWAYS, 0, 1),
        lambda: Chain(ALWAYS, 1, 0),
        lambda: Chain(ALWAYS, 1, 1).resize(0),
        lambda: Chain(ALWAYS, 2, 1).remove(0),
        lambda: Chain(ALWAYS, 1, 1).remove(1),
        lambda: Rules(-1, 1),
        lambda: Rules(1, math.nan),
        lambda: Rules(math.inf, 1),
        lambda: Rules(1, 1, copies="all"),
    ],
)
def test_chain_when_input_is_invalid_then_says_what_is_allowed(wrong):
    with pytest.raises(MillraceError, match="allowed"):
        wrong()
