import numpy as np
import pytest

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.characteristics import unknown
from millrace.optimizers.drfm.forecasters import Best, Holt
from millrace.optimizers.drfm.horizon import plan
from millrace.optimizers.drfm.metadata import Metadata
from millrace.optimizers.drfm.rate_forecaster import ForecastOptions, RateForecaster
from millrace.optimizers.drfm.stream_placement import HorizonOptions

C = 1000.0
JUMPS = Metadata(minimum=100.0, maximum=400.0, high_duration=6, low_duration=6, phase=0, transition="jump")


def truth(t, phase=0, high=400.0):
    return high if (t - phase) % 12 < 6 else 100.0


class Run:
    """A forecaster and its state."""

    def __init__(self, metadata=None, forecaster=None, options=None):
        options = options or ForecastOptions()
        self.forecaster = RateForecaster(C, metadata or {}, forecaster or Best(), options)
        self.state = self.forecaster.start()

    def observe(self, period, streams, rate):
        self.state = self.forecaster.observe(self.state, period, streams, rate)

    def ahead(self, periods):
        return self.forecaster.forecast(self.state, periods)

    def plan(self, period, streams, rate, node, nodes):
        self.observe(period, streams, rate)
        return plan(self.forecaster.pose(self.state, 4, node, nodes))


def fed(run, count, rate, stream="a"):
    for t in range(count):
        run.observe(t - 1, [stream], np.array([np.nan if t == 0 else rate(t - 1)]))
    return run


def off(run, rate, periods=12):
    mean, _ = run.ahead(periods)
    return max(abs(mean[k, 0] - rate(run.state.now + 1 + k)) for k in range(periods))


def test_forecast_when_metadata_are_true_then_is_right_from_the_start():
    assert off(fed(Run({"a": JUMPS}), 1, truth), truth) == 0


@pytest.mark.parametrize(
    "rate",
    [lambda t: truth(t, phase=4), lambda t: truth(t, high=520.0), lambda t: truth(t, phase=6)],
    ids=["phase_off", "peak_off", "opposite"],
)
def test_forecast_when_metadata_are_wrong_then_follows_what_was_learned(rate):
    declared = Run({"a": JUMPS})

    assert off(fed(declared, 60, rate), rate) <= 5.0


def test_forecast_when_a_jump_is_declared_a_trend_then_learns_better():
    trend = Metadata(minimum=100.0, maximum=400.0, high_duration=6, low_duration=6, phase=0, slope_duration=6)

    assert off(fed(Run({"a": trend}), 60, truth), truth) <= 5.0


def test_forecast_when_nothing_is_declared_then_learns_after_two_cycles():
    assert off(fed(Run(), 14, truth), truth) > 100
    assert off(fed(Run(), 32, truth), truth) <= 5.0


def test_forecast_when_a_rate_was_missed_early_then_still_learns():
    assert off(fed(Run(), 34, lambda t: np.nan if t == 1 else truth(t)), truth) <= 5.0


def test_forecast_when_a_cycle_was_just_learned_then_forgets_old_errors():
    run = fed(Run(), 32, truth)

    assert np.sqrt(run.ahead(12)[1].max()) < 10


def needed(run, level):
    """Return the capacity that a stream needs now over its rate, with the planner's margin."""
    mean, variance = run.ahead(1)
    return (mean[0, 0] + HorizonOptions().margin * np.sqrt(variance[0, 0])) / level


@pytest.mark.parametrize("periods", range(1, 6))
def test_forecast_when_a_rate_falls_then_is_uncertain_for_one_period(periods):
    noise = np.random.default_rng(2).normal(1, 0.02, 60)
    run = fed(Run(), 40 + periods, lambda t: (400.0 if t < 39 else 100.0) * noise[t])

    assert (needed(run, 100.0) > 2.0) == (periods == 1)


def test_forecast_when_a_rate_falls_for_one_period_only_then_room_is_kept():
    noise = np.random.default_rng(2).normal(1, 0.02, 60)
    run = fed(Run(), 44, lambda t: (100.0 if t == 39 else 400.0) * noise[t])

    assert needed(run, 400.0) > 1.5, "the rise back was an error"


@pytest.mark.parametrize(
    "declared",
    [
        Metadata(maximum=400.0),
        Metadata(maximum=400.0, period=12, transition="jump"),
        Metadata(maximum=280.0, period=9, transition="jump"),
        Metadata(maximum=520.0, period=16, transition="jump"),
        JUMPS.model_copy(update={"phase": None}),
    ],
    ids=["maximum", "papers", "low_and_short", "high_and_long", "no_phase"],
)
def test_forecast_when_a_part_is_declared_then_learns_as_well(declared):
    assert off(fed(Run({"a": declared}), 32, truth), truth) <= 5.0


