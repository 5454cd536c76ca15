"""Slots that batches with almost no rows leave idle are given back, although no throughput is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from millrace.model.decision import Memory, Proposal
from millrace.model.objective import Bounds, Objective
from millrace.model.placement import PotentialPlacement
from millrace.model.signals import AppSignals
from millrace.optimizers.conformance.builders import APP, NOON, app_signals, deployment, observed, signals, target
from millrace.optimizers.conttune.idle import EVALUATIONS, LONGER, is_idle
from millrace.optimizers.registry import create
from tests.optimizers.conttune.flow_cases import measured, outcome

PERIOD_S = 10.0


def nearly_empty(slots: int, arrival: float = 0.4, **changes: Any) -> AppSignals:
    return app_signals(slots, arrival, None, **({"empty_batches": 5, "busy_ratio": 0.3} | changes))


def ask_often(
    apps: Sequence[AppSignals],
    history: Any = None,
    bounds: Bounds | None = None,
    potential: PotentialPlacement | None = None,
    **options: Any,
) -> Proposal:
    """Evaluate once for each app, and return the last proposal."""
    memory: Memory = {}
    proposal: Proposal | None = None
    for number, app in enumerate(apps):
        seen = signals(app, observed(history or {}), bounds, until=NOON + timedelta(seconds=PERIOD_S * number))
        seen = replace(seen, potential=potential)
        proposal, memory = create("flow", options).propose(seen, deployment(app.slots), memory)
    assert proposal is not None
    return proposal


def test_half_of_idle_slots_is_given_back_after_some_evaluations() -> None:
    before = ask_often([nearly_empty(4)] * (EVALUATIONS - 1))
    assert outcome(before, 4) == (4, "capacity_unknown")
    proposal = ask_often([nearly_empty(4)] * EVALUATIONS)
    assert outcome(proposal, 4) == (2, "nearly_empty")
    assert "batches have had almost no rows for 3 evaluations. With 2 slots, rows wait 4.8 s at most" in (
        proposal.sentence
    )


def test_count_begins_again_after_a_step_and_after_a_batch_with_rows() -> None:
    stepped = [*[nearly_empty(4)] * EVALUATIONS, *[nearly_empty(2)] * (EVALUATIONS - 1)]
    assert outcome(ask_often(stepped), 2) == (2, "capacity_unknown")
    assert outcome(ask_often([*stepped, nearly_empty(2)]), 2) == (1, "nearly_empty")
    fuller = [*[nearly_empty(4)] * 2, nearly_empty(4, empty_batches=4), *[nearly_empty(4)] * 2]
    assert outcome(ask_often(fuller), 4) == (4, "capacity_unknown")


@pytest.mark.parametrize(("share", "expected"), [(0.6, (2, "nearly_empty")), (0.0, (4, "capacity_unknown"))])
def test_state_that_cannot_be_spread_evenly_only_has_to_fit(share: float, expected: tuple[int, str]) -> None:
    uneven = PotentialPlacement(APP, 4, 2, even_ratio=1.0, fewer=(share,), heaviest="partition 3 takes 2 s")
    assert outcome(ask_often([nearly_empty(4)] * EVALUATIONS, potential=uneven), 4) == expected


def test_slots_stay_within_the_bounds_and_in_whole_executors() -> None:
    idle = [nearly_empty(4)] * EVALUATIONS
    assert target(ask_often(idle, bounds=Bounds(3, 8)), 4) == 3
    assert target(ask_often(idle, bounds=Bounds(4, 8)), 4) == 4
    assert target(ask_often([nearly_empty(6)] * EVALUATIONS, bounds=Bounds(2, 8, 2)), 6) == 4


def test_slots_that_no_smaller_level_has_proven_are_given_back_too() -> None:
    levels = {4: 350.0}
    assert outcome(ask_often([nearly_empty(4)] * 2, levels), 4) == (4, "level_not_proven")
    assert outcome(ask_often([nearly_empty(4)] * EVALUATIONS, levels), 4) == (2, "nearly_empty")


def silent(slots: int) -> AppSignals:
    return nearly_empty(slots, 0.0, batches=0, healthy_batches=0, empty_batches=0, busy_ratio=0.0)


def test_silent_source_counts_as_idle() -> None:
    assert outcome(ask_often([silent(4)] * EVALUATIONS), 4) == (2, "nearly_empty")


def test_telemetry_that_another_app_has_outrun_counts_once() -> None:
    assert outcome(ask_often([replace(silent(4), until=NOON)] * EVALUATIONS), 4) == (4, "capacity_unknown")


def test_slots_are_given_back_although_the_smallest_proven_level_would_free_too_few() -> None:
    levels = {7: 600.0}
    assert outcome(ask_often([silent(8)] * (EVALUATIONS - 1), levels, slack=0.2), 8) == (8, "slack_too_small")
    assert outcome(ask_often([silent(8)] * EVALUATIONS, levels, slack=0.2), 8) == (4, "nearly_empty")


@pytest.mark.parametrize(
    "changes",
    [
        {"arrival_rows_per_s": None},
        {"healthy_batches": 2, "empty_batches": 2},
        {"busy_ratio": None},
        {"backpressured_ratio": 0.2},
        {"first_batches": measured(4)},
        {"running_tasks": 4},
        {"batches": 0, "empty_batches": 0, "backlog_rows": 9},
        {"batches": 0, "empty_batches": 0, "arrival_rows_per_s": 0.0, "first_batch_s": 9.0},
    ],
)
def test_app_is_not_idle_if_something_may_be_hidden(changes: dict[str, Any]) -> None:
    assert is_idle(nearly_empty(4), Objective(), PERIOD_S)
    assert not is_idle(replace(nearly_empty(4), **changes), Objective(), PERIOD_S)


@pytest.mark.parametrize(
    ("trigger_s", "batches", "expected"), [(10, 1, True), (4, 2, True), (4, 1, False), (2, 2, False)]
)
def test_few_batches_are_enough_if_the_trigger_starts_no_more(trigger_s: float, batches: int, expected: bool) -> None:
    app = nearly_empty(
        4, batches=batches, healthy_batches=batches, empty_batches=batches, busy_ratio=0.1, trigger_s=trigger_s
    )
    assert is_idle(app, Objective(), PERIOD_S) is expected


def test_app_is_not_idle_if_longer_batches_would_miss_the_goal() -> None:
    """Five batches in ten seconds take 2 s each with all slots."""
    app = nearly_empty(4, busy_ratio=1.0)
    longest = 2 * LONGER * 2.0
    assert is_idle(app, Objective(max_lag_s=longest), PERIOD_S)
    assert not is_idle(app, Objective(max_lag_s=longest - 0.1), PERIOD_S)
