from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.optimizers.esj.options import EsjOptions
from millrace.optimizers.esj.timers import ThresholdTimers, update_timers
from tests.optimizers.esj.cases import PERIOD_S, measured

OPTIONS = EsjOptions()
TIMES = st.floats(0, 1e10)


def course(*evaluations: tuple[float, float], m: int = 2) -> ThresholdTimers:
    """Evaluate (time, tuples) one after another."""
    found: ThresholdTimers | None = None
    for at, tuples in evaluations:
        found = update_timers(at, measured(m, 0), tuples, OPTIONS, found)
    assert found is not None
    return found


def test_over_when_utilisation_stays_high_then_lasts_since_the_first_evaluation() -> None:
    found = course((0, 500), (10, 1900), (20, 2500), (30, 1950))
    assert (found.over_since, found.under_since) == (10, None)
    assert found.is_over(20) and not found.is_over(20.1)


def test_full_when_utilisation_stays_between_tau2_and_tau3_then_lasts_too() -> None:
    found = course((0, 500), (10, 1600), (20, 1950), (30, 1700))
    assert (found.full_since, found.over_since) == (10, None)
    assert found.is_full(20) and not found.is_full(20.1)


def test_over_when_an_evaluation_in_between_is_lower_then_starts_over() -> None:
    assert course((10, 1900), (20, 1899), (30, 1900)).over_since == 30


def test_under_when_it_lasts_then_knows_the_highest_rate() -> None:
    found = course((0, 1000), (10, 300), (20, 400), (30, 100))
    assert (found.under_since, found.most) == (10, 400)
    assert found.is_under(20) and not found.is_under(20.1)


def test_under_when_it_ends_then_forgets_the_highest_rate() -> None:
    found = course((0, 400), (10, 401), (20, 100))
    assert (found.under_since, found.most) == (20, 100)


@pytest.mark.parametrize("gap", [3 * PERIOD_S + 1, -1.0])
def test_lasting_when_evaluations_are_far_apart_or_go_back_then_starts_over(gap: float) -> None:
    assert course((100, 1900), (100 + gap, 1900)).over_since == 100 + gap


def test_lasting_when_workers_changed_then_starts_over() -> None:
    before = course((0, 300), (10, 300), m=2)
    assert update_timers(20, measured(3, 0), 300, OPTIONS, before).under_since == 20


def test_interruption_forgets_only_the_low_load() -> None:
    low, high = course((0, 300), (10, 300)), course((0, 1900), (10, 1900))
    assert low.after_gap() == ThresholdTimers(10, 2)
    assert high.after_gap() == high


@given(st.builds(ThresholdTimers, TIMES, st.integers(1, 99), *[st.none() | TIMES] * 3, TIMES))
def test_memory_when_stored_as_json_then_is_read_as_it_was(timers: ThresholdTimers) -> None:
    assert ThresholdTimers.read(json.loads(json.dumps(timers.to_json(), allow_nan=False))) == timers


@given(
    st.sampled_from(["seen", "workers", "full_since", "over_since", "under_since", "most"]),
    st.sampled_from(["x", [], {}, True, float("nan"), float("inf")]),
)
def test_memory_when_a_value_is_garbage_then_is_as_if_empty(name: str, junk: Any) -> None:
    memory = {**ThresholdTimers(1.0, 2, 1.0, 1.0, None, 3.0).to_json(), name: junk}
    assert ThresholdTimers.read(memory) is None


def test_memory_when_empty_or_in_another_format_then_is_none() -> None:
    assert ThresholdTimers.read({}) is None
    assert ThresholdTimers.read({"phase": "up", "seen": 1.0}) is None
