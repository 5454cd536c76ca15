from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation.workload import permutation
from millrace.optimizers.conttune.arrival import (
    LEAST_RUNS,
    MOST_RUNS,
    NEAR,
    SAME,
    TREND_EVALUATIONS,
    RateHistory,
    Run,
    ahead,
    fluctuation,
)


def seen(rates: Iterable[float]) -> RateHistory:
    loads = RateHistory()
    for rate in rates:
        loads = loads.with_rate(rate)
    return loads


def wandering(n: int, sd: float = 0.05, seed: int = 3) -> list[float]:
    """A rate that goes up and down around 100, three evaluations at each."""
    rng = random.Random(seed)
    return [rate for _ in range(n) for rate in [100 * math.exp(rng.gauss(0, sd))] * 3]


# ---- runs


def test_runs_of_similar_rates_are_merged_with_their_mean() -> None:
    loads = seen([100, 101, 99, 100, 150, 151])
    assert loads.runs == (Run(pytest.approx(100), 4), Run(pytest.approx(150.5), 2))


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_runs_hold_every_evaluation_once_and_neighbours_differ(rates: list[float]) -> None:
    loads = seen(rates)
    assert sum(run.evaluations for run in loads.runs) == len(rates)
    assert loads.latest == tuple(rates[-TREND_EVALUATIONS:])
    assert min(rates, default=0) * (1 - 1e-9) <= min((r.rate for r in loads.runs), default=0)


def test_runs_when_there_are_very_many_then_forget_the_oldest() -> None:
    loads = seen(100.0 * 2 ** (i % 2) for i in range(MOST_RUNS + 50))
    assert len(loads.runs) == MOST_RUNS and loads.runs[-1].rate == 200


# ---- fluctuation


def test_fluctuation_covers_nine_tenths_of_a_wandering_rate() -> None:
    rates = wandering(30)
    loads = seen([*rates, 95, 95, 95])
    factor = fluctuation(loads)
    covered = sum(run.evaluations for run in loads.runs[-24:] if run.rate <= 95 * factor * 1.001)
    assert 1 < factor <= 1 + NEAR
    assert 0.8 <= covered / sum(run.evaluations for run in loads.runs[-24:]) < 1


def test_fluctuation_at_the_usual_peak_requires_no_more() -> None:
    assert fluctuation(seen([*wandering(30), 120, 120, 120])) == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_fluctuation_of_the_papers_permutations_is_none(seed: int) -> None:
    rates = [rate[0] for rate in permutation((100.0,), [seed]).rates]
    for end in range(1, len(rates) + 1):
        loads = seen(rate for r in rates[:end] for rate in [r] * 20)
        assert fluctuation(loads) == 1.0, end


def test_fluctuation_of_a_rate_that_only_rises_is_none() -> None:
    assert fluctuation(seen(100 * 1.05**i for i in range(30))) == 1.0
    assert fluctuation(seen(100 / 1.05**i for i in range(30))) == 1.0


def test_fluctuation_with_few_values_or_no_arrivals_is_none() -> None:
    assert fluctuation(RateHistory()) == 1.0
    assert fluctuation(seen([100, 110] * (LEAST_RUNS // 2))) == 1.0
    assert fluctuation(seen([110, 100] * LEAST_RUNS)) == pytest.approx(1.1)
    assert fluctuation(seen([*wandering(30), 0])) == 1.0


def test_fluctuation_leaves_a_far_peak_to_its_own_step() -> None:
    usual = [rate for _ in range(6) for rate in (100, 108, 95, 110)]
    assert fluctuation(seen([*usual, 300, 300, 300, 300, 300, 300, 95])) <= 110 / 95 * (1 + SAME)


# ---- ahead


def test_trend_of_a_steady_rise_predicts_the_rate() -> None:
    soon, later = ahead(seen(100 * 1.02**i for i in range(12)))
    assert soon == pytest.approx(1.02**2, rel=0.01)
    assert later == pytest.approx(1.02**14, rel=0.02)


@pytest.mark.parametrize(
    "rates",
    [
        [100.0] * 8,
        [100 * 0.97**i for i in range(12)],
        [100.0] * 7 + [200.0],
        [100.0] * 4 + [200.0] * 4,
        [100.0, 120.0] * 6,
        [100 * 1.02**i for i in range(TREND_EVALUATIONS - 1)],
        [100 * 1.02**i for i in range(11)] + [0.0],
        [0.0] + [100 * 1.02**i for i in range(TREND_EVALUATIONS - 1)],
        [],
    ],
    ids=[
        "steady",
        "falls",
        "jumped now",
        "jumped before",
        "to and fro",
        "few evaluations",
        "stopped",
        "began",
        "nothing",
    ],
)
def test_ahead_without_a_steady_trend_is_none(rates: list[float]) -> None:
    assert ahead(seen(rates)) == (1.0, 1.0)


def test_trend_of_invalid_figures_is_none() -> None:
    assert ahead(seen([10.0**-e for e in range(320, 0, -40)])) == (1.0, 1.0)


def test_repetition_predicts_a_rise_just_before_it() -> None:
    course = [100.0] * 6 + [300.0] * 4 + [180.0] * 6 + [240.0] * 5
    twice = course * 2
    factors = [ahead(seen([*twice, *course[:n]]))[0] for n in range(1, len(course) + 1)]
    assert factors[4] == pytest.approx(3.0) and factors[3] == 1.0, (
        "the step to 300 is due two evaluations on, not before"
    )
    assert factors[7] == 1.0, "what follows is a fall"
    assert factors[15] == pytest.approx(240 / 180)


@pytest.mark.parametrize("seed", range(6))
def test_repetition_of_a_permutation_seen_once_predicts_nothing(seed: int) -> None:
    rates = [rate[0] for rate in permutation((100.0,), [seed]).rates][:10]
    evaluations = [rate for r in rates for rate in [r] * 20]
    assert all(ahead(seen(evaluations[:n])) == (1.0, 1.0) for n in range(1, len(evaluations) + 1))


@given(st.lists(st.floats(0, 1e15), max_size=40))
def test_factors_are_finite_and_never_below_one(rates: list[float]) -> None:
    loads = seen(rates)
    for factor in (fluctuation(loads), *ahead(loads)):
        assert 1.0 <= factor < math.inf
    soon, later = ahead(loads)
    assert later >= soon
