"""Safety and progress over all interleavings of small cases."""

import os

import pytest

from millrace.joins.mp2pf.rules import Rules
from tests.include.joins.mp2pf.exhaustive import Small, search

WIDE, NARROW = Rules(100, 100), Rules(0, 0)


def rows(*times):
    return tuple((float(time), number) for number, time in enumerate(times))


ONE, TWO = rows(0), rows(0, 1)

SMALL = {
    "one worker": Small(WIDE, (TWO, TWO), workers=1),
    "two workers": Small(WIDE, (TWO, TWO)),
    "two workers, tuples expire": Small(NARROW, (TWO, ONE)),
    "blocks of two": Small(WIDE, (rows(0, 1, 2), rows(0, 1, 2)), block=2),
    "a loss": Small(WIDE, (ONE, ONE), losses=1),
    "a double": Small(WIDE, (ONE, ONE), workers=1, doubles=1),
    "any order": Small(WIDE, (ONE, ONE), in_order=False),
    "an add": Small(WIDE, (ONE, ONE), workers=1, adds=1),
    "a removal": Small(WIDE, (ONE, ONE), removes=1),
}
LARGE = {
    "tuples expire": Small(NARROW, (TWO, TWO)),
    "a double": Small(WIDE, (ONE, ONE), doubles=1),
    "three tuples and two": Small(WIDE, (rows(0, 1, 2), TWO)),
    "a loss": Small(WIDE, (TWO, ONE), losses=1),
    "a loss in any order": Small(WIDE, (ONE, ONE), losses=1, in_order=False),
    "a removal of two": Small(WIDE, (TWO, ONE), removes=1),
    "a loss and a removal": Small(WIDE, (ONE, ONE), losses=1, removes=1),
}
LARGEST = {
    "any order": Small(WIDE, (TWO, TWO), in_order=False),
    "three workers": Small(WIDE, (TWO, ONE), workers=3),
    "an add beside two": Small(WIDE, (ONE, ONE), adds=1),
}
ASKED_FOR = "MILLRACE_EXHAUSTIVE"


def check(case):
    found = search(case)

    assert found.faults == {}
    assert found.stuck == 0
    assert found.ends > 0


@pytest.mark.parametrize("name", SMALL)
def test_chain_in_all_interleavings_pairs_once_and_rests(name):
    check(SMALL[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_chain_with_more_pairs_in_all_interleavings_pairs_once_and_rests(name):
    check(LARGE[name])


@pytest.mark.slow
@pytest.mark.skipif(ASKED_FOR not in os.environ, reason=f"80 s of the same; set {ASKED_FOR}=1")
@pytest.mark.parametrize("name", LARGEST)
def test_chain_with_most_pairs_in_all_interleavings_pairs_once_and_rests(name):
    check(LARGEST[name])


@pytest.mark.parametrize(("copies", "fault"), [("both streams", "doubled"), ("no stream", "lost")])
def test_chain_when_copies_join_differently_then_an_interleaving_breaks_it(copies, fault):
    assert fault in search(Small(Rules(100, 100, copies=copies), (ONE, ONE))).faults
