import json
from dataclasses import replace

import numpy as np
import pytest

from millrace.optimizers.drfm import memory
from millrace.optimizers.drfm.admission_state import AdmissionState
from millrace.optimizers.drfm.forecasters import Holt, Seasonal
from millrace.optimizers.drfm.metadata import Metadata
from millrace.optimizers.drfm.rate_forecaster import ForecastOptions, RateForecaster

C, HOUR_S = 1000.0, 3600
JUMPS = Metadata(minimum=100.0, maximum=400.0, high_duration=6, low_duration=6, phase=0, transition="jump")


def truth(t):
    return 400.0 if t % 12 < 6 else 100.0


def fed(forecaster, count):
    state = forecaster.start()
    for t in range(count):
        state = forecaster.observe(state, t, ["a"], np.array([truth(t)]))
    return state


def stored(forecast):
    streams = len(forecast.streams)
    none = np.zeros(streams, dtype=int)
    state = AdmissionState(forecast.now + 1, forecast.streams, none, none, forecast)
    return json.loads(json.dumps(memory.write(state, HOUR_S), allow_nan=False))


def read(value, forecaster):
    return memory.read(value, HOUR_S, forecaster)


@pytest.mark.parametrize("kind", [Holt(), Seasonal(season=6)])
def test_forecast_when_read_back_then_continues_unchanged(kind):
    forecaster = RateForecaster(C, {"a": JUMPS}, kind, ForecastOptions(relearn=3, history=30))
    rng = np.random.default_rng(3)
    rates = rng.uniform(0, 400, (60, 3)) + [[truth(t), 0, 0] for t in range(60)]
    rates[rng.random(rates.shape) < 0.1] = np.nan
    whole = part = forecaster.start()
    for t in range(60):
        streams = ["a", "b", "c"][: 2 + (t > 20)]
        if t == 30:
            part = read(stored(part), forecaster).forecast
        whole, part = (forecaster.observe(state, t, streams, rates[t, : len(streams)]) for state in (whole, part))
        both = [(*forecaster.forecast(state, 5), state.expected) for state in (whole, part)]
        assert all(np.array_equal(x, y) for x, y in zip(*both, strict=True))
        assert np.array_equal(part.expected, forecaster.forecast(part, 1)[0][0])


@pytest.mark.parametrize(
    "change",
    [
        {"error": [[0.0], [0.0]]},
        {"expected": [[0.0], [0.0]]},
        {"rate": [0.0, 0.0]},
        {"state": [[0.0]] * 5},
        {"learned.low": [[0.0, 0.0]] * 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_memory_when_forecasts_have_another_format_then_starts_over(change):
    forecaster = RateForecaster(C)
    value = stored(fed(forecaster, 5))
    value["columns"] |= change

    state = read(value, forecaster)

    assert state.streams == ("a",)
    assert state.forecast.streams == ()


def test_memory_when_metadata_change_then_the_new_ones_are_declared():
    told_nothing = RateForecaster(C)
    knowing = replace(told_nothing, metadata={"a": JUMPS})

    assert read(stored(fed(told_nothing, 5)), knowing).forecast.declared.high.tolist() == [400.0]


def test_memory_of_version_0_2_is_read():
    forecaster = RateForecaster(C)
    value = stored(fed(forecaster, 5))
    del value["columns"]["fallen"]

    assert read(value, forecaster).forecast.streams == ("a",)


def test_memory_keeps_the_keys_of_stored_memories():
    value = stored(fed(RateForecaster(C), 5))

    assert list(value) == ["period_s", "until", "streams", "node", "seen", "foreseen", "columns"]
    assert list(value["foreseen"]) == ["forecast", "came", "off"]
    learned = [f"learned.{n}" for n in ("low", "high", "average", "up", "down", "phase", "ramp", "ends")]
    own = ["joined", "seen", "total", "error", "fallen", "trust", "learned_trust", "rate", "history"]
    own += ["expected", "state"]
    assert set(value["columns"]) == {*own, *learned}
