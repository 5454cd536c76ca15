import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.optimizers.drfm.characteristics import chain, complete, cycle, expect, tabulate, unknown
from millrace.optimizers.drfm.metadata import Metadata

JUMP = Metadata(minimum=2.0, maximum=10.0, high_duration=3, low_duration=4, phase=2, transition="jump")
TREND = Metadata(minimum=0.0, maximum=8.0, high_duration=5, low_duration=4, phase=0, slope_duration=4)


def table(*streams, joined=0.0):
    return tabulate(streams, np.full(len(streams), joined))


def test_cycle_when_the_stream_jumps_then_is_high_from_its_phase_on():
    rates = cycle(table(JUMP), now=-1, periods=10)[:, 0]

    assert rates.tolist() == [2, 2, 10, 10, 10, 2, 2, 2, 2, 10]


def test_cycle_with_a_trend_has_the_rates_of_period_middles():
    rates = cycle(table(TREND), now=-1, periods=10)[:, 0]

    assert rates.tolist() == [1, 3, 5, 7, 8, 7, 5, 3, 1, 1]


def test_cycle_when_the_phase_is_unknown_then_says_nothing():
    assert np.isnan(cycle(table(Metadata(minimum=1.0, maximum=2.0, high_duration=3, low_duration=3)), 0, 3)).all()


@settings(deadline=None)
@given(now=st.integers(-5, 500), periods=st.integers(1, 20), phase=st.floats(0, 30))
def test_cycle_repeats_and_stays_between_its_levels(now, periods, phase):
    declared = table(Metadata(minimum=1.0, maximum=7.0, high_duration=6, low_duration=5, phase=phase, slope_duration=3))

    rates = cycle(declared, now, periods)

    assert rates == pytest.approx(cycle(declared, now + 11, periods), abs=1e-6)
    assert ((rates >= 1) & (rates <= 7)).all()


@pytest.mark.parametrize("high", [True, False])
def test_chain_has_the_mean_and_variance_of_many_runs(high):
    declared = table(Metadata(minimum=1.0, maximum=9.0, high_duration=4, low_duration=8))
    rng = np.random.default_rng(0)
    on = np.full(200_000, high)
    mean, variance = chain(declared, np.array([9.0 if high else 1.0]), 6)
    for k in range(6):
        on = on ^ (rng.random(len(on)) < np.where(on, 1 / 4, 1 / 8))
        rates = np.where(on, 9.0, 1.0)
        assert mean[k, 0] == pytest.approx(rates.mean(), abs=0.05)
        assert variance[k, 0] == pytest.approx(rates.var(), rel=0.03)


def test_chain_of_an_unseen_stream_is_its_long_run():
    mean, _ = chain(table(Metadata(minimum=0.0, maximum=12.0, high_duration=4, low_duration=8)), np.array([np.nan]), 3)

    assert mean[:, 0] == pytest.approx([4.0, 4.0, 4.0])


def test_expect_when_a_lifetime_ends_then_expects_nothing_more():
    declared = table(Metadata(lifetime=3.0), joined=10.0)

    mean, _ = expect(declared, 10, np.array([6.0]), np.full((4, 1), 6.0))

    assert mean[:, 0].tolist() == [6.0, 6.0, 0.0, 0.0]


def test_complete_fills_missing_values_by_averages_of_the_others():
    declared = table(JUMP, Metadata(minimum=4.0, maximum=20.0, high_duration=5, low_duration=6), Metadata(average=7.0))

    rates = complete(declared, np.full(3, np.nan))

    assert (rates.low[2], rates.high[2], rates.up[2], rates.down[2]) == (3.0, 15.0, 4.0, 5.0)
    assert np.isnan(rates.phase[2])


def test_complete_lets_averages_yield_to_declared_values():
    declared = table(Metadata(maximum=1.0), Metadata(minimum=5.0, maximum=9.0, average=6.0))

    rates = complete(declared, np.array([0.5, 6.0]))

    assert rates.low[0] <= 0.5
    assert rates.high[0] == 1.0


def test_complete_when_only_rates_are_known_then_has_only_their_average():
    rates = complete(table(JUMP, None), np.array([4.0, 30.0]))

    assert rates.average[1] == 30.0
    assert np.isnan([rates.low[1], rates.high[1], rates.up[1]]).all()


def test_complete_when_nothing_is_known_then_stays_unknown():
    assert np.isnan(complete(unknown(2), np.full(2, np.nan)).average).all()
    assert len(complete(unknown(0), np.zeros(0)).low) == 0


def test_chain_when_the_stream_never_stays_high_then_is_at_least_low():
    declared = table(Metadata(minimum=0.0, maximum=1.0, high_duration=1, low_duration=37 / 3))
    mean, variance = chain(declared, np.array([1.0]), 3)

    assert mean[0, 0] == 0.0
    assert (mean >= 0).all() and (variance >= 0).all()
