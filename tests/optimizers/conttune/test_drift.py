from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.signals import Observation
from millrace.optimizers.conformance.builders import APP, NOON
from millrace.optimizers.conttune.drift import MOST_SHIFTS, Drift, Shift, rescale, update_drift
from millrace.optimizers.conttune.options import FlowOptions

LOOK = timedelta(seconds=30)
KNOWN = [
    Observation(APP, p, 100.0 * p**0.85 * f, 0.0, 5, NOON + i * LOOK)
    for i, (p, f) in enumerate([(1, 1.0), (4, 1.01), (4, 0.99), (8, 1.0), (8, 1.01), (8, 0.99)])
]


def evaluation(p: int, factor: float, number: int = 10, noise: float = 0.02) -> Observation:
    ability = 100.0 * p**0.85 * factor
    return Observation(APP, p, ability, noise * ability, 5, NOON + number * LOOK)


def drift_after(
    evaluations: Sequence[Observation], short: bool = False, points: Sequence[Observation] = KNOWN
) -> Drift:
    """The knowledge after several evaluations, each measured on top of the earlier ones."""
    drift, seen = Drift(), list(points)
    for each in evaluations:
        drift = update_drift(drift, rescale(seen, drift.shifts), each, each.time - LOOK, short, FlowOptions())
        seen.append(each)
    return drift


def test_drift_when_a_step_shows_three_times_then_rescales_history_by_it() -> None:
    drift = drift_after([evaluation(8, 0.75, 10), evaluation(8, 0.77, 11), evaluation(8, 0.76, 12)])
    assert [s.factor for s in drift.shifts] == [pytest.approx(0.76, rel=0.02)]
    assert drift.shifts[0].at == NOON + 10 * LOOK, "what showed it is of the new ability already"
    one = rescale(KNOWN, drift.shifts)[0]
    assert one.throughput == pytest.approx(76, rel=0.02)
    assert drift.suspects == ()


def test_drift_when_an_operator_becomes_faster_then_is_recognised_too() -> None:
    quicker = [evaluation(8, factor, 10 + i) for i, factor in enumerate([1.4, 1.36, 1.38])]
    assert drift_after(quicker).shifts[0].factor == pytest.approx(1.38, rel=0.02)


@pytest.mark.parametrize("factor", [0.3, 0.6, 1.8, 5.0])
def test_drift_when_one_evaluation_is_wrong_then_rescales_nothing(factor: float) -> None:
    drift = drift_after([evaluation(8, factor, 10)])
    assert drift.shifts == () and len(drift.suspects) == 1
    assert drift_after([evaluation(8, factor, 10), evaluation(8, 1.0, 11)]) == Drift()


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_drift_when_two_of_three_are_equally_wrong_then_rescales_nothing(factor: float) -> None:
    seen = [evaluation(8, factor, 10), evaluation(8, factor, 11), evaluation(8, 1.0, 12)]
    assert drift_after(seen) == Drift()


def test_drift_seen_at_one_level_is_confirmed_at_another() -> None:
    drift = drift_after([evaluation(8, 1.5, 10), evaluation(8, 1.5, 11), evaluation(4, 1.5, 12)])
    assert [s.factor for s in drift.shifts] == [pytest.approx(1.5, rel=0.02)]


def test_drift_in_opposite_directions_rescales_nothing() -> None:
    assert drift_after([evaluation(8, factor, 10 + i) for i, factor in enumerate([0.6, 1.6] * 3)]).shifts == ()


def test_drift_when_the_job_falls_short_too_then_needs_one_evaluation() -> None:
    assert len(drift_after([evaluation(8, 0.75)], short=True).shifts) == 1
    assert drift_after([evaluation(8, 1.33)], short=True).shifts == (), "more than was known makes no job fall short"
    assert drift_after([evaluation(8, 0.97)], short=True).shifts == (), "and noise is none either"


@pytest.mark.parametrize("p", [6, 12, 16])
@pytest.mark.parametrize("factor", [0.5, 0.7, 1.5])
def test_drift_at_a_level_never_measured_is_no_surprise(p: int, factor: float) -> None:
    seen = [evaluation(p, factor, n) for n in (10, 11, 12)]
    assert drift_after(seen, short=True) == Drift()


@given(noise=st.lists(st.floats(-0.04, 0.04), min_size=1, max_size=12))
def test_drift_when_figures_only_scatter_then_rescales_nothing(noise: list[float]) -> None:
    assert drift_after([evaluation(8, 1 + e, 10 + i) for i, e in enumerate(noise)]).shifts == ()


def test_drift_is_no_surprise_if_the_measurement_is_unsure() -> None:
    unsure = [evaluation(8, 0.75, n, noise=0.2) for n in (10, 11, 12)]
    assert drift_after(unsure) == Drift()


def test_shifts_when_there_are_many_then_the_oldest_are_forgotten() -> None:
    drift = Drift()
    seen, factor = list(KNOWN), 1.0
    for n in range(10, 10 + 3 * MOST_SHIFTS):  # after earlier observations, like new observations
        factor *= 0.5
        drift = update_drift(
            drift, rescale(seen, drift.shifts), evaluation(8, factor, n), NOON + n * LOOK, True, FlowOptions()
        )
        seen.append(evaluation(8, factor, n))
    assert len(drift.shifts) == MOST_SHIFTS


def test_rescale_scales_everything_before_each_shift() -> None:
    times = [NOON, NOON + timedelta(minutes=1), NOON + timedelta(minutes=2)]
    points = [Observation(APP, 2, 100.0, 4.0, 5, t) for t in times]
    shifts = [Shift(times[1], 0.5), Shift(times[2], 0.8)]
    assert [(o.throughput, o.noise) for o in rescale(points, shifts)] == [
        (pytest.approx(40), pytest.approx(1.6)),
        (pytest.approx(80), pytest.approx(3.2)),
        (100, 4),
    ]
    assert rescale(points, ()) == points


@given(at=st.datetimes(datetime(2013, 1, 1), datetime(2013, 1, 2)), factor=st.floats(0.1, 10))
def test_shifted_when_scaled_then_only_abilities_change(at: datetime, factor: float) -> None:
    moved = rescale(KNOWN, [Shift(at.replace(tzinfo=NOON.tzinfo), factor)])
    for before, now in zip(KNOWN, moved, strict=True):
        assert replace(now, throughput=before.throughput, noise=before.noise) == before
