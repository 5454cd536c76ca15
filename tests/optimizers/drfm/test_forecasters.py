import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.forecasters import Best, ExponentialSmoothing, Holt, Seasonal
from tests.examples import examples

ALL = [Holt(), Holt(damping=0.8), Seasonal(season=1), Seasonal(season=3), ExponentialSmoothing(), Best()]
RATES = arrays(float, st.tuples(st.integers(1, 12), st.integers(0, 4)), elements=st.floats(0, 1e6))


def run(forecaster, history):
    state = forecaster.start(history[0])
    for rate in history[1:]:
        state = forecaster.update(state, rate)
    return state


def test_holt_when_followed_by_hand_then_gives_the_papers_recursion():
    alpha, gamma, level, trend = 0.8, 0.3, 10.0, 0.0
    for x in (14.0, 12.0, 20.0):
        before = level
        level = alpha * x + (1 - alpha) * (level + trend)
        trend = gamma * (level - before) + (1 - gamma) * trend

    state = run(Holt(alpha=alpha, gamma=gamma), np.array([[10.0], [14.0], [12.0], [20.0]]))

    assert Holt(alpha=alpha, gamma=gamma).forecast(state, 3)[:, 0] == pytest.approx(
        [level + k * trend for k in (1, 2, 3)]
    )


def test_holt_when_a_rate_falls_to_nothing_then_does_not_forecast_less():
    state = run(Holt(), np.array([[100.0], [50.0], [1.0]]))

    assert state[1, 0] < 0
    assert Holt().forecast(state, 50).min() == 0.0


@pytest.mark.parametrize("forecaster", ALL, ids=lambda f: type(f).__name__)
@examples(40)
@given(history=RATES)
def test_forecaster_treats_streams_alike_and_never_forecasts_below_zero(forecaster, history):
    whole = forecaster.forecast(run(forecaster, history), 4)

    assert whole.shape == (4, history.shape[1])
    assert (whole >= 0).all()
    for s in range(history.shape[1]):
        alone = forecaster.forecast(run(forecaster, history[:, s : s + 1]), 4)
        assert alone[:, 0] == pytest.approx(whole[:, s])


@pytest.mark.parametrize("forecaster", ALL, ids=lambda f: type(f).__name__)
def test_forecaster_when_a_rate_was_missed_then_continues_with_its_forecast(forecaster):
    state = run(forecaster, np.array([[4.0], [5.0], [6.0], [7.0]]))
    expected = forecaster.forecast(state, 3)

    missed = forecaster.update(state, np.array([np.nan]))

    assert forecaster.forecast(missed, 2) == pytest.approx(expected[1:])


@pytest.mark.parametrize("forecaster", ALL, ids=lambda f: type(f).__name__)
def test_spread_of_the_first_period_is_one_and_does_not_shrink(forecaster):
    found = forecaster.spread(forecaster.start(np.ones(2)), 6)

    assert found.shape == (6, 2)
    assert (found[0] == 1).all()
    assert (np.diff(found, axis=0) >= 0).all()


@pytest.mark.parametrize("damping", [1.0, 0.7])
def test_spread_when_rates_wander_then_is_the_variance_of_the_errors(damping):
    """Rates made by Holt's own model: errors k periods ahead have the variance from the book."""
    rng, model = np.random.default_rng(0), Holt(alpha=0.6, gamma=0.4, damping=damping)
    ahead, noise = 4, rng.normal(size=(5, 40_000))
    state = np.stack([np.full(40_000, 1e3), np.zeros(40_000)])
    forecast = model.forecast(state, ahead)
    for k in range(ahead):
        rate = state[0] + damping * state[1] + noise[k]
        if k == ahead - 1:
            assert (rate - forecast[-1]).var() == pytest.approx(model.spread(state, ahead)[-1, 0], rel=0.05)
        state = model.update(state, rate)


def test_seasonal_when_a_season_is_over_then_repeats_it():
    state = run(Seasonal(season=3), np.array([[1.0], [2.0], [3.0], [1.0], [2.0]]))

    assert Seasonal(season=3).forecast(state, 4)[:, 0].tolist() == [3.0, 1.0, 2.0, 3.0]


def test_level_is_a_mean_at_first_and_a_moving_one_later():
    few = run(ExponentialSmoothing(alpha=0.25), np.array([[4.0], [np.nan], [8.0]]))
    many = run(ExponentialSmoothing(alpha=0.25), np.array([[4.0]] * 10 + [[8.0]]))

    assert ExponentialSmoothing(alpha=0.25).forecast(few, 2)[:, 0].tolist() == [6.0, 6.0]
    assert ExponentialSmoothing(alpha=0.25).forecast(many, 1)[0, 0] == pytest.approx(5.0)


def test_holt_when_damped_then_the_trend_fades_far_ahead():
    history = 10.0 * np.arange(1.0, 20.0)[:, None]
    straight, damped = (m.forecast(run(m, history), 60)[:, 0] for m in (Holt(), Holt(damping=0.8)))

    assert np.diff(straight) == pytest.approx(np.diff(straight)[0])
    assert np.diff(damped) == pytest.approx(np.diff(damped)[0] * 0.8 ** np.arange(59.0))


def test_best_gives_each_stream_its_own_forecaster():
    rng = np.random.default_rng(3)
    history = np.column_stack([100 + rng.normal(0, 10, 60), 10.0 * np.arange(60)])
    best = Best(forecasters=(ExponentialSmoothing(), Holt()))
    state = run(best, history)

    level, holt = (f.forecast(run(f, history), 3) for f in best.forecasters)
    assert best.forecast(state, 3)[:, 0] == pytest.approx(level[:, 0])
    assert best.forecast(state, 3)[:, 1] == pytest.approx(holt[:, 1])
    assert best.spread(state, 3)[-1, 0] < best.spread(state, 3)[-1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Holt(alpha=1.1),
        lambda: Holt(gamma=-0.1),
        lambda: Seasonal(season=0),
        lambda: Holt(damping=2.0),
        lambda: ExponentialSmoothing(alpha=-0.1),
        lambda: Best(memory=0.0),
        lambda: Best(forecasters=()),
    ],
)
def test_forecaster_when_an_option_is_out_of_range_then_is_refused(make):
    with pytest.raises(MillraceError, match=r"admission\.options"):
        make()
