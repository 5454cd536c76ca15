"""Larger batches where full ones are too small: which option, how much, and never without a cause."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.model.arrival import ArrivalBasis
from millrace.model.batch_limits import option_named, plain_value
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Change, Deployment
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals, Signals
from millrace.optimizers.batch_limits import MOST, BatchLimits, NoOptions, find_need
from millrace.optimizers.conformance.builders import APP, NOON, app_signals, capacity, deployment, signals

OBJECTIVE = Objective()
FILES = {"maxFilesPerTrigger": 10}


def limited(arrival: float = 60.0, limit: int | None = 200, **changes: Any) -> AppSignals:
    """Return an app of 100 rows/s and 2 s per batch: full batches of 200 rows come out at 50 rows/s."""
    values = {"batch_rows_limit": limit, "batch_limits": FILES} | changes
    return app_signals(4, arrival, capacity(4, 200.0, fixed_s=3.0), **values)


def tuned(current: Deployment, *, tune: bool = True) -> Deployment:
    return replace(current, apps={APP: replace(current.apps[APP], submit={"tune_batches": tune})})


def propose(
    app: AppSignals, current: Deployment | None = None, memory: Memory | None = None, **changes: Any
) -> tuple[Proposal, Memory]:
    measured: Signals = replace(signals(app, objective=OBJECTIVE), **changes)
    return BatchLimits(NoOptions()).propose(measured, current or tuned(deployment(4)), memory or {})


def test_telemetry_that_another_app_has_outrun_counts_once() -> None:
    first, memory = propose(limited(until=NOON))
    again, memory = propose(limited(until=NOON), memory=memory)
    assert first.changes == again.changes == ()
    assert propose(limited(until=NOON + timedelta(minutes=1)), memory=memory)[0].changes


def test_limit_is_raised_at_the_second_evaluation_that_finds_it_too_small() -> None:
    first, memory = propose(limited())
    assert first.changes == () and first.predicted == {}
    assert first.sentence == (
        "Raising maxFilesPerTrigger from 10 to 23 would help: 4 slots can then sustain 86 rows/s instead of 50. "
        "Millrace does so if the next evaluation finds the same."
    )
    second, _ = propose(limited(), memory=memory)
    assert second.changes == (Change(APP, "batch_limit", 10, 23, operator="maxFilesPerTrigger"),)
    assert second.predicted["sustainable_rows_per_s"] == pytest.approx(450 / 5.25)
    assert second.sentence == (
        "60 rows/s arrived in the last 10 s, too much for batches of 200 rows; 4 slots can then sustain 86 rows/s "
        "instead of 50. A restart applies it."
    )
    after = tuned(deployment(4)).with_changes(second.changes)
    assert after.apps[APP].batch_limits == {"maxFilesPerTrigger": 23}
    assert tuned(deployment(4)).restarts(after)


def test_one_busy_evaluation_between_calm_ones_restarts_nothing() -> None:
    memory: Memory = {}
    for arrival in (60.0, 30.0, 60.0, 30.0):
        proposal, memory = propose(limited(arrival), memory=memory)
        assert proposal.changes == ()


def test_advice_names_the_option_and_the_gain() -> None:
    proposal, memory = propose(limited(), tuned(deployment(4), tune=False))
    again, _ = propose(limited(), tuned(deployment(4), tune=False), memory)
    expected = "Raise maxFilesPerTrigger from 10 to 23: 4 slots can then sustain 86 rows/s instead of 50."
    assert {proposal.sentence, again.sentence} == {expected} and again.changes == ()


def test_advice_without_a_known_option_names_the_rows() -> None:
    proposal, _ = propose(limited(batch_limits={}))
    assert proposal.sentence == (
        "Let batches hold 450 rows instead of 200 (maxFilesPerTrigger, maxOffsetsPerTrigger or maxBytesPerTrigger of "
        "the source): 4 slots can then sustain 86 rows/s instead of 50."
    )


def test_all_limits_of_a_source_grow_alike() -> None:
    proposal, _ = propose(limited(batch_limits={**FILES, "maxBytesPerTrigger": 1000}), memory={"too_small": {APP: 1}})
    assert [(c.operator, c.value) for c in proposal.changes] == [
        ("maxFilesPerTrigger", 23),
        ("maxBytesPerTrigger", 2250),
    ]


def test_batches_hold_the_rows_of_a_trigger_interval() -> None:
    app = limited(arrival=20.0, limit=1000, trigger_s=120.0)  # 2,400 rows arrive between two triggers
    need = find_need(app, OBJECTIVE.with_trigger(120.0))
    assert need is not None and need.now == pytest.approx(1000 / 120)
    assert need.rows * OBJECTIVE.target_utilisation > 20 * 120 and need.then > 20 / OBJECTIVE.target_utilisation


@pytest.mark.parametrize(
    "app",
    [
        limited(arrival=30.0),
        limited(arrival=190.0),  # the slots are too few for any batch
        limited(limit=None),
        limited(arrival=None),  # type: ignore[arg-type]
        limited(arrival_recent_rows_per_s=30.0),
        limited(arrival_basis=ArrivalBasis.AT_LEAST),
        replace(limited(), capacity=None),
        replace(limited(), settling=False, slots=2),  # the cluster has not granted all slots, or the tuner adds some
    ],
)
def test_nothing_is_said_if_the_limit_is_not_the_cause(app: AppSignals) -> None:
    proposal, _ = propose(app)
    assert (proposal.changes, proposal.sentence) == ((), "")


def test_settling_app_is_left_alone() -> None:
    assert propose(limited(), settling=True)[0].sentence == ""


@given(st.floats(1.0, 500.0), st.integers(1, 5000), st.floats(0.0, 20.0), st.sampled_from([0.0, 60.0, 600.0]))
def test_larger_batches_sustain_what_they_promise(arrival: float, limit: int, fixed_s: float, trigger_s: float) -> None:
    app = app_signals(4, arrival, capacity(4, 200.0, fixed_s), batch_rows_limit=limit, trigger_s=trigger_s)
    objective = OBJECTIVE.with_trigger(trigger_s)
    need = find_need(app, objective)
    if need is None:
        return
    assert limit < need.rows <= MOST * limit + 1 and need.then >= need.now
    if need.rows < MOST * limit:
        after = replace(app, batch_rows_limit=need.rows)
        assert find_need(after, objective) is None, "one step is enough"


@pytest.mark.parametrize(
    ("given_", "expected"), [(64, 64), ("64", 64), ("10m", 10 << 20), ("1gb", 1 << 30), ("8 KiB", 8192), ("x", None)]
)
def test_limits_are_read_as_spark_reads_them(given_: object, expected: int | None) -> None:
    assert plain_value(given_) == expected
    assert option_named("MAXFILESPERTRIGGER") == "maxFilesPerTrigger" and option_named("header") is None
