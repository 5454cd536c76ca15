from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.evaluation import Request
from millrace.control.new_observations import known_observations, new_observations, remembered
from millrace.lake.decisions import DecisionStore
from millrace.lake.observations import KEEP_PER_LEVEL, ObservationStore
from millrace.lake.store import Lake
from millrace.model.signals import AppSignals, Capacity, Observation, Signals
from tests.examples import examples
from tests.include.control.recorded_run import DAY, Steady, launched
from tests.include.control.world import NAME

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
APP = AppSignals("a", 4, 4, False, 210.0, 210.0, 0, 0.0, 10, 9, 1.0, 0.0, 0.5, Capacity(4, 1.0, 300.0, 9.0, 9))


def signals_at(number: int, p: int = 4, **changes: object) -> Signals:
    capacity = Capacity(p, 1.0, 100.0 * p + number, 9.0, 9)
    app = replace(APP, slots=p, parallelism=p, capacity=capacity, **changes)  # type: ignore[arg-type]
    now = NOON + timedelta(minutes=number)
    return Signals("a", now - timedelta(minutes=1), now, number, 1, (app,))


def test_observation_of_a_new_evaluation_is_its_capacity() -> None:
    assert new_observations(signals_at(7)) == (Observation("a", 4, 407.0, 9.0, 9, NOON + timedelta(minutes=7)),)
    for nothing in (signals_at(1, healthy_batches=0), replace(signals_at(1), settling=True)):
        assert new_observations(nothing) == ()


def test_app_that_has_not_reported_since_it_was_measured_adds_no_observation() -> None:
    first = signals_at(1, until=NOON)
    (known,) = new_observations(first)
    assert known.time == NOON
    later = replace(first, until=first.until + timedelta(minutes=1), observations=(known,))
    assert new_observations(later) == ()
    reported = replace(later, apps=(replace(later.apps[0], until=later.until),))
    assert [o.time for o in new_observations(reported)] == [later.until]


@examples(50)
@given(st.lists(st.integers(1, 3), max_size=12), st.integers(1, 4))
def test_remembered_keeps_the_newest_points_of_each_level(levels: list[int], kept: int) -> None:
    known: tuple[Observation, ...] = ()
    for number, p in enumerate(levels):
        known = remembered(known, signals_at(number, p), kept)
    every = [o for number, p in enumerate(levels) for o in new_observations(signals_at(number, p))]
    wanted = [o for o in every if o in [x for x in every if x.parallelism == o.parallelism][-kept:]]
    assert list(known) == wanted


@pytest.mark.parametrize("evaluations", [KEEP_PER_LEVEL + 3])
def test_remembered_when_compared_with_the_store_then_is_the_same(tmp_path: Path, evaluations: int) -> None:
    store, known = ObservationStore(Lake(tmp_path)), ()
    for number in range(evaluations):
        signals = signals_at(number, 2 if number % 8 == 0 else 4)
        store.add("a", new_observations(signals), "looks", number)
        known = remembered(known, signals)
    assert known == store.recent("a")
    assert len([o for o in known if o.parallelism == 4]) == KEEP_PER_LEVEL


def test_known_observations_are_those_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), arrivals=3 * DAY)
    assert known_observations(run.tables, NAME) == ()
    requests = [Request(), Request(), Request(dry_run=True), Request(forced_slots=3, requested_by="me"), Request()]
    for number in range(2 * len(DAY)):
        run.evaluate(requests[number % len(requests)])
        if number % 7 == 0:  # one without measurements, and one that is not an evaluation
            last = DecisionStore(run.lake).last(NAME)
            assert last is not None
            hold = replace(last, decision_id=f"hold-{number}", signals=None)
            DecisionStore(run.lake).record(hold)
            DecisionStore(run.lake).record(replace(last, decision_id=f"veto-{number}", cursor_version=None))
        assert known_observations(run.tables, NAME) == ObservationStore(run.lake).recent(NAME)
    assert len(known_observations(run.tables, NAME)) > KEEP_PER_LEVEL // 2
