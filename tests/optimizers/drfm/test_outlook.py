from dataclasses import replace

import numpy as np
import pytest

from include.model.errors import MillraceError
from optimizers.drfm.admission import Admission
from optimizers.drfm.forecast.holt import Holt
from optimizers.drfm.forecast.naive import Seasonal
from optimizers.drfm.horizon.planner import plan
from optimizers.drfm.metadata.stream import Metadata
from optimizers.drfm.metadata.table import unknown
from optimizers.drfm.outlook import Options, Outlook

C = 1000.0
JUMPS = Metadata(minimum=100.0, maximum=400.0, high_duration=6, low_duration=6, phase=0, transition="jump")


def truth(t, phase=0, high=400.0):
    return high if (t - phase) % 12 < 6 else 100.0


def fed(outlook, count, rate, stream="a"):
    for t in range(count):
        outlook.observe(t - 1, [stream], np.array([np.nan if t == 0 else rate(t - 1)]))
        outlook.ahead(4)
    return outlook


def off(outlook, rate, periods=12):
    mean, _ = outlook.ahead(periods)
    return max(abs(mean[k, 0] - rate(outlook.now + 1 + k)) for k in range(periods))


def test_outlook_when_metadata_are_true_then_foresees_the_first_period_already():
    assert off(fed(Outlook(C, {"a": JUMPS}), 1, truth), truth) == 0


@pytest.mark.parametrize(
    "rate",
    [lambda t: truth(t, phase=4), lambda t: truth(t, high=520.0), lambda t: truth(t, phase=6)],
    ids=["phase_off", "peak_off", "opposite"],
)
def test_outlook_when_metadata_are_wrong_then_follows_what_was_learned(rate):
    told = Outlook(C, {"a": JUMPS})

    assert off(fed(told, 60, rate), rate) <= 5.0


def test_outlook_when_a_jump_is_called_a_trend_then_follows_what_was_learned():
    trend = Metadata(minimum=100.0, maximum=400.0, high_duration=6, low_duration=6, phase=0, slope_duration=6)

    assert off(fed(Outlook(C, {"a": trend}), 60, truth), truth) <= 5.0


def test_outlook_when_nothing_is_told_then_learns_after_two_cycles():
    assert off(fed(Outlook(C), 14, truth), truth) > 100
    assert off(fed(Outlook(C), 32, truth), truth) <= 5.0


def test_outlook_when_a_rate_was_missed_early_then_learns_nevertheless():
    assert off(fed(Outlook(C), 34, lambda t: np.nan if t == 1 else truth(t)), truth) <= 5.0


def test_outlook_when_a_cycle_was_just_learned_then_forgets_the_errors_made_before():
    outlook = fed(Outlook(C), 32, truth)

    assert np.sqrt(outlook.ahead(12)[1].max()) < 10


@pytest.mark.parametrize(
    "told",
    [
        Metadata(maximum=400.0),
        Metadata(maximum=400.0, period=12, transition="jump"),
        Metadata(maximum=280.0, period=9, transition="jump"),
        Metadata(maximum=520.0, period=16, transition="jump"),
        replace(JUMPS, phase=None),
    ],
    ids=["maximum", "papers", "low_and_short", "high_and_long", "no_phase"],
)
def test_outlook_when_a_part_is_told_right_or_wrong_then_learns_as_well(told):
    assert off(fed(Outlook(C, {"a": told}), 32, truth), truth) <= 5.0


def test_outlook_when_only_the_maximum_is_told_then_foresees_what_it_would_without():
    rng = np.random.default_rng(4)
    jitter = rng.normal(0, 10, 60)
    told, untold = (fed(Outlook(C, known), 60, lambda t: truth(t) + jitter[t]) for known in ({"a": told_maximum()}, {}))

    for mine, theirs in zip(told.ahead(12), untold.ahead(12), strict=True):
        assert mine == pytest.approx(theirs)


