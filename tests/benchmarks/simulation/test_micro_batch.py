from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation.micro_batch_truth import MicroBatchTruth
from benchmarks.simulation.noise import Noise
from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.scenario import Scenario
from benchmarks.simulation.scenarios import scenario
from millrace.model.errors import NotReady
from tests.benchmarks.simulation.cases import aims, app, micro_batch, observe, observe_all, set_p
from tests.examples import examples


def at(made: Scenario, slots: int) -> SimulatedPlant:
    return SimulatedPlant(replace(made, start_p=slots), 0)


def test_truth_when_scaled_then_the_app_needs_its_slots_at_the_peak_and_target_utilisation() -> None:
    for run in range(6):
        made = scenario("paper_mb", run)
        truth = MicroBatchTruth(made, run)
        low, high = made.micro_batch.slots
        ability = truth.ability(made.shape.name)
        peak = sum(made.workload.peak)
        # the fixed cost of limited batches comes on top
        assert ability[round(low) - 2] * 0.8 < peak <= ability[round(high)] * 0.8 * 1.05


def test_batch_when_the_app_keeps_up_then_lasts_fixed_cost_over_spare_utilisation() -> None:
    plant = at(micro_batch([8.0] * 2), 10)  # rho = 0.8, o = 2 s
    for _ in range(10):
        seen = observe(plant)
    running = plant.segments[-1]
    assert running.batch_s == pytest.approx(2 / (1 - 0.8), rel=0.01)
    assert app(seen).arrival_rows_per_s == pytest.approx(800)
    assert app(seen).processed_rows_per_s == pytest.approx(800, rel=0.01)
    assert app(seen).slot_busy_ratio == pytest.approx(0.8, rel=0.01) and app(seen).busy_ratio == pytest.approx(1.0)
    # the rows of the last batch's duration wait when it ends, as planned
    assert app(seen).backlog_rows == pytest.approx(8000, rel=0.01) and app(seen).backpressured_ratio == 0


def test_capacity_when_fitted_with_noise_then_gives_the_measured_duration_at_the_measured_rows() -> None:
    plant = at(replace(micro_batch([5.0] * 2), noise=Noise(scale=3.0)), 10)
    for _ in range(10):
        seen = app(observe(plant))
        if seen.capacity is None:
            continue
        rows = (seen.processed_rows_per_s or 0) * 30 / seen.batches
        duration = seen.capacity.fixed_s + rows / seen.capacity.rows_per_s
        assert duration == pytest.approx(2 + rows / 1000, rel=1e-6)
        assert seen.capacity.rows_per_s != pytest.approx(1000, rel=1e-6)
        assert seen.capacity.rows_per_s_error == pytest.approx(0.06 * seen.capacity.rows_per_s)
    assert seen.capacity is not None and seen.capacity.parallelism == 10


def test_capacity_when_few_batches_have_run_at_a_level_then_is_unknown() -> None:
    plant = at(micro_batch([5.0] * 2), 10)
    first = app(observe(plant))
    assert first.healthy_batches == first.batches - 1
    set_p(plant, 12)
    seen = app(observe(plant))
    assert seen.parallelism == 12 and (seen.capacity is None) == (seen.healthy_batches < 3)


def test_evaluation_when_no_batch_has_ended_then_is_not_ready_and_the_next_covers_both_periods() -> None:
    plant = at(micro_batch([9.0] * 2), 1)
    told = observe(plant)
    with pytest.raises(NotReady):
        for _ in range(10):
            told = observe(plant)
    since = told.until
    seen = next(observe_all(plant))
    assert seen.since == since and (seen.until - seen.since).total_seconds() >= 60
    assert app(seen).arrival_rows_per_s == pytest.approx(900)


def test_backlog_when_a_restart_left_one_then_drains_in_later_longer_batches() -> None:
    plant = at(micro_batch([6.0] * 3), 8)
    for _ in range(8):
        seen = observe(plant)
    usual = app(seen).backlog_rows or 0
    set_p(plant, 10)
    lags = [app(s).restart_lag_rows or 0 for s in (observe(plant) for _ in range(6))]
    assert max(s.batch_s for s in plant.segments if s.since > 240) > 1.5 * 5.0
    assert lags[-1] == 0 and (app(observe(plant)).backlog_rows or 0) <= usual


def test_restart_when_the_running_batch_is_short_then_waits_for_it() -> None:
    plant = at(micro_batch([5.0] * 2), 10)
    observe(plant)
    set_p(plant, 12)
    observe(plant)
    down = [s for s in plant.segments if s.down]
    assert sum(s.until - s.since for s in down) == pytest.approx(10.0) and down[0].since > 30.0
    running = next(s for s in plant.segments if s.until == down[0].since)
    assert running.batch_rows > 0 and running.parallelism == (12,)


def test_restart_when_the_running_batch_is_long_then_its_rows_are_processed_again() -> None:
    plant = at(micro_batch([9.0] * 2), 1)
    observe(plant)
    running = plant.segments[-1]
    assert running.batch_s > 30
    set_p(plant, 20)
    observe(plant)
    down = next(s for s in plant.segments if s.down)
    assert down.since == 30.0 and down.until == 40.0 and down.batch_rows == 0
    assert down.before[0] == pytest.approx(running.after[0])


