from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.model.signals import AppSignals, Capacity, Observation, Signals
from millrace.reporting.recorded_throughputs import EXPONENT, RecordedThroughput, throughputs

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
LEVELS = st.dictionaries(st.integers(1, 64), st.floats(1, 1e6), min_size=1, max_size=6)


def signals_of(p: int, rate: float | None, fixed_s: float = 1.0, ran: int | None = None, **more: object) -> Signals:
    capacity = None if rate is None else Capacity(ran or p, fixed_s, rate, 0.02 * rate, 9)
    app = AppSignals("a", p, ran or p, ran is not None, 100.0, 90.0, 5, 0.0, 9, 8, 0.9, 0.0, 0.5, capacity)
    changed = AppSignals(**{**{f: getattr(app, f) for f in app.__dataclass_fields__}, **more})  # type: ignore[arg-type]
    return Signals("a", NOON - timedelta(seconds=60), NOON, 1, 1, (changed,))


def test_level_that_ran_has_its_mean_throughput() -> None:
    found = throughputs("a", [signals_of(2, 400.0, 1.0), signals_of(2, 500.0, 2.0), signals_of(4, 800.0)])
    assert found.rate(2) == pytest.approx(450.0) and found.fixed(2) == pytest.approx(1.5)
    assert found.error_ratio == pytest.approx(0.02)


def test_level_between_two_that_ran_is_interpolated_in_logs() -> None:
    found = throughputs("a", [signals_of(2, 400.0), signals_of(8, 1600.0)])
    assert found.rate(4) == pytest.approx(800.0)
    bent = throughputs("a", [signals_of(1, 100.0), signals_of(4, 200.0)])
    assert bent.rate(2) == pytest.approx((100.0 * 200.0) ** 0.5)


def test_level_beyond_those_that_ran_follows_the_power_law() -> None:
    found = throughputs("a", [signals_of(2, 400.0, 1.0), signals_of(4, 800.0, 3.0)])
    assert found.rate(8) == pytest.approx(800.0 * 2**EXPONENT)
    assert found.rate(1) == pytest.approx(400.0 * 0.5**EXPONENT)
    assert (found.fixed(1), found.fixed(16)) == (pytest.approx(1.0), pytest.approx(3.0))


@settings(deadline=None)
@given(LEVELS, st.integers(1, 128))
def test_rate_when_measured_rates_rise_then_never_falls_with_p(levels: dict[int, float], p: int) -> None:
    rising = dict(zip(sorted(levels), sorted(levels.values()), strict=True))
    found = RecordedThroughput(rates=rising)
    low, high = found.rate(p), found.rate(p + 1)
    assert low is not None and high is not None and 0 < low <= high * (1 + 1e-12)


@settings(deadline=None)
@given(LEVELS, st.integers(1, 64))
def test_rate_between_levels_is_between_theirs(levels: dict[int, float], p: int) -> None:
    found = RecordedThroughput(rates=levels).rate(p)
    below, above = [q for q in levels if q <= p], [q for q in levels if q >= p]
    if below and above:
        ends = sorted((levels[max(below)], levels[min(above)]))
        assert found is not None and ends[0] * (1 - 1e-9) <= found <= ends[1] * (1 + 1e-9)


def test_level_without_a_fit_uses_its_observations() -> None:
    old = Observation("a", 6, 1100.0, 5.0, 9, NOON)
    other = Observation("a/x", 7, 5.0, 5.0, 9, NOON)
    seen = signals_of(2, 400.0)
    found = throughputs("a", [Signals(**{**seen.__dict__, "observations": (old, other)})])
    assert found.rate(6) == pytest.approx(1100.0)
    assert set(found.rates) == {2, 6}


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), 0.0, -4.0])
def test_level_with_an_impossible_figure_counts_as_unmeasured(rate: float) -> None:
    assert throughputs("a", [signals_of(2, rate)]).rate(2) is None
    assert throughputs("a", [signals_of(2, rate)]).capacity(2, 5) is None


def test_throughput_without_any_fit_is_unknown() -> None:
    assert throughputs("a", [signals_of(2, None)]).rate(4) is None
    assert throughputs("a", []).rate(4) is None


def test_slots_when_the_source_gave_fewer_tasks_then_the_rest_is_idle() -> None:
    found = throughputs("a", [signals_of(8, 800.0, ran=5), signals_of(2, 400.0)])
    assert [found.ran(slots) for slots in (1, 5, 9)] == [1, 5, 5]


def test_sustained_rate_pays_the_fixed_cost_of_every_batch() -> None:
    found = throughputs("a", [signals_of(2, 400.0, 1.0, batch_rows_limit=400)])
    capacity = found.capacity(2, 5)
    assert capacity is not None
    # 400 rows take 1 s of fixed cost and 1 s of work
    assert found.sustained(capacity) == pytest.approx(200.0)
    assert throughputs("a", [signals_of(2, 400.0)]).sustained(capacity) == pytest.approx(400.0)