def test_forecast_when_only_the_maximum_is_declared_then_is_the_same():
    rng = np.random.default_rng(4)
    jitter = rng.normal(0, 10, 60)
    declared, undeclared = (
        fed(Run(known), 60, lambda t: truth(t) + jitter[t]) for known in ({"a": Metadata(maximum=400.0)}, {})
    )

    for mine, theirs in zip(declared.ahead(12), undeclared.ahead(12), strict=True):
        assert mine == pytest.approx(theirs)


def test_forecast_when_the_period_is_declared_then_learns_sooner():
    declared = fed(Run({"a": Metadata(period=12)}), 22, truth)

    assert off(declared, truth) <= 5.0
    assert off(fed(Run(), 22, truth), truth) > 100


def test_forecast_when_others_levels_are_declared_then_ignores_them():
    run = Run({"a": JUMPS.model_copy(update={"phase": None}), "b": Metadata(maximum=900.0)})
    for t in range(6):
        run.observe(t, ["a", "b"], np.array([truth(t), 50.0]))

    mean, variance = run.ahead(4)

    assert mean[:, 1] == pytest.approx([50.0] * 4)
    assert np.sqrt(variance[:, 1].max()) < 25


def test_forecast_when_a_wrong_cycle_is_declared_then_is_no_less_sure():
    wrong, nothing = (fed(Run(declared), 18, truth) for declared in ({"a": JUMPS.model_copy(update={"phase": 4})}, {}))

    assert wrong.ahead(8)[1].max() <= nothing.ahead(8)[1].max()


def test_forecast_when_a_stream_outlives_its_lifetime_then_it_stays():
    run = fed(Run({"a": Metadata(lifetime=4)}), 12, lambda t: 200.0)

    assert run.ahead(3)[0][:, 0] == pytest.approx([200.0] * 3)


def test_forecast_when_learning_is_off_then_only_forecasts():
    assert off(fed(Run(options=ForecastOptions(learns=False)), 60, truth), truth) > 100


@pytest.mark.parametrize("bad", [-5.0, np.nan, np.inf, -np.inf, 1e300, 101 * C])
def test_forecast_when_a_rate_is_impossible_then_continues_as_expected(bad):
    run = fed(Run(), 20, lambda t: 200.0)

    run.observe(19, ["a"], np.array([bad]))
    mean, variance = run.ahead(3)

    assert mean[:, 0] == pytest.approx([200.0] * 3, rel=0.01)
    assert np.isfinite(variance).all()


def test_forecast_when_a_stream_is_new_then_is_the_average_of_the_others():
    run = Run()
    run.observe(0, ["a", "b"], np.array([100.0, 300.0]))
    run.observe(1, ["a", "b", "c"], np.array([100.0, 300.0, np.nan]))

    assert run.ahead(1)[0][0] == pytest.approx([100.0, 300.0, 200.0])


def test_forecast_when_a_stream_is_new_then_varies_as_streams_differ():
    run = Run({"d": Metadata(average=200.0)})
    run.observe(0, ["a", "b"], np.array([100.0, 300.0]))
    run.observe(1, ["a", "b", "c", "d"], np.array([100.0, 300.0, np.nan, np.nan]))

    variance = run.ahead(1)[1][0]

    assert variance[2] - variance[3] == pytest.approx(100.0**2)


def test_forecast_when_streams_jitter_then_a_new_one_jitters_as_much():
    rng, run = np.random.default_rng(0), Run()
    for t in range(40):
        run.observe(t, ["a", "b", "c"], 200.0 + rng.normal(0, 20, 3))
    run.observe(40, ["a", "b", "c", "new"], np.array([200.0, 200.0, 200.0, np.nan]))

    assert 15 < np.sqrt(run.ahead(1)[1][0, 3]) < 30


def test_forecast_when_metadata_come_true_then_learns_nothing(monkeypatch):
    asked = []
    learn = "millrace.optimizers.drfm.rate_forecaster.learn"
    monkeypatch.setattr(learn, lambda history, *_: asked.append(history.shape))

    fed(Run({"a": JUMPS}), 40, truth)

    assert asked == []