def test_live_change_when_made_then_stops_nothing_and_applies_from_a_later_batch() -> None:
    plant = at(micro_batch([5.0] * 4, live_s=6.0), 10)
    observe(plant)
    set_p(plant, 12)
    assert plant.levels == (10,)
    assert any(not signals.settling for signals in observe_all(plant))
    for _ in observe_all(plant):
        pass
    assert plant.levels == (12,)
    assert not [s for s in plant.segments if s.down]
    assert all(s.batch_rows > 0 for s in plant.segments[2:])
    first = next(s for s in plant.segments if s.parallelism == (12,))
    assert first.since >= 36.0
    later = next(s for s in plant.segments if s.since > first.since + 30)
    assert first.batch_s / first.batch_rows > 1.05 * later.batch_s / later.batch_rows


def test_settling_when_a_restart_was_made_then_lasts_until_three_batches_have_ended() -> None:
    plant = at(micro_batch([9.0] * 2, batch_rows_limit=9000), 10)
    assert not observe(plant).settling
    set_p(plant, 12)
    seen, ended = [], 0
    for signals in observe_all(plant):
        ended += app(signals).batches
        seen.append((signals.settling, ended))
        if not signals.settling:
            break
    assert seen[0][0] and seen[-1][1] >= 3


def test_batches_when_limited_then_hold_no_more_and_say_so() -> None:
    plant = at(micro_batch([9.0] * 2, batch_rows_limit=3000), 6)
    told = [app(s) for s in observe_all(plant)]
    assert max(s.batch_rows for s in plant.segments) <= 3000 * (1 + 1e-9)
    assert told[-1].batch_rows_limit == 3000
    # 3000 rows every 2 + 3000 / 600 s
    assert told[-1].processed_rows_per_s == pytest.approx(3000 / 7, rel=0.15)
    assert plant.segments[-1].pace == pytest.approx(3000 / 7) and plant.segments[-1].short


def test_splits_when_fewer_than_slots_then_more_slots_change_nothing() -> None:
    made = micro_batch([5.0] * 2, source_splits=6)
    few, many = (list(observe_all(at(made, slots)))[-1] for slots in (6, 20))
    assert app(many).parallelism == 6 and app(many).source_splits and not app(few).source_splits
    assert app(many).processed_rows_per_s == pytest.approx(app(few).processed_rows_per_s)
    assert (app(many).slot_busy_ratio or 0) == pytest.approx((app(few).slot_busy_ratio or 0) * 6 / 20)
    assert MicroBatchTruth(made, 0).minimum((450.0,), (1.0,)) == (6,)


@pytest.mark.parametrize(
    ("rate", "limit", "max_lag_s", "slots"),
    [
        (800.0, None, 60.0, 10),
        (801.0, None, 60.0, 11),
        (800.0, None, 8.0, 16),
        (800.0, 8000, 60.0, 14),
        (1.0, None, 60.0, 1),
    ],
    ids=["target", "just above", "latency", "limited", "idle"],
)
def test_minimum_when_the_objective_binds_then_is_the_least_that_meets_it(
    rate: float, limit: int | None, max_lag_s: float, slots: int
) -> None:
    # 10 slots process 1000 rows per second, o = 2 s: 1 - 2 * 2 / 8 = 0.5 if no row may wait over 8 s;
    # 0.8 - 800 * 2 / 8000 = 0.6 if batches are limited
    made = replace(micro_batch([8.0], batch_rows_limit=limit), objective=aims(max_lag_s=max_lag_s))
    assert MicroBatchTruth(made, 0).minimum((rate,), (1.0,)) == (slots,)


@given(
    multiples=st.lists(st.floats(0.1, 12.0), min_size=1, max_size=3),
    p=st.integers(1, 14),
    changes=st.dictionaries(st.integers(1, 20), st.integers(1, 14), max_size=4),
    limit=st.sampled_from([None, 2000, 20_000]),
)
@examples(50)
def test_rows_that_arrived_are_processed_waiting_or_running(
    multiples: list[float], p: int, changes: dict[int, int], limit: int | None
) -> None:
    plant = at(micro_batch(multiples, batch_rows_limit=limit), p)
    processed = last = 0.0
    for i in range(60):
        if plant.finished:
            break
        if i in changes:
            set_p(plant, changes[i])
        try:
            seen = observe(plant)
        except NotReady:
            continue
        processed += (app(seen).processed_rows_per_s or 0) * (plant.now - last)
        last = plant.now
        assert (app(seen).slot_busy_ratio or 0) <= 1 and (app(seen).busy_ratio or 0) <= 1
        arrived = sum(s.rates[0] * (s.until - s.since) for s in plant.segments)
        assert arrived == pytest.approx(processed + plant.unprocessed, rel=1e-9, abs=1e-3)
    for segment in plant.segments:
        assert 0 <= segment.batch_rows <= segment.after[0] + 1e-6
