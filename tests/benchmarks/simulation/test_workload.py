from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulation.drift import Drift, Event
from benchmarks.simulation.workload import Workload, diurnal, permutation, random_walk, recorded, stepwise
from millrace.model.errors import MillraceError
from tests.examples import examples


@given(seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=20)
def test_permutation_when_drawn_then_holds_ten_rates_twice_in_the_same_order_as_20_tunings(seed: int) -> None:
    made = permutation((100.0, 20.0), [seed])
    multiples = [rates[0] / 100 for rates in made.rates]
    assert sorted(multiples[:10]) == list(range(1, 11)) and multiples[10:] == multiples[:10]
    assert len(made.tunings) == 20 and made.until == 12_000
    assert all(b == pytest.approx(a / 5) for a, b in made.rates)


def test_rates_at_a_change_are_the_new_ones_from_it_on_and_the_old_ones_before() -> None:
    made = stepwise((1.0,), [1.0, 2.0, 3.0])
    assert [made.at(t) for t in (0, 599.9, 600, 1200, 5000)] == [0, 0, 1, 2, 2]
    assert [made.before(t) for t in (0, 600, 600.1, 1200)] == [0, 0, 1, 1]


def test_means_when_a_change_falls_inside_then_are_weighted_by_time_per_source() -> None:
    made = stepwise((1.0, 10.0), [1.0, 3.0, 2.0])
    assert made.means(0, 600) == made.means(10, 20) == pytest.approx((1, 10))
    assert made.means(500, 700) == pytest.approx((2, 20))
    assert made.means(0, 1800) == pytest.approx((2, 20))
    assert sum(made.means(590, 1210)) == pytest.approx((10 * 11 + 600 * 33 + 10 * 22) / 620)


@given(seed=st.integers(0, 100), cuts=st.lists(st.floats(1, 5999), min_size=2, max_size=2, unique=True).map(sorted))
@examples(30)
def test_means_when_a_span_is_split_then_combine_to_its_mean(seed: int, cuts: list[float]) -> None:
    made, (a, b) = permutation((100.0,), [seed]), cuts
    parts = [made.means(begin, end)[0] * (end - begin) for begin, end in ((0, a), (a, b), (b, 6000))]
    assert sum(parts) == pytest.approx(made.means(0, 6000)[0] * 6000)
    assert min(made.rates)[0] - 1e-6 <= made.means(a, b)[0] <= made.peak[0] + 1e-6


def test_stepwise_when_a_rate_stays_then_starts_no_tuning() -> None:
    assert stepwise((1.0,), [1.0, 1.0, 2.0]).tunings == (0.0, 1200.0)


def test_delayed_when_a_phase_is_given_then_all_but_the_first_change_move() -> None:
    made = stepwise((1.0,), [1.0, 2.0]).delayed(7.0)
    assert made.times == made.tunings == (0.0, 607.0) and made.until == 1207.0


def test_recorded_when_minutes_are_joined_then_holds_their_maxima() -> None:
    made = recorded((10.0, 30.0), [1, 5, 2, 2, 2, 4, 3], minutes=5)
    assert made.rates == ((100.0, 300.0), (80.0, 240.0)) and made.times == (0.0, 300.0) and made.until == 600.0


def test_recorded_when_nothing_is_positive_then_is_refused() -> None:
    with pytest.raises(MillraceError, match=r"workload\.values"):
        recorded((1.0,), [0.0])


def test_diurnal_when_days_pass_then_rise_and_fall_and_one_spike_returns() -> None:
    made = diurnal((1.0,), [4], days=3, noise=0.0)
    day = len(made.rates) // 3
    plain = diurnal((1.0,), [4], days=1, spike=1.0, noise=0.0)
    ratio = [[made.rates[d * day + i][0] / plain.rates[i][0] for i in range(day)] for d in range(3)]
    always = [i for i in range(day) if all(r[i] > 1.2 for r in ratio)]
    assert len(always) >= 5 and any(r[i] > 1.2 for r in ratio for i in range(day) if i not in always)
    assert min(r[0] for r in plain.rates) == pytest.approx(2.0) and max(r[0] for r in plain.rates) == pytest.approx(8.0)
    assert len(made.tunings) == made.until / 600


@given(seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=20)
def test_random_walk_when_it_wanders_then_stays_within_its_bounds(seed: int) -> None:
    values = [r[0] for r in random_walk((1.0,), [seed], step_sd=0.3).rates]
    assert min(values) >= 1 - 1e-9 and max(values) <= 10 + 1e-9 and len(set(values)) == len(values)


@pytest.mark.parametrize(
    ("times", "rates"),
    [((1.0,), ((1.0,),)), ((0.0, 0.0), ((1.0,), (1.0,))), ((0.0,), ((1.0,), (2.0,))), ((0.0,), ((-1.0,),)), ((), ())],
)
def test_workload_when_times_are_invalid_then_is_refused(
    times: tuple[float, ...], rates: tuple[tuple[float, ...], ...]
) -> None:
    with pytest.raises(MillraceError, match="workload"):
        Workload(times, rates, (0.0,), 600.0)


def test_drift_when_sudden_then_applies_from_its_start() -> None:
    drift = Drift((Event(100.0, 0.75, operators=("a",)),))
    assert drift.factors(("a", "b"), 99.9) == (1.0, 1.0) and drift.factors(("a", "b"), 100.0) == (0.75, 1.0)


def test_drift_when_gradual_then_is_even_and_several_multiply() -> None:
    drift = Drift((Event(0.0, 0.5, over_s=100.0), Event(50.0, 0.5)))
    assert drift.factors(("a",), 25.0) == (0.875,) and drift.factors(("a",), 100.0) == (0.25,)
