from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.objective import Bounds
from millrace.optimizers.esj.options import JoinPolicy
from millrace.optimizers.esj.workers import RaisedSlots, choose_slots, start_workers, workers_for


@pytest.mark.parametrize(
    ("rate", "window_s", "capacity", "target", "workers"),
    [
        (100.0, 60.0, 1000, 0.4, 15),
        (100.1, 60.0, 1000, 0.4, 16),
        (0.3, 10.0, 10, 0.3, 1),  # 3 / 3.0 in tenths; in binary fractions more than 1
        (0.1, 3.0, 1, 0.1, 3),  # 0.1 * 3.0 is more than 0.3
        (0.7, 0.1, 1, 0.07, 1),
        (0.0, 60.0, 1000, 0.4, 1),
        (5.0, 0.0, 1000, 0.4, 1),
    ],
)
def test_workers_when_the_quotient_is_whole_then_it_is_exact(
    rate: float, window_s: float, capacity: int, target: float, workers: int
) -> None:
    assert workers_for(Fraction(str(rate)) * Fraction(str(window_s)), capacity, target) == workers


@given(st.decimals(0, 10_000, places=2), st.integers(0, 5000), st.integers(1, 10_000), st.decimals("0.01", 1, places=2))
def test_workers_are_the_fewest_that_share_the_load_at_the_target(
    rate: object, window_s: int, capacity: int, target: object
) -> None:
    tuples = Fraction(str(rate)) * window_s
    found = workers_for(tuples, capacity, float(str(target)))
    load = tuples / (capacity * Fraction(str(target)))
    assert found >= max(1, load)
    assert found - 1 < max(1, load)


@pytest.mark.parametrize(("rate", "workers"), [(None, 2), (0.0, 2), (30.0, 5), (1e9, 7)])
def test_start_when_a_rate_is_expected_then_is_for_that_within_bounds(rate: float | None, workers: int) -> None:
    section = {"capacity": 1000, "window_s": 60.0, "workers": {"min": 2, "max": 7}, "expected_rows_per_s": rate}
    assert start_workers(JoinPolicy.read(section)) == workers


def test_start_when_the_quotient_is_whole_then_is_exact() -> None:
    section = {"capacity": 3, "window_s": 3.0, "expected_rows_per_s": 0.1, "options": {"tau1": 0.1}}
    assert start_workers(JoinPolicy.read(section)) == 1


# ---- slots

COUNTS = st.integers(1, 16)
RAISED = st.none() | st.builds(lambda least, more: RaisedSlots(least, least + more), COUNTS, COUNTS)
BOUNDS = Bounds(1, 8)


@pytest.mark.parametrize(
    ("workers", "slots", "raised", "wanted"),
    [
        (1, 2, None, 2),
        (5, 2, None, 5),
        (12, 2, None, 8),
        (5, 2, RaisedSlots(2, 5), 5),  # requested before, and not granted yet
        (3, 5, RaisedSlots(2, 5), 3),
        (1, 5, RaisedSlots(2, 5), 2),
        (1, 5, RaisedSlots(2, 4), 5),  # set by someone else
        (1, 3, RaisedSlots(4, 6), 3),
        (3, 5, RaisedSlots(2, 7), 3),
        (12, 10, None, 10),  # more than allowed, but present
    ],
)
def test_slots_when_workers_come_and_go_then_follow_within_bounds(
    workers: int, slots: int, raised: RaisedSlots | None, wanted: int
) -> None:
    assert choose_slots(workers, slots, BOUNDS, raised)[0] == wanted


@given(COUNTS, COUNTS, COUNTS, RAISED)
def test_slots_that_were_raised_stay_and_remember_their_former_number(
    workers: int, slots: int, most: int, raised: RaisedSlots | None
) -> None:
    wanted, after = choose_slots(workers, slots, Bounds(1, most), raised)
    assert wanted <= max(slots, most)
    assert choose_slots(workers, wanted, Bounds(1, most), after)[0] == wanted
    back = choose_slots(1, wanted, Bounds(1, most), after)[0]
    assert back == (raised.least if raised and raised.least <= slots <= raised.most else slots)


@given(COUNTS, COUNTS, COUNTS, RAISED)
def test_slots_that_were_not_applied_are_requested_again(
    workers: int, slots: int, most: int, raised: RaisedSlots | None
) -> None:
    wanted, after = choose_slots(workers, slots, Bounds(1, most), raised)
    assert choose_slots(workers, slots, Bounds(1, most), after)[0] == wanted


@given(RAISED.filter(bool))
def test_raised_slots_when_stored_as_json_then_are_read_as_they_were(raised: RaisedSlots) -> None:
    assert RaisedSlots.read(json.loads(json.dumps(raised.to_json()))) == raised


@pytest.mark.parametrize(
    "memory", [{}, {"slots_from": 2}, {"slots_from": 5, "slots_to": 2}, {"slots_from": "2", "slots_to": 5}]
)
def test_raised_slots_when_not_understood_then_are_none(memory: dict[str, Any]) -> None:
    assert RaisedSlots.read(memory) is None
