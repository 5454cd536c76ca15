"""flow if the source does not report its backlog, and no batch has shown the arrival rate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.arrival import ArrivalBasis
from millrace.model.objective import Bounds
from millrace.model.signals import AppSignals
from millrace.optimizers.conformance.builders import APP, app_signals, capacity, deployment, observed, signals, target
from millrace.optimizers.registry import create
from tests.optimizers.conttune.flow_cases import POWER, ask, measured, outcome

SEEN = {"apps": {APP: {"rate": 100.0}}}
"""Memory of an app at which 100 rows/s were known to arrive."""


def bound(slots: int, rate: float, *, known: bool = True, **changes: Any) -> AppSignals:
    changes = {"arrival_basis": ArrivalBasis.AT_LEAST, **changes}
    return app_signals(slots, rate, measured(slots) if known else None, **changes)


def test_lower_bound_is_lifted_in_big_steps() -> None:
    proposal = ask(bound(2, 150.0), POWER)
    assert outcome(proposal, 2) == (4, "batches_full")
    assert proposal.sentence == (
        "at least 150 rows/s arrived in the last 10 s "
        "(every batch was full; the source reports no backlog), and 2 slots had no "
        "idle time. Trying 4 slots to find the true arrival rate."
    )


def test_lower_bound_is_lifted_before_any_ability_is_known() -> None:
    assert outcome(ask(bound(2, 150.0, known=False)), 2) == (4, "batches_full")


@pytest.mark.parametrize(
    ("slots", "bounds", "wanted"), [(3, Bounds(1, 4), 4), (2, Bounds(2, 6, 2), 4), (4, Bounds(2, 6, 2), 6)]
)
def test_lift_keeps_to_the_bounds(slots: int, bounds: Bounds, wanted: int) -> None:
    assert target(ask(bound(slots, 150.0), POWER, bounds=bounds), slots) == wanted


def test_lift_ends_at_the_maximum_and_says_so() -> None:
    proposal = ask(bound(8, 150.0), POWER)
    assert outcome(proposal, 8) == (8, "batches_full_at_maximum")
    assert proposal.sentence.endswith(
        "8 slots had no idle time, but slots.max allows no more than 8; raise it to scale up."
    )


@given(slots=st.integers(1, 8), rate=st.floats(0, 1000), memory=st.sampled_from([{}, SEEN]), known=st.booleans())
def test_lower_bound_never_leads_down(slots: int, rate: float, memory: dict[str, Any], known: bool) -> None:
    assert target(ask(bound(slots, rate, known=known), POWER, memory=memory), slots) >= slots


def test_lift_does_not_help_if_tasks_are_too_few() -> None:
    assert outcome(ask(bound(4, 150.0, parallelism=2), POWER), 4) == (4, "too_few_tasks")
    assert outcome(ask(bound(4, 150.0, parallelism=2, source_splits=True), POWER), 4) == (4, "source_splits")


def test_lift_ends_if_more_slots_were_measured_to_bring_nothing() -> None:
    flat = {1: 100.0, 2: 180.0, 4: 182.0, 6: 181.0}
    app = app_signals(4, 181.0, capacity(4, 182.0), arrival_basis=ArrivalBasis.AT_LEAST)
    assert outcome(ask(app, flat), 4) == (4, "ineffective_scaling")


def test_known_arrival_rate_needs_no_lift() -> None:
    assert outcome(ask(bound(2, 103.0), POWER, memory=SEEN), 2) == (2, "well_provisioned")
    assert outcome(ask(bound(2, 110.0), POWER, memory=SEEN), 2) == (4, "batches_full")  # more than known
    assert outcome(ask(bound(1, 98.0), POWER, memory=SEEN), 1) == (2, "batches_full")  # no room: it may be its own pace


def test_lower_bound_is_not_remembered_as_the_arrival_rate() -> None:
    flow = create("flow", {})
    _, memory = flow.propose(signals(bound(2, 150.0), observed(POWER)), deployment(2), SEEN)
    assert memory["apps"][APP]["rate"] == 100.0
    seen = app_signals(4, 210.0, measured(4), arrival_recent_rows_per_s=210.0, arrival_basis=ArrivalBasis.READ)
    _, memory = flow.propose(signals(seen, observed(POWER)), deployment(4), memory)
    assert memory["apps"][APP]["rate"] == 210.0


@pytest.mark.parametrize(
    ("basis", "phrase"),
    [
        (ArrivalBasis.COUNTED, "500 rows/s arrived in the last 10 s, and "),
        (ArrivalBasis.TAKEN, "500 rows/s arrived in the last 10 s (each batch reads everything available), and "),
        (
            ArrivalBasis.LISTED,
            "about 500 rows/s arrived in the last 10 s (estimated from the size of unread files), and ",
        ),
        (ArrivalBasis.READ, "500 rows/s arrived in the last 10 s (everything was read, with time to spare), and "),
    ],
)
def test_sentence_says_how_the_rate_is_known(basis: ArrivalBasis, phrase: str) -> None:
    app = app_signals(2, 500.0, measured(2), arrival_basis=basis)
    assert ask(app, POWER).sentence.startswith(phrase)