def told_maximum():
    return Metadata(maximum=400.0)


def test_outlook_when_the_period_is_told_then_learns_after_a_cycle_and_a_half():
    told = fed(Outlook(C, {"a": Metadata(period=12)}), 22, truth)

    assert off(told, truth) <= 5.0
    assert off(fed(Outlook(C), 22, truth), truth) > 100


def test_outlook_when_levels_of_others_are_told_then_a_stream_that_was_seen_is_not_taken_to_have_them():
    outlook = Outlook(C, {"a": replace(JUMPS, phase=None), "b": Metadata(maximum=900.0)})
    for t in range(6):
        outlook.observe(t, ["a", "b"], np.array([truth(t), 50.0]))
        outlook.ahead(4)

    mean, variance = outlook.ahead(4)

    assert mean[:, 1] == pytest.approx([50.0] * 4)
    assert np.sqrt(variance[:, 1].max()) < 25


def test_outlook_when_a_wrong_cycle_is_told_then_is_no_more_unsure_than_without():
    wrong, nothing = (fed(Outlook(C, told), 18, truth) for told in ({"a": replace(JUMPS, phase=4)}, {}))

    assert wrong.ahead(8)[1].max() <= nothing.ahead(8)[1].max()


def test_outlook_when_a_stream_outlives_what_is_told_then_is_expected_to_stay():
    outlook = fed(Outlook(C, {"a": Metadata(lifetime=4)}), 12, lambda t: 200.0)

    assert outlook.ahead(3)[0][:, 0] == pytest.approx([200.0] * 3)


def test_outlook_when_learning_is_off_then_only_forecasts():
    assert off(fed(Outlook(C, options=Options(learns=False)), 60, truth), truth) > 100


@pytest.mark.parametrize("bad", [-5.0, np.nan, np.inf, -np.inf, 1e300, 101 * C])
def test_outlook_when_a_rate_is_negative_missing_or_exploding_then_goes_on_as_expected(bad):
    outlook = fed(Outlook(C), 20, lambda t: 200.0)

    outlook.observe(19, ["a"], np.array([bad]))
    mean, variance = outlook.ahead(3)

    assert mean[:, 0] == pytest.approx([200.0] * 3, rel=0.01)
    assert np.isfinite(variance).all()


def test_outlook_when_a_stream_is_new_and_unknown_then_expects_the_average_of_the_others():
    outlook = Outlook(C)
    outlook.observe(0, ["a", "b"], np.array([100.0, 300.0]))
    outlook.observe(1, ["a", "b", "c"], np.array([100.0, 300.0, np.nan]))

    assert outlook.ahead(1)[0][0] == pytest.approx([100.0, 300.0, 200.0])


def test_outlook_when_a_stream_is_new_and_unknown_then_is_as_unsure_as_streams_differ():
    outlook = Outlook(C, {"d": Metadata(average=200.0)})
    outlook.observe(0, ["a", "b"], np.array([100.0, 300.0]))
    outlook.observe(1, ["a", "b", "c", "d"], np.array([100.0, 300.0, np.nan, np.nan]))

    variance = outlook.ahead(1)[1][0]

    assert variance[2] - variance[3] == pytest.approx(100.0**2)


def test_outlook_when_streams_jitter_then_a_new_one_is_taken_to_jitter_as_much():
    rng, outlook = np.random.default_rng(0), Outlook(C)
    for t in range(40):
        outlook.observe(t, ["a", "b", "c"], 200.0 + rng.normal(0, 20, 3))
        outlook.ahead(4)
    outlook.observe(40, ["a", "b", "c", "new"], np.array([200.0, 200.0, 200.0, np.nan]))

    assert 15 < np.sqrt(outlook.ahead(1)[1][0, 3]) < 30


