import numpy as np
import pytest

from benchmarks.simulation.admission_workloads import (
    FILLED,
    SURGE,
    WORKLOADS,
    Size,
    StreamLoad,
    bursty,
    independent,
    paired,
    surge,
)
from millrace.model.errors import MillraceError

SIZE = Size(streams=20, level=2, periods=60)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_workload_when_made_then_has_the_level_and_is_the_same_for_a_seed(name):
    load = WORKLOADS[name](SIZE, 0)

    assert isinstance(load, StreamLoad)
    assert load.rates.shape == (60, 20)
    assert set(load.metadata) == set(load.streams)
    assert load.rates.sum(axis=1).mean() == pytest.approx(FILLED * 2 * SIZE.capacity, rel=0.35)
    assert (WORKLOADS[name](SIZE, 0).rates == load.rates).all()
    assert (WORKLOADS[name](SIZE, 1).rates != load.rates).any()


@pytest.mark.parametrize("trend", [False, True])
def test_paired_when_made_then_the_total_is_constant_and_each_stream_is_not(trend):
    rates = paired(SIZE, 0, trend=trend).rates

    assert np.ptp(rates.sum(axis=1)) < 0.03 * rates.sum(axis=1).mean()
    assert (np.ptp(rates, axis=0) > 0.5 * rates.mean(axis=0)).all()
    both = rates[:, ::2] + rates[:, 1::2]
    assert (both.std(axis=0) < 0.05 * both.mean(axis=0)).all()


def test_independent_when_made_then_the_total_varies():
    total = independent(SIZE, 0, trend=False).rates.sum(axis=1)

    assert np.ptp(total) > 0.1 * total.mean()


def test_metadata_when_a_stream_jumps_then_say_when_and_how_far():
    load = independent(SIZE, 0, trend=False)
    for s, stream in enumerate(load.streams):
        told = load.metadata[stream]
        high = load.rates[:, s] > (told["minimum"] + told["maximum"]) / 2
        cycle = told["high_duration"] + told["low_duration"]
        expected = np.mod(np.arange(60) + 0.5 - told["phase"], cycle) < told["high_duration"]
        assert (high == expected).all()
        assert told["transition"] == "jump"


def test_bursty_when_made_then_does_not_declare_the_phase():
    load = bursty(SIZE, 0)

    assert all("phase" not in told for told in load.metadata.values())
    assert (load.rates == 0).any()


def test_surge_when_made_then_the_load_grows_eightfold_and_falls_back():
    size = Size(streams=60, level=16, periods=100)
    nodes = surge(size, 0).rates.sum(axis=1) / (FILLED * size.capacity)

    assert nodes[:10] == pytest.approx(np.full(10, 16 / SURGE), rel=0.02)
    assert nodes[50:59] == pytest.approx(np.full(9, 16.0), rel=0.02)
    assert (np.diff(nodes[12:40]) > -0.1).all()
    assert (np.diff(nodes[62:98]) < 0.1).all()


def test_surge_when_declared_then_metadata_have_each_rise_and_fall():
    load = surge(Size(streams=20, level=8, periods=100), 0)
    for s, stream in enumerate(load.streams):
        told = load.metadata[stream]
        before, after = int(told["phase"]), int(told["phase"] + told["high_duration"])
        middle = (told["minimum"] + told["maximum"]) / 2
        assert (load.rates[:before, s] < middle).all()
        assert (load.rates[before + int(told["slope_duration"]) : after, s] > middle).all()


@pytest.mark.parametrize("changes", [{"streams": 3}, {"streams": 0}, {"level": 0}, {"periods": 0}, {"capacity": -1.0}])
def test_size_when_zero_then_is_refused(changes):
    with pytest.raises(MillraceError):
        Size(**changes)
