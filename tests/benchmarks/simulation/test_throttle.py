from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulation.throttle import passing

JOIN = ((1.0, 1.0),)


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[list[float]], list[float], list[float], list[bool]]:
    sources, operators = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    gain = st.sampled_from([0.0, 0.0, 0.2, 1.0, 3.0])
    gains = [[draw(gain) for _ in range(sources)] for _ in range(operators)]
    gains.append([1.0] * sources if draw(st.booleans()) else [float(s == 0) or 0.5 for s in range(sources)])
    capacities = [draw(st.floats(0.5, 500)) for _ in gains]
    arrivals = [draw(st.one_of(st.just(0.0), st.floats(0.5, 300))) for _ in range(sources)]
    return gains, capacities, arrivals, [draw(st.booleans()) for _ in range(sources)]


def loads(gains: list[list[float]], emitted: tuple[float, ...]) -> list[float]:
    return [sum(g * e for g, e in zip(gain, emitted, strict=True)) for gain in gains]


@given(job=jobs())
@settings(deadline=None)
def test_passing_when_anything_is_overloaded_then_stays_within_offer_and_capacity(
    job: tuple[list[list[float]], list[float], list[float], list[bool]],
) -> None:
    gains, capacities, arrivals, waiting = job
    emitted, full = passing(gains, capacities, arrivals, waiting, [a or 1.0 for a in arrivals])
    for e, a, waits in zip(emitted, arrivals, waiting, strict=True):
        assert e >= 0 and (waits or e <= a)
    for load, capacity in zip(loads(gains, emitted), capacities, strict=True):
        assert load <= capacity * (1 + 1e-6)
    # only a full operator holds others back: none could emit more without another emitting less
    for s, (e, a) in enumerate(zip(emitted, arrivals, strict=True)):
        if waiting[s] or e < a * (1 - 1e-6):
            full_ones = [i for i, gain in enumerate(gains) if gain[s] > 0 and full[i]]
            assert full_ones
            assert any(loads(gains, emitted)[i] == pytest.approx(capacities[i]) for i in full_ones)


def test_passing_when_nothing_is_overloaded_then_all_arrivals_pass() -> None:
    assert passing(JOIN, [100.0], [60.0, 40.0], [False, False], [60.0, 40.0]) == ((60.0, 40.0), (False,))


def test_passing_when_a_join_is_overloaded_then_its_sources_share_it_by_arrival() -> None:
    emitted, full = passing(JOIN, [50.0], [60.0, 40.0], [False, False], [60.0, 40.0])
    assert emitted == pytest.approx((30.0, 20.0)) and full == (True,)


def test_passing_when_one_source_has_a_backlog_then_it_uses_only_what_the_other_leaves() -> None:
    emitted, _ = passing(JOIN, [100.0], [20.0, 20.0], [True, False], [20.0, 20.0])
    assert emitted == pytest.approx((80.0, 20.0))


def test_passing_when_one_chain_is_overloaded_then_another_is_not_throttled() -> None:
    gains = ((1.0, 0.0), (0.0, 1.0))
    emitted, full = passing(gains, [10.0, 100.0], [60.0, 60.0], [False, False], [60.0, 60.0])
    assert emitted == pytest.approx((10.0, 60.0)) and full == (True, False)


def test_passing_when_a_source_is_stopped_elsewhere_then_the_other_gets_its_share() -> None:
    gains = ((1.0, 0.0), (1.0, 1.0))
    emitted, _ = passing(gains, [10.0, 100.0], [80.0, 80.0], [False, False], [80.0, 80.0])
    assert emitted == pytest.approx((10.0, 80.0))