def test_outlook_when_told_metadata_come_true_then_no_history_is_learned_from(monkeypatch):
    asked = []
    monkeypatch.setattr("optimizers.drfm.outlook.learn", lambda history, *_: asked.append(history.shape))

    fed(Outlook(C, {"a": JUMPS}), 40, truth)

    assert asked == []


def test_outlook_when_looking_far_then_doubts_forecasts_up_to_a_limit_and_cycles_no_more_than_near():
    rng, outlook = np.random.default_rng(1), Outlook(C, {"a": JUMPS}, Holt(), Options(learns=False))
    for t in range(40):
        outlook.observe(t, ["a", "b"], np.array([truth(t), 200.0]) + rng.normal(0, 5, 2))
        outlook.ahead(2)

    _, variance = outlook.ahead(48)

    assert variance[:, 0] == pytest.approx(np.full(48, variance[0, 0]))
    assert variance[-1, 1] == pytest.approx(4 * variance[0, 1])


def test_outlook_when_periods_pass_then_learns_every_few_of_them(monkeypatch):
    asked = []
    monkeypatch.setattr("optimizers.drfm.outlook.learn", lambda history, *_: asked.append(len(history)) or unknown(1))

    fed(Outlook(C, options=Options(relearn=5, history=16)), 41, truth)

    assert asked == [1, 6, 11, 16, 16, 16, 16, 16]


def test_outlook_when_rates_rise_then_does_not_expect_them_to_rise_for_ever():
    outlook = fed(Outlook(C, options=Options(learns=False)), 12, lambda t: 20.0 * t)

    mean, _ = outlook.ahead(48)

    assert 200 < mean[0, 0] < 240
    assert mean[-1, 0] < 400


def test_outlook_when_a_forecast_runs_away_then_stays_within_reason():
    outlook = fed(Outlook(C, forecaster=Holt(), options=Options(learns=False)), 6, lambda t: 18 * C * t)

    assert outlook.ahead(48)[0].max() == 100 * C


def test_outlook_when_a_stream_is_on_and_off_then_is_as_unsure_as_its_chain():
    outlook = fed(Outlook(C, {"a": replace(JUMPS, phase=None)}, options=Options(learns=False)), 41, truth)

    mean, variance = outlook.ahead(1)

    assert outlook.rate[0] == 400.0
    assert mean[0, 0] == pytest.approx(100 + 300 * 5 / 6)
    assert variance[0, 0] == pytest.approx(300**2 * 5 / 36)


def test_outlook_when_a_stream_joins_and_leaves_within_a_period_then_is_forgotten():
    alone, visited = fed(Outlook(C), 5, truth), Outlook(C)
    for t in range(5):
        streams, rates = ["a"], [np.nan if t == 0 else truth(t - 1)]
        if t == 2:
            streams, rates = ["visitor", "a"], [np.nan, *rates]
        visited.observe(t - 1, streams, np.array(rates))
        visited.ahead(4)

    assert visited.streams == ("a",)
    assert visited.ahead(4)[0] == pytest.approx(alone.ahead(4)[0])


def test_outlook_when_a_stream_comes_back_then_is_new():
    outlook = fed(Outlook(C), 5, lambda t: 900.0)
    outlook.observe(5, ["b"], np.array([100.0]))
    outlook.observe(6, ["a", "b"], np.array([np.nan, 100.0]))

    assert outlook.ahead(1)[0][0, 0] == pytest.approx(100.0)


def test_outlook_when_columns_change_places_then_each_stream_keeps_its_own():
    outlook = Outlook(C)
    outlook.observe(0, ["a", "b"], np.array([100.0, 300.0]))
    outlook.observe(1, ["b", "a"], np.array([np.nan, np.nan]))

    assert outlook.ahead(1)[0][0] == pytest.approx([300.0, 100.0])


