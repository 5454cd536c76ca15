from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.model.signals import Bounds
from optimizers.esj.slots import Raised, read, slots_for, write

COUNTS = st.integers(1, 16)
RAISED = st.none() | st.builds(lambda least, more: Raised(least, least + more), COUNTS, COUNTS)
BOUNDS = Bounds(1, 8)


@pytest.mark.parametrize(
    ("workers", "slots", "raised", "wanted"),
    [
        (1, 2, None, 2),
        (5, 2, None, 5),
        (12, 2, None, 8),
        (5, 2, Raised(2, 5), 5),  # asked for before, and not given yet
        (3, 5, Raised(2, 5), 3),
        (1, 5, Raised(2, 5), 2),
        (1, 5, Raised(2, 4), 5),  # somebody else has set them
        (1, 3, Raised(4, 6), 3),
        (3, 5, Raised(2, 7), 3),
        (12, 10, None, 10),  # more than is allowed, but there
    ],
)
def test_slots_when_workers_come_and_go_then_follow_within_bounds(
    workers: int, slots: int, raised: Raised | None, wanted: int
) -> None:
    assert slots_for(workers, slots, BOUNDS, raised)[0] == wanted


@given(COUNTS, COUNTS, COUNTS, RAISED)
def test_slots_when_carried_out_then_stay_and_what_they_were_is_still_known(
    workers: int, slots: int, most: int, raised: Raised | None
) -> None:
    wanted, after = slots_for(workers, slots, Bounds(1, most), raised)
    assert wanted <= max(slots, most)
    assert slots_for(workers, wanted, Bounds(1, most), after)[0] == wanted
    back = slots_for(1, wanted, Bounds(1, most), after)[0]
    assert back == (raised.least if raised and raised.least <= slots <= raised.most else slots)


@given(COUNTS, COUNTS, COUNTS, RAISED)
def test_slots_when_nobody_carries_them_out_then_are_wanted_again(
    workers: int, slots: int, most: int, raised: Raised | None
) -> None:
    wanted, after = slots_for(workers, slots, Bounds(1, most), raised)
    assert slots_for(workers, slots, Bounds(1, most), after)[0] == wanted


@given(RAISED)
def test_memory_when_stored_as_json_then_is_read_as_it_was(raised: Raised | None) -> None:
    assert read(json.loads(json.dumps(write(raised)))) == raised


@pytest.mark.parametrize(
    "memory", [{}, {"slots_from": 2}, {"slots_from": 5, "slots_to": 2}, {"slots_from": "2", "slots_to": 5}]
)
def test_memory_when_not_understood_then_is_as_if_empty(memory: dict[str, Any]) -> None:
    assert read(memory) is None
