from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.contracts.signals import AppSignals, Capacity, Observation, Signals
from include.control.observations import new_observations, remembered
from include.control.stores.observations import KEEP_PER_LEVEL, ObservationStore
from include.lake.store import Lake

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
APP = AppSignals("a", 4, 4, False, 210.0, 210.0, 0, 0.0, 10, 9, 1.0, 0.0, 0.5, Capacity(4, 1.0, 300.0, 9.0, 9))


def look(number: int, p: int = 4, **changes: object) -> Signals:
    capacity = Capacity(p, 1.0, 100.0 * p + number, 9.0, 9)
    app = replace(APP, slots=p, parallelism=p, capacity=capacity, **changes)  # type: ignore[arg-type]
    now = NOON + timedelta(minutes=number)
    return Signals("a", now - timedelta(minutes=1), now, number, 1, 0, (app,))


def test_observation_when_a_look_measured_anew_then_is_its_capacity() -> None:
    assert new_observations(look(7)) == (Observation("a", 4, 407.0, 9.0, 9, NOON + timedelta(minutes=7)),)
    for nothing in (look(1, healthy_batches=0), replace(look(1), settling=True)):
        assert new_observations(nothing) == ()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 3), max_size=12), st.integers(1, 4))
def test_remembered_when_looks_follow_each_other_then_keeps_the_newest_of_each_level_oldest_first(
    levels: list[int], kept: int
) -> None:
    known: tuple[Observation, ...] = ()
    for number, p in enumerate(levels):
        known = remembered(known, look(number, p), kept)
    every = [o for number, p in enumerate(levels) for o in new_observations(look(number, p))]
    wanted = [o for o in every if o in [x for x in every if x.parallelism == o.parallelism][-kept:]]
    assert list(known) == wanted


@pytest.mark.parametrize("looks", [KEEP_PER_LEVEL + 3])
def test_remembered_when_compared_with_the_store_then_is_the_same(tmp_path: Path, looks: int) -> None:
    store, known = ObservationStore(Lake(tmp_path)), ()
    for number in range(looks):
        signals = look(number, 2 if number % 8 == 0 else 4)
        store.add("a", new_observations(signals), "looks", number)
        known = remembered(known, signals)
    assert known == store.recent("a")
    assert len([o for o in known if o.parallelism == 4]) == KEEP_PER_LEVEL