def test_variance_far_ahead_is_limited_and_constant_for_cycles():
    rng, run = np.random.default_rng(1), Run({"a": JUMPS}, Holt(), ForecastOptions(learns=False))
    for t in range(40):
        run.observe(t, ["a", "b"], np.array([truth(t), 200.0]) + rng.normal(0, 5, 2))

    _, variance = run.ahead(48)

    assert variance[:, 0] == pytest.approx(np.full(48, variance[0, 0]))
    assert variance[-1, 1] == pytest.approx(4 * variance[0, 1])


def test_forecast_when_periods_pass_then_learns_every_few_of_them(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "millrace.optimizers.drfm.rate_forecaster.learn", lambda history, *_: asked.append(len(history)) or unknown(1)
    )

    fed(Run(options=ForecastOptions(relearn=5, history=16)), 41, truth)

    assert asked == [1, 6, 11, 16, 16, 16, 16, 16]


def test_forecast_when_rates_rise_then_does_not_rise_forever():
    run = fed(Run(options=ForecastOptions(learns=False)), 12, lambda t: 20.0 * t)

    mean, _ = run.ahead(48)

    assert 200 < mean[0, 0] < 240
    assert mean[-1, 0] < 400


def test_forecast_that_runs_away_is_bounded():
    run = fed(Run(forecaster=Holt(), options=ForecastOptions(learns=False)), 6, lambda t: 18 * C * t)

    assert run.ahead(48)[0].max() == 100 * C


def test_forecast_of_an_on_off_stream_varies_as_its_chain():
    run = fed(Run({"a": JUMPS.model_copy(update={"phase": None})}, options=ForecastOptions(learns=False)), 41, truth)

    mean, variance = run.ahead(1)

    assert run.state.rate[0] == 400.0
    assert mean[0, 0] == pytest.approx(100 + 300 * 5 / 6)
    assert variance[0, 0] == pytest.approx(300**2 * 5 / 36)


def test_forecast_when_a_stream_only_visits_then_is_forgotten():
    alone, visited = fed(Run(), 5, truth), Run()
    for t in range(5):
        streams, rates = ["a"], [np.nan if t == 0 else truth(t - 1)]
        if t == 2:
            streams, rates = ["visitor", "a"], [np.nan, *rates]
        visited.observe(t - 1, streams, np.array(rates))

    assert visited.state.streams == ("a",)
    assert visited.ahead(4)[0] == pytest.approx(alone.ahead(4)[0])


def test_forecast_when_a_stream_comes_back_then_is_new():
    run = fed(Run(), 5, lambda t: 900.0)
    run.observe(5, ["b"], np.array([100.0]))
    run.observe(6, ["a", "b"], np.array([np.nan, 100.0]))

    assert run.ahead(1)[0][0, 0] == pytest.approx(100.0)


def test_forecast_when_streams_change_order_then_each_keeps_its_own():
    run = Run()
    run.observe(0, ["a", "b"], np.array([100.0, 300.0]))
    run.observe(1, ["b", "a"], np.array([np.nan, np.nan]))

    assert run.ahead(1)[0][0] == pytest.approx([300.0, 100.0])


@pytest.mark.parametrize(("streams", "rate", "key"), [(["a", "a"], [1.0, 1.0], "streams"), (["a"], [1.0, 2.0], "rate")])
def test_observe_when_rates_do_not_fit_the_streams_then_is_refused(streams, rate, key):
    with pytest.raises(MillraceError) as caught:
        Run().observe(0, streams, np.array(rate))

    assert caught.value.key == key


def test_plan_when_there_is_no_stream_then_plans_nothing_and_continues():
    run = Run()

    assert run.plan(0, [], np.zeros(0), np.zeros(0, dtype=int), 0).nodes == 0
    assert run.plan(1, ["a"], np.array([np.nan]), np.array([-1]), 0).nodes == 1
    assert run.plan(2, [], np.zeros(0), np.zeros(0, dtype=int), 1).nodes == 0


def test_plan_when_a_stream_rises_above_a_node_then_names_it():
    run = Run()
    run.plan(0, ["a", "b"], np.array([400.0, 400.0]), np.array([0, 0]), 1)

    found = run.plan(1, ["a", "b"], np.array([3000.0, 400.0]), np.array([0, 0]), 1)

    assert found.oversized.tolist() == [0]
    assert found.node[0] != found.node[1]


@pytest.mark.parametrize("changes", [{"history": 0}, {"relearn": 0}, {"noise": 2.0}, {"memory": 0.0}, {"absurd": 0.0}])
def test_options_when_out_of_range_then_are_refused(changes):
    with pytest.raises(MillraceError, match=r"admission\.options"):
        ForecastOptions(**changes)
