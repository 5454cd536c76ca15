from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.codec import from_json, to_json, to_plain
from millrace.model.decision import Action, Decision, GuardOutcome, Proposal, Reconfiguration
from millrace.model.deployment import AppDeployment, Change, Deployment
from millrace.model.signals import Signals
from millrace.model.telemetry import AppMetrics, BatchMetrics

number = st.floats(allow_nan=False, allow_infinity=False)
times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
text = st.text(max_size=8)
whole = st.integers(-(2**60), 2**60)
numbers = st.dictionaries(text, number, max_size=3)

st.register_type_strategy(float, number)
st.register_type_strategy(datetime, times)
st.register_type_strategy(str, text)
st.register_type_strategy(int, whole)

changes = st.builds(Change)
proposals = st.builds(
    Proposal,
    changes=st.lists(changes, max_size=2).map(tuple),
    predicted=numbers,
    curve=st.dictionaries(text, st.lists(number, max_size=3).map(tuple), max_size=2),
    training=st.just({}),
)
json_values = st.recursive(st.none() | st.booleans() | whole | text, lambda c: st.lists(c, max_size=2), max_leaves=4)
deployments = st.builds(
    Deployment,
    apps=st.dictionaries(
        text, st.builds(AppDeployment, submit=st.dictionaries(text, json_values, max_size=2)), max_size=2
    ),
)
signals = st.builds(Signals)
decisions = st.builds(
    Decision,
    signals=st.none() | signals,
    proposals=st.lists(proposals, max_size=2).map(tuple),
    predicted=numbers,
    guards=st.lists(st.builds(GuardOutcome), max_size=2).map(tuple),
    target=st.none() | deployments,
    models=st.dictionaries(text, text, max_size=2),
    cursor_until=st.none() | times,
)
reconfigurations = st.builds(Reconfiguration, achieved=numbers)
batches = st.builds(BatchMetrics, durations_ms=st.dictionaries(text, whole, max_size=3))

CONTRACTS = [
    (Decision, decisions),
    (Signals, signals),
    (Deployment, deployments),
    (Proposal, proposals),
    (Reconfiguration, reconfigurations),
    (BatchMetrics, batches),
    (AppMetrics, st.builds(AppMetrics)),
]


@pytest.mark.parametrize(("kind", "strategy"), CONTRACTS, ids=[k.__name__ for k, _ in CONTRACTS])
def test_json_when_read_back_then_is_the_same_object(kind: type, strategy: st.SearchStrategy[object]) -> None:
    @given(strategy)
    def check(value: object) -> None:
        written = to_json(value)
        assert from_json(kind, written) == value
        assert to_json(from_json(kind, written)) == written

    check()


def test_json_when_a_contract_has_a_newer_field_then_it_is_ignored() -> None:
    guard = {**json.loads(to_json(GuardOutcome("bounds", True))), "since_version_9": 1}
    assert from_json(GuardOutcome, json.dumps(guard)) == GuardOutcome("bounds", True)


def test_json_of_a_non_finite_number_is_read_as_none() -> None:
    proposal = Proposal("flow", (), "keep", "", {"rate": math.nan}, {"mean": (1.0, math.inf)})
    again = from_json(Proposal, to_json(proposal))
    assert again.predicted == {"rate": None} and again.curve == {"mean": (1.0, None)}


@pytest.mark.parametrize("text", ["{", "[]", '{"guard": "bounds"}', '{"guard": "bounds", "passed": "perhaps"}'])
def test_json_of_anything_else_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^no GuardOutcome: "):
        from_json(GuardOutcome, text)


def test_plain_when_numbers_are_not_finite_or_numpy_then_are_json() -> None:
    value = {"a": math.nan, "b": math.inf, "c": np.float64(1.5), "d": np.int64(7), "e": {3}, "f": Action.HOLD}
    assert to_plain(value) == {"a": None, "b": None, "c": 1.5, "d": 7, "e": [3], "f": "hold"}


def test_plain_when_time_has_another_zone_then_is_in_utc() -> None:
    there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert to_plain(there) == "2026-01-01T00:00:00+00:00"
