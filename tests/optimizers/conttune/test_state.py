from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.optimizers.conformance.builders import app_signals, capacity
from millrace.optimizers.conttune.arrival import RateHistory, Run
from millrace.optimizers.conttune.drift import Drift, Shift
from millrace.optimizers.conttune.ratios import Ratio
from millrace.optimizers.conttune.state import AppState, OperatorState
from tests.examples import examples

DAY = datetime(2013, 1, 1, tzinfo=UTC)
rates = st.floats(0, 1e15)
names = st.text(min_size=1, max_size=5)
shifts = st.builds(Shift, st.datetimes(timezones=st.just(UTC)), st.floats(1e-9, 1e9))
operators = st.builds(
    OperatorState,
    fixed_s=st.dictionaries(st.integers(1, 500), st.lists(rates, min_size=1, max_size=3).map(tuple), max_size=3),
    batch_rows=st.none() | st.integers(1, 10**12),
    drift=st.builds(Drift, *(st.lists(shifts, max_size=n).map(tuple) for n in (3, 2))),
    failures=st.integers(0, 9),
    insufficient=st.integers(0, 500),
)
apps = st.builds(
    AppState,
    rate=st.none() | rates,
    unsettled=st.none() | st.datetimes(timezones=st.just(UTC)),
    stepped=st.none() | rates,
    stepped_up=st.booleans(),
    stepped_before=st.none() | rates,
    left=st.dictionaries(names, st.integers(1, 500), max_size=3),
    history=st.builds(
        RateHistory,
        st.lists(st.builds(Run, rates, st.integers(1, 10**6)), max_size=4).map(tuple),
        st.lists(rates, max_size=4).map(tuple),
    ),
    ratios=st.dictionaries(
        st.tuples(names, names),
        st.builds(Ratio, st.floats(0.01, 100), st.floats(1e-9, 1e15), rates, rates, rates, rates),
        max_size=3,
    ),
    operators=st.dictionaries(names, operators, max_size=3),
)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["²", "0", "-1"]),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(state=apps)
@settings(deadline=None)
def test_state_when_written_as_json_then_reads_back(state: AppState) -> None:
    assert AppState.read(json.loads(json.dumps(state.to_json(), allow_nan=False))) == state


KEYS = ("rate", "unsettled", "stepped", "stepped_up", "stepped_before", "left", "runs", "latest", "ratios", "operators")
OF_OPERATOR = ("batch_rows", "fixed_s", "shifts", "suspects", "failures", "insufficient")


@given(
    value=st.dictionaries(st.sampled_from(KEYS), anything, max_size=8),
    of_operator=st.dictionaries(st.sampled_from(OF_OPERATOR), anything, max_size=5),
)
@examples(200)
def test_state_when_junk_then_reads_as_something_usable(value: dict[str, Any], of_operator: dict[str, Any]) -> None:
    state = AppState.read({**value, "operators": {"a": of_operator}})
    assert AppState.read(json.loads(json.dumps(state.to_json(), allow_nan=False))) == state


@pytest.mark.parametrize(
    "junk",
    [
        {},
        {"rate": "5", "stepped": -1.0, "unsettled": "2013-01-01T00:00:00", "stepped_up": "true"},
        {"rate": 10**400, "latest": [10**400, float("nan"), True]},
        {"runs": [[5.0], [1, 2, 3], "ab", None, [-1, 2]], "latest": {"a": 1}},
        {"ratios": [["a", "b", 0, 1, 1, 1, 1, 1], ["a", "b", 1, 0, 1, 1, 1, 1], ["a", "b", 1, 2, 3, 4, 5]]},
        {"ratios": [[[], "b", 1, 1, 1, 1, 1, 1], ["a", None, 1, 1, 1, 1, 1, 1], 7]},
        {"operators": [1, 2]},
        {"operators": {}},
    ],
)
def test_state_when_not_understood_then_is_as_if_never_written(junk: dict[str, Any]) -> None:
    assert AppState.read(junk) == AppState()


