"""flow and what placement alone would change: slots are added only if that is not enough."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from millrace.model.arrival import ArrivalBasis
from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import ExecutorSize
from millrace.model.objective import Bounds
from millrace.model.placement import PotentialPlacement
from millrace.model.signals import Signals
from millrace.optimizers.conformance.builders import (
    APP,
    NOON,
    app_signals,
    capacity,
    deployment,
    observed,
    signals,
    target,
)
from millrace.optimizers.registry import create
from tests.optimizers.conttune.flow_cases import POWER, WELL, outcome

CAUSE = "partitions 3, 7 and 12 of q/0 make executor 2 the slowest, and moving 2 state partitions shortens the batch"
HALF = PotentialPlacement(APP, 4, 1, now_s=2.0, planned_s=1.0, batch_s=3.0, cause=CAUSE, pays=True)
"""Placement alone doubles the throughput: the rest of a batch of 3 s is its fixed cost, 1 s."""
TOO_MUCH = 0.95 * POWER[4]
"""Rows per second, more than the 80 % that 4 slots are planned for, far less than 80 % of twice as much."""


def seen(
    arrival: float, potential: PotentialPlacement | None, history: Any = WELL, version: int = 1, **changes: Any
) -> Signals:
    app = app_signals(4, arrival, capacity(4, changes.pop("ability", POWER[4])), **changes)
    history = history if isinstance(history, tuple) else observed(history)
    found = signals(app, history, Bounds(1, 8))
    return replace(found, potential=potential, deployment_version=version)


def ask(given: Signals, memory: Memory | None = None) -> tuple[Proposal, Memory]:
    current = deployment(4)
    live = replace(current.apps[APP], executor=ExecutorSize(1, 1024))
    current = replace(current, version=given.deployment_version, apps={APP: live})
    proposal, learned = create("flow", {}).propose(given, current, memory or {})
    return proposal, json.loads(json.dumps(learned))  # as it is stored


def test_no_slots_are_added_if_moving_partitions_is_enough() -> None:
    assert target(ask(seen(TOO_MUCH, None))[0], 4) > 4
    proposal, _ = ask(seen(TOO_MUCH, HALF))
    assert outcome(proposal, 4) == (4, "placement_first")
    # the goal of 30 s leaves 28 s for rows that come during a batch
    assert f"4 slots can sustain only {POWER[4] * 28 / 30:.0f} rows/s now. No slots are added: {CAUSE}." in (
        proposal.sentence
    )
    assert proposal.sentence.endswith(f"4 slots can then sustain {2 * POWER[4] * 28 / 30:.0f} rows/s (51 % used).")


def test_slots_are_added_for_the_throughput_after_the_moves() -> None:
    slight = replace(HALF, planned_s=1.6)
    alone, both = (ask(seen(1.2 * POWER[4], p))[0] for p in (None, slight))
    assert 4 < target(both, 4) < target(alone, 4)
    assert both.sentence.endswith(f"More slots are needed although {CAUSE}.")
    assert ask(seen(1.2 * POWER[4], replace(slight, pays=False)))[0] == alone


def test_other_potentials_change_nothing() -> None:
    plain, _ = ask(seen(TOO_MUCH, None))
    for other in (replace(HALF, planned_s=2.0), replace(HALF, slots=6), replace(HALF, app="other")):
        assert ask(seen(TOO_MUCH, other))[0] == plain


def test_app_that_is_large_enough_is_left_alone() -> None:
    calm = 0.7 * POWER[4]
    assert ask(seen(calm, HALF)) == ask(seen(calm, None))


def test_backlog_waits_for_the_moves() -> None:
    behind = {"backlog_rows": 100_000}
    assert ask(seen(100.0, None, **behind))[0].reason_code == "backlog_to_drain"
    assert outcome(ask(seen(100.0, HALF, **behind))[0], 4) == (4, "placement_first")


def test_step_for_measured_rows_waits_until_partitions_are_measured() -> None:
    unknown = PotentialPlacement(APP, 4, 1, known=False)
    proposal, _ = ask(seen(TOO_MUCH, unknown))
    assert outcome(proposal, 4) == (4, "partitions_unknown") and not proposal.contingencies
    settling = replace(seen(2 * TOO_MUCH, unknown), settling=True)
    assert target(ask(settling)[0], 4) > 4  # more arrives: nothing that is measured now would change that


def early(version: int, memory: Memory) -> Proposal:
    """Ask while the placement settles: only the arrival is measured."""
    return ask(replace(seen(TOO_MUCH, None, version=version), settling=True), memory)[0]


def test_moves_under_way_count_until_their_effect_is_measured() -> None:
    _, memory = ask(seen(TOO_MUCH, HALF))
    assert target(early(2, memory), 4) == 4
    assert target(early(2, {}), 4) > 4  # without the promise


def test_moves_that_were_not_made_do_not_count() -> None:
    _, memory = ask(seen(TOO_MUCH, HALF))
    assert target(early(1, memory), 4) > 4
    assert target(ask(seen(TOO_MUCH, None), memory)[0], 4) > 4


def test_after_the_moves_earlier_observations_count_as_if_they_had_been_made() -> None:
    _, memory = ask(seen(TOO_MUCH, HALF))
    later = replace(
        seen(TOO_MUCH, replace(HALF, now_s=1.0), version=2, ability=2 * POWER[4]),
        since=NOON + timedelta(seconds=20),
        until=NOON + timedelta(seconds=40),
    )
    proposal, after = ask(later, memory)
    assert target(proposal, 4) <= 4 and after["apps"][APP]["promise"] is None
    assert target(ask(later)[0], 4) > 4  # five older observations outvote the new one


@pytest.mark.parametrize("promise", [None, [], [1, "noon", 2.0], [1, NOON.isoformat(), 0.5], ["x", None, []]])
def test_unreadable_promise_counts_as_none(promise: object) -> None:
    plain, memory = ask(seen(TOO_MUCH, None))
    spoilt = {"apps": {APP: {**memory["apps"][APP], "promise": promise}}}
    assert ask(seen(TOO_MUCH, None), spoilt)[0].changes == ask(seen(TOO_MUCH, None), memory)[0].changes
    assert plain.changes


LIGHT = 0.4 * POWER[2]


def test_step_down_needs_partitions_that_can_be_spread() -> None:
    assert target(ask(seen(LIGHT, HALF))[0], 4) < 4  # nothing is known of fewer executors
    uneven = replace(HALF, fewer=(0.9, 0.3, 0.35), heaviest="partition 5 of q/0 alone takes 2.1 s of a batch")
    # what 1 slot is expected to do is enough even at 90 %
    assert target(ask(seen(0.5 * LIGHT, uneven))[0], 4) == 1
    proposal, _ = ask(seen(LIGHT * 1.8, uneven))
    assert outcome(proposal, 4) == (4, "cannot_balance")
    assert (
        "2 slots would be enough for such a rate, but state partitions cannot be spread evenly over 2 executors: "
        in (proposal.sentence)
    )
    assert proposal.sentence.endswith("partition 5 of q/0 alone takes 2.1 s of a batch.")


def test_step_down_stops_where_state_fits() -> None:
    proposal, _ = ask(seen(LIGHT, replace(HALF, fewer=(0.0, 1.0, 1.0))))
    assert outcome(proposal, 4) == (2, "over_provisioned")
    assert "1 executor cannot hold the state within the limits of placement.options" in proposal.sentence


def test_unknown_rate_tries_placement_first() -> None:
    full = {"arrival_basis": ArrivalBasis.AT_LEAST}
    assert target(ask(seen(TOO_MUCH, None, **full))[0], 4) == 8
    assert outcome(ask(seen(TOO_MUCH, HALF, **full))[0], 4) == (4, "placement_first")
    assert target(ask(seen(TOO_MUCH, replace(HALF, planned_s=2.0), **full))[0], 4) == 8