@pytest.mark.parametrize(("streams", "rate", "key"), [(["a", "a"], [1.0, 1.0], "streams"), (["a"], [1.0, 2.0], "rate")])
def test_outlook_when_what_is_observed_does_not_fit_then_is_refused(streams, rate, key):
    with pytest.raises(MillraceError) as caught:
        Outlook(C).observe(0, streams, np.array(rate))

    assert caught.value.key == key


def test_admission_when_there_is_no_stream_then_plans_nothing_and_goes_on():
    admission = Admission(Outlook(C), plan, C, 4)

    assert admission.look(0, [], np.zeros(0), np.zeros(0, dtype=int), 0).nodes == 0
    joined = admission.look(1, ["a"], np.array([np.nan]), np.array([-1]), 0)
    assert joined.nodes == 1
    assert admission.look(2, [], np.zeros(0), np.zeros(0, dtype=int), 1).nodes == 0


def test_admission_when_a_stream_rises_above_a_node_then_names_it():
    admission = Admission(Outlook(C), plan, C, 4)
    admission.look(0, ["a", "b"], np.array([400.0, 400.0]), np.array([0, 0]), 1)

    found = admission.look(1, ["a", "b"], np.array([3000.0, 400.0]), np.array([0, 0]), 1)

    assert found.oversized.tolist() == [0]
    assert found.node[0] != found.node[1]


@pytest.mark.parametrize("changes", [{"history": 0}, {"relearn": 0}, {"noise": 2.0}, {"memory": 0.0}, {"absurd": 0.0}])
def test_options_when_out_of_range_then_are_refused(changes):
    with pytest.raises(MillraceError, match=r"admission\.options"):
        Options(**changes)


@pytest.mark.parametrize("forecaster", [Holt(), Seasonal(6)])
def test_outlook_when_restored_then_goes_on_as_the_old_one_would_have(forecaster):
    def new():
        return Outlook(C, {"a": JUMPS}, forecaster, Options(relearn=3, history=30))

    rng = np.random.default_rng(3)
    rates = rng.uniform(0, 400, (60, 3)) + [[truth(t), 0, 0] for t in range(60)]
    rates[rng.random(rates.shape) < 0.1] = np.nan
    whole, part = new(), new()
    for t in range(60):
        streams = ["a", "b", "c"][: 2 + (t > 20)]
        if t == 30:
            kept, part = part.snapshot(), new()
            part.restore(kept)
        for outlook in (whole, part):
            outlook.observe(t, streams, rates[t, : len(streams)])
        assert all(np.array_equal(x, y) for x, y in zip(whole.ahead(5), part.ahead(5), strict=True))
        assert np.array_equal(whole.expected, part.expected) and np.array_equal(part.expected, part.ahead(1)[0][0])


def test_outlook_when_restored_from_a_snapshot_without_errors_of_each_source_then_goes_on():
    old = fed(Outlook(C), 40, truth)
    kept = old.snapshot()
    columns = {**kept.columns, "error": kept.columns["error"][1], "expected": kept.columns["expected"][:3]}

    outlook = Outlook(C)
    outlook.restore(replace(kept, columns=columns))
    for each in (old, outlook):
        each.observe(39, ["a"], np.array([truth(39)]))

    assert off(outlook, truth) <= 5.0
    assert outlook.ahead(12)[1] == pytest.approx(old.ahead(12)[1])


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"error": np.zeros((2, 1))}, "columns.error"),
        ({"expected": np.zeros((2, 1))}, "columns.expected"),
        ({"rate": np.zeros(2)}, "columns.rate"),
        ({"state": np.zeros((5, 1))}, "columns.state"),
        ({"learned.low": np.zeros((2, 2))}, "columns.learned.low"),
    ],
)
def test_outlook_when_a_snapshot_is_of_another_making_then_is_refused(change, key):
    kept = fed(Outlook(C), 5, truth).snapshot()
    with pytest.raises(MillraceError) as caught:
        Outlook(C).restore(replace(kept, columns={**kept.columns, **change}))

    assert caught.value.key == key
