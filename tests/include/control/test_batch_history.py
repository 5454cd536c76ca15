"""Which batches count: of their own app, healthy, and since the clock was set."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control import batch_history
from millrace.control.batch_history import healthy, read_batches, sound
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.telemetry import BatchMetrics
from tests.include.control.synthetic import START, App, lake_of


def ids(batches: list[BatchMetrics]) -> list[int]:
    return [b.batch_id for b in batches]


def change(started_s: float, ended_s: float | None, generation: int | None = None) -> Reconfiguration:
    ended = None if ended_s is None else START + timedelta(seconds=ended_s)
    begin = START + timedelta(seconds=started_s)
    return Reconfiguration("delays", "delays", None, "T2", 1, 2, generation, begin, ended, None, Outcome.OPEN)


@pytest.fixture
def steady() -> list[BatchMetrics]:
    return App().run(20, 1000)  # 1.0 s, then towards 2.0 s each


def test_slow_app_is_not_crowded_out_by_fast_ones(
    steady: list[BatchMetrics], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_history, "MAX_ROWS", 5)
    slow = [replace(batch, app="slow") for batch in App(trigger_s=60).run(180, 10)]
    lake = lake_of(tmp_path, sorted([*steady, *slow], key=lambda batch: batch.time))
    found = read_batches(lake, "delays", "slow", START + timedelta(minutes=4))
    assert sorted(ids(list(found))) == ids(slow)


def test_healthy_when_steady_then_drops_only_the_first_batch(steady: list[BatchMetrics]) -> None:
    assert ids(healthy(steady)) == ids(steady)[1:]


def test_first_batch_on_other_slots_is_dropped(steady: list[BatchMetrics]) -> None:
    seventh = ids(steady)[7]
    resized = [replace(batch, slots=batch.slots + 1) if batch.batch_id >= seventh else batch for batch in steady]
    assert ids(healthy(resized)) == [number for number in ids(steady)[1:] if number != seventh]


def test_healthy_ignores_order_and_duplicate_rows(steady: list[BatchMetrics]) -> None:
    assert healthy([*reversed(steady), *steady]) == healthy(steady)


def test_sound_when_a_batch_ran_again_then_uses_the_later_generation(steady: list[BatchMetrics]) -> None:
    again = replace(steady[-1], generation=2, time=steady[-1].time + timedelta(seconds=5), rows_in=7)
    assert sound([again, *steady])[-1].rows_in == 7
    assert len(sound([again, *steady])) == len(steady)


def test_sound_leaves_out_impossible_rows(steady: list[BatchMetrics]) -> None:
    bad = [
        replace(steady[3], rows_in=-1),
        replace(steady[4], durations_ms={"triggerExecution": -5}),
        replace(steady[5], durations_ms={}),
        replace(steady[6], slots=0),
    ]
    assert ids(sound([*steady[:3], *bad, *steady[7:]])) == [0, 1, 2, *ids(steady)[7:]]


def test_healthy_drops_batches_during_a_reconfiguration(steady: list[BatchMetrics]) -> None:
    spoiled = steady[5]
    end = (spoiled.time - START).total_seconds()
    kept = ids(healthy(steady, [change(end - 0.2, end - 0.1)]))
    assert kept == [i for i in ids(steady)[1:] if i != 5]


def test_healthy_ends_an_open_change_with_its_first_batch() -> None:
    app = App()
    before = app.run(10, 1000)
    app.restart(5, 1000, 4, 2000)
    after = app.run(10, 1000)
    open_change = change(11, None, generation=2)
    assert ids(healthy([*before, *after], [open_change])) == [*ids(before)[1:], *ids(after)[1:]]
    assert ids(healthy(before, [change(0, None, generation=2)])) == []
    assert ids(healthy(before, [change(0, None, generation=2)], open_at_most_s=5))[-1] == before[-1].batch_id


def test_healthy_drops_batches_of_overlapping_generations() -> None:
    old, new = App(), App(generation=2, batch_id=100)
    both = [*old.run(20, 500)]
    new.clock = START + timedelta(seconds=12)
    both += new.run(20, 500)
    kept = healthy(both)
    assert all(b.time <= START + timedelta(seconds=13) for b in kept if b.generation == 1)
    assert all(b.time - timedelta(seconds=b.duration_s) >= old.clock for b in kept if b.generation == 2)
    assert {b.generation for b in kept} == {1, 2}


def test_healthy_drops_batches_on_a_busy_host(steady: list[BatchMetrics]) -> None:
    spoiled = [replace(b, host_cpu_other=0.8) if b.batch_id in (4, 5) else b for b in steady]
    assert ids(healthy(spoiled)) == [i for i in ids(steady)[1:] if i not in (4, 5)]


@pytest.mark.parametrize("share", [None, 0.0, 0.7, 1.0, float("nan")])
def test_healthy_keeps_batches_on_a_host_with_its_usual_load(steady: list[BatchMetrics], share: float | None) -> None:
    assert len(healthy([replace(b, host_cpu_other=share) for b in steady])) == len(steady) - 1


def test_healthy_does_not_count_idle_markers_as_batches(steady: list[BatchMetrics]) -> None:
    app = App(batch_id=len(steady), clock=steady[-1].time)
    assert healthy([*steady, *app.idle(60)]) == healthy(steady)


def test_healthy_of_nothing_is_empty() -> None:
    assert healthy([]) == []
