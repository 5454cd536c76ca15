"""A rolled-back change is not retried until something is different."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.control.guard_context import GuardContext, guard_context
from millrace.control.proposals import VERIFICATION
from millrace.control.retry_guard import objection
from millrace.model.decision import Action, Decision, Proposal
from millrace.model.deployment import Change, Deployment, ExecutorSize
from millrace.model.signals import AppSignals, Signals
from tests.include.control.world import NAME, NOON, spec

APP = AppSignals(NAME, 4, 4, False, 500.0, 500.0, 0, 0.0, 9, 9, 1.0, 0.0, 0.5, None)


def deployment(slots: int, placement: tuple[int, ...] = (), **changes: Any) -> Deployment:
    first = spec(submit={"master": "embedded"}).first_deployment()
    placed = {"q/0": placement} if placement else {}
    app = replace(first.apps[NAME], slots=slots, executor=ExecutorSize(1, 1024), placement=placed)
    return replace(first, version=3, apps={NAME: replace(app, **changes)})


def undone(*tried: Change, reason: str = "lag_goal_missed", restored: Deployment | None = None) -> Decision:
    changes = tuple(replace(c, before=c.value, value=c.before) for c in tried)
    predicted = {"held_from_rows_per_s": 400.0, "held_to_rows_per_s": 600.0}
    return Decision(
        "d1", NAME, NOON, Action.ROLL_BACK, reason, "", None, 2, (Proposal(VERIFICATION, changes, reason, ""),),
        predicted, target=restored or deployment(4),
    )  # fmt: skip


def context(current: Deployment, decision: Decision, arrival: float | None = 500.0) -> GuardContext:
    signals = Signals(NAME, NOON, NOON, 1, 3, (replace(APP, arrival_rows_per_s=arrival),))
    return guard_context(spec(), current, NOON, (), {}, {}, (), rolled_back=[decision], signals=signals)


@pytest.mark.parametrize(
    ("tried", "now", "then", "held"),
    [
        ((4, 2), 4, 2, True),
        ((4, 2), 5, 2, True),
        ((4, 2), 4, 1, True),
        ((4, 2), 4, 3, False),
        ((4, 2), 4, 6, False),
        ((4, 2), 1, 2, False),
        ((4, 8), 4, 8, True),
        ((4, 8), 4, 6, False),
        ((4, 8), 10, 8, False),
    ],
)
def test_step_as_far_or_farther_is_held(tried: tuple[int, int], now: int, then: int, held: bool) -> None:
    given = context(deployment(now), undone(Change(NAME, "slots", *tried)))
    assert (objection(given, deployment(then)) is not None) is held


@pytest.mark.parametrize(
    ("arrival", "held"), [(399.0, False), (400.0, True), (600.0, True), (601.0, False), (None, True)]
)
def test_step_is_held_within_the_arrival_range_in_which_it_missed(arrival: float | None, held: bool) -> None:
    given = context(deployment(4), undone(Change(NAME, "slots", 4, 2)), arrival)
    assert (objection(given, deployment(2)) is not None) is held


def test_step_is_free_again_with_another_content() -> None:
    decision = undone(Change(NAME, "slots", 4, 2))
    assert objection(context(deployment(4, args=("--new",)), decision), deployment(2, args=("--new",))) is None
    assert objection(context(deployment(4, memory_mb=4096), decision), deployment(2, memory_mb=4096)) is None
    assert objection(context(deployment(4), decision), deployment(2, memory_mb=4096)) is None
    assert objection(context(deployment(4, (0, 1)), decision), deployment(2)) is not None


def test_placement_is_held_only_as_a_whole() -> None:
    tried = (Change(NAME, "placement", -1, 0, "q/0", partition=0), Change(NAME, "placement", -1, 1, "q/0", partition=1))
    given = context(deployment(4), undone(*tried))
    assert objection(given, deployment(4, (0, 1))) == (
        "delays: this placement was rolled back at 12:00 UTC; "
        "it is not tried again until the arrival rate leaves 400 to 600 rows/s"
    )
    assert objection(given, deployment(4, (0, 2))) is None
    assert objection(given, deployment(5, (0, 1))) is None
    assert objection(given, deployment(2)) is None
