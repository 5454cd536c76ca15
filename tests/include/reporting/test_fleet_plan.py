"""The last plan of a fleet and its moves, for a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from millrace.model.decision import Action, Decision
from millrace.reporting.fleet_plan import PlanView, plan_view, recent_moves
from tests.include.reporting.fleets import NOW, decided, deployed, planned

NODES = {"a": 0, "b": 1, "c": 2}
CAME = {"a": 100.0, "b": 300.0, "c": 500.0}


def view(decision: Decision, nodes: dict[str, int] = NODES) -> PlanView:
    found = plan_view(decision, deployed(nodes))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"least_nodes": 2}, "3 nodes; no plan needs fewer than 2. At most 50 % full in the next 16 periods of 30 s."),
        ({"least_nodes": 3}, "3 nodes, the fewest possible."),
        ({"holds": 0, "least_nodes": 1}, "3 nodes, too few for the next period. Streams fit for 0 of the next 16"),
        ({"missing": 1, "lagging": (*"abcd",)}, "1 more would be needed. Without them these lag: a, b, c and 1 more"),
        ({"holds": 4, "capacity": 400.0}, "Streams fit for 4 of the next 16 periods of 30 s; a node gets up to 125 %"),
        ({"oversized": ("c",)}, "Too large for one node: c."),
        ({}, "Forecasts were off by 15 % in total, 40 % by stream."),
        ({"error": None, "total_error": None}, "No forecast has come due yet."),
    ],
)
def test_sentence_gives_nodes_bound_fullness_and_accuracy(fields: dict[str, Any], told: str) -> None:
    assert told in view(decided(planned(NODES, CAME, **fields))).sentence


def test_plan_without_streams_says_so() -> None:
    assert view(decided(planned({}, {}))).sentence == "No stream has rows any more."


def test_bound_of_nodes_that_are_too_few_is_left_out() -> None:
    assert view(decided(planned(NODES, CAME, holds=0))).least_nodes is None
    assert view(decided(planned(NODES, CAME, holds=1))).least_nodes == 1


@pytest.mark.parametrize(
    ("action", "nodes", "told"),
    [
        (Action.ADVISE, NODES, "Not carried out (advise): move them"),
        (Action.VETO, NODES, "Not carried out (veto): move them"),
        (Action.APPLY, NODES, ""),
        (Action.AWAIT, {**NODES, "a": 1}, ""),
    ],
)
def test_moves_that_wait_or_were_refused_are_told_with_the_reason(
    action: Action, nodes: dict[str, int], told: str
) -> None:
    plan = planned({**NODES, "a": 1}, CAME, before=NODES)
    assert view(decided(plan, action), nodes).not_done == told
    assert view(decided(planned(NODES, CAME), action), nodes).not_done == "", "a plan without moves"


def test_decision_without_a_plan_has_no_view() -> None:
    assert plan_view(None, deployed(NODES)) is None
    assert plan_view(Decision("d", "ingest", NOW, Action.HOLD, "r", ""), deployed(NODES)) is None


def test_moves_are_the_differences_of_successive_versions() -> None:
    contents = [{"a": 0, "b": 0}, {"a": 0, "b": 0}, {"a": 1, "b": 0, "c": 1}, {"b": 2, "c": 1}]
    versions = [
        (NOW + timedelta(minutes=n), deployed(ingest, version=n + 1, reason=f"reason {n}"))
        for n, ingest in enumerate(contents)
    ]
    last, first = recent_moves(versions[::-1])
    assert (first.time, first.version, first.reason) == (NOW + timedelta(minutes=2), 3, "reason 2")
    assert first.summary(9) == "a node0 -> node1, c enters node1"
    assert last.summary(9) == "b node0 -> node2, a leaves node1"
    assert last.summary(1) == "b node0 -> node2 and 1 more"