@pytest.mark.parametrize(
    "junk",
    [
        7,
        {},
        {"batch_rows": -5, "failures": -1, "insufficient": -1, "suspects": None},
        {"batch_rows": 2.5, "failures": 1.5, "insufficient": 1.5, "suspects": float("inf")},
        {"suspects": [["2013-01-01T00:00:00+00:00", 10**400]], "failures": True},
        {"fixed_s": {"²": [1.0], "x": [1.0], "0": [1.0], "-2": [1.0], "2": [], "3": "ab"}},
        {"shifts": [["2013-01-01T00:00:00", 0.5], ["noon", 0.5], [5, 0.5], ["2013-01-01T00:00:00+00:00", 0]]},
        {"shifts": [["2013-01-01T00:00:00+00:00"], [], None, "ab", ["2013-01-01T00:00:00+00:00", 1e-300]]},
    ],
)
def test_operator_state_not_understood_is_as_if_never_written(junk: Any) -> None:
    assert AppState.read({"operators": {"a": junk}}).operators.get("a", OperatorState()) == OperatorState()


def test_state_when_partly_junk_then_keeps_the_rest() -> None:
    state = AppState(
        rate=5.0,
        ratios={("in", "map"): Ratio(1, 2, 3, 4, 5, 6)},
        operators={"a": OperatorState({2: (1.5,)}, 100, Drift((Shift(DAY, 0.7),), (Shift(DAY, 1.3),)), 2, 4)},
    )
    stored: Any = json.loads(json.dumps(state.to_json()))
    stored["ratios"].append([1, 2])
    stored["runs"] = "x"
    stored["operators"]["a"]["fixed_s"]["y"] = 3
    stored["operators"]["a"]["shifts"].append(5)
    assert AppState.read(stored) == state


# ---- information from batches


def test_fixed_cost_keeps_the_latest_of_each_level() -> None:
    state = OperatorState()
    for p, fixed_s in ((2, 1.0), (4, 2.0), (2, 1.1), (2, 1.2)):
        state = state.with_batches(app_signals(p, 10.0, capacity(p, 100.0, fixed_s)), 2)
    assert state.fixed_s == {2: (1.1, 1.2), 4: (2.0,)}
    assert state.with_batches(app_signals(2, 10.0, None), 2) == state


def test_fixed_cost_of_a_cold_machine_is_forgotten_with_its_insufficient_levels() -> None:
    state = OperatorState({2: (7.0,), 3: (1.5,), 16: (7.0,)}, insufficient=2)

    def later(state: OperatorState, fixed_s: float) -> OperatorState:
        return state.with_batches(app_signals(8, 10.0, capacity(8, 300.0, fixed_s)), 2)

    one = later(state, 1.0)
    assert one == replace(state, fixed_s={**state.fixed_s, 8: (1.0,)}), "one evaluation may be a lucky one"
    assert later(one, 1.0) == OperatorState({3: (1.5,), 16: (7.0,), 8: (1.0, 1.0)}, insufficient=0)
    assert later(one, 1.0).with_batches(app_signals(2, 10.0, capacity(2, 90.0, 0.3)), 2).fixed_s[16] == (7.0,)
    assert later(replace(one, insufficient=3), 1.0).insufficient == 3
    assert later(one, 6.1).fixed_s[2] == (7.0,), "as dear as now"


def test_batch_limit_is_remembered_when_no_batch_is_full_any_more() -> None:
    full = OperatorState().with_batches(app_signals(2, 10.0, None, batch_rows_limit=500), 5)
    assert full.batch_rows == 500
    assert full.with_batches(app_signals(2, 10.0, None), 5).batch_rows == 500
    assert full.with_batches(app_signals(2, 10.0, None, largest_batch_rows=600), 5).batch_rows == 500


def test_batch_limit_is_forgotten_if_far_larger_batches_run() -> None:
    full = OperatorState(batch_rows=500)
    assert full.with_batches(app_signals(2, 10.0, None, largest_batch_rows=900), 5).batch_rows is None
