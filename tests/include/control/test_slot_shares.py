"""Pipelines that share a quota: each computes its own part from the newest Decisions of all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.control.slot_shares import QUOTA, share_of, with_budget
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision, Proposal
from millrace.model.deployment import Change
from millrace.model.objective import Bounds
from millrace.model.spec import PipelineSpec
from millrace.optimizers.conformance.builders import app_signals, signals

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


WIDE = Bounds(1, 20)


@pytest.fixture
def tables(tmp_path: Path) -> ControlTables:
    return ControlTables(Lake(tmp_path))


def spec(name: str, quota: int | None = 24, **changes: object) -> PipelineSpec:
    plain = {"name": name, "script": "x.py", "slots": {"min": 1, "max": 20}, "guards": {"max_total_slots": quota}}
    return PipelineSpec.model_validate({**plain, **changes})


def evaluated(
    tables: ControlTables,
    name: str,
    slots: int,
    wanted: int | None = None,
    priority: float = 1.0,
    minute: int = 0,
    bounds: Bounds = WIDE,
    action: Action = Action.HOLD,
    change: int | None = None,
    budget: int | None = None,
) -> None:
    """A pipeline that holds some slots, and wants more: it was cut to its share, or a guard judged its change."""
    first = spec(name).first_deployment()
    content = replace(first, apps={name: replace(first.apps[name], slots=slots)})
    latest = tables.deployments.latest(name)
    tables.deployments.commit(content, latest.version if latest else None)
    seen = signals(app_signals(slots, 10.0, None, app=name), bounds=bounds)
    predicted = {} if wanted is None else {"slots_wanted": float(wanted)}
    time = NOON + timedelta(minutes=minute)
    changes = () if change is None else (Change(name, "slots", slots, change),)
    proposed = (Proposal("flow", changes, "budget", "", predicted=predicted),)
    told = Decision(f"{name}-{minute}", name, time, action, "budget", "", proposals=proposed)
    seen = replace(seen, pipeline=name, priority=priority, budget=budget)
    tables.decisions.record(replace(told, signals=seen, cursor_version=1, cursor_until=time, base_version=1))


def test_pipeline_without_a_quota_has_no_share(tables: ControlTables) -> None:
    assert share_of(spec("a", None), tables, NOON) is None
    assert with_budget(signals(app_signals(2, 10.0, None)), spec("a", None), tables, NOON).budget is None


def test_slots_that_others_do_not_need_are_left_to_it(tables: ControlTables) -> None:
    evaluated(tables, "b", 3)
    evaluated(tables, "c", 4)
    assert share_of(spec("a"), tables, NOON) == 17


def test_first_come_does_not_keep_everything(tables: ControlTables) -> None:
    evaluated(tables, "a", 1)
    evaluated(tables, "b", 19, wanted=20)
    evaluated(tables, "c", 4, wanted=9)
    assert [share_of(spec(name), tables, NOON) for name in "abc"] == [8, 14, 11]
    evaluated(tables, "a", 1, wanted=20, minute=1)
    assert [share_of(spec(name), tables, NOON) for name in "abc"] == [8, 8, 8]


def test_change_that_the_quota_vetoes_is_a_need_of_its_pipeline(tables: ControlTables) -> None:
    evaluated(tables, "b", 19, wanted=20)
    evaluated(tables, "a", 1, action=Action.VETO, change=6)
    assert share_of(spec("b"), tables, NOON) == 18
    evaluated(tables, "a", 1, action=Action.ADVISE, change=6, minute=1)
    assert share_of(spec("b"), tables, NOON) == 20, "only a person may carry it out"


def test_slots_that_the_budget_of_another_forbids_are_left_to_it(tables: ControlTables) -> None:
    evaluated(tables, "b", 4, wanted=20, budget=6)
    assert share_of(spec("a"), tables, NOON) == 18
    evaluated(tables, "b", 9, wanted=20, budget=6)
    assert share_of(spec("a"), tables, NOON) == 15, "it holds them until its next evaluation"


def test_shares_follow_the_priorities_and_fill_the_quota(tables: ControlTables) -> None:
    evaluated(tables, "a", 10, wanted=20)
    evaluated(tables, "b", 10, wanted=20)
    evaluated(tables, "c", 4, wanted=20, priority=2)
    shares = [share_of(spec(name, priority=2 if name == "c" else 1), tables, NOON) for name in "abc"]
    assert shares == [6, 6, 12]


def test_shares_settle_after_three_evaluations_and_the_quota_holds(tables: ControlTables) -> None:
    wanted, priority = {"a": 20, "b": 20, "c": 16}, {"a": 1.0, "b": 1.0, "c": 2.0}
    slots = {"a": 20, "b": 2, "c": 2}
    for minute in range(3):
        for name in wanted:
            share = share_of(spec(name, priority=priority[name]), tables, NOON)
            assert share is not None
            others = sum(n for other, n in slots.items() if other != name)
            slots[name] = min(wanted[name], share, 24 - others)
            evaluated(tables, name, slots[name], wanted[name], priority[name], minute)
            assert sum(slots.values()) <= 24
    assert slots == {"a": 6, "b": 6, "c": 12}


def test_slots_that_no_executor_could_use_go_to_the_others(tables: ControlTables) -> None:
    pairs = {"executor": {"cores": 2, "memory_mb": 512}, "slots": {"min": 2, "max": 20, "start": 2}}
    evaluated(tables, "a", 2, wanted=20, bounds=Bounds(2, 20, 2))
    evaluated(tables, "b", 2, wanted=20)
    shares = share_of(spec("a", 15, **pairs), tables, NOON), share_of(spec("b", 15), tables, NOON)
    assert shares in ((8, 7), (6, 9))


def test_pipeline_that_was_never_evaluated_keeps_its_slots(tables: ControlTables) -> None:
    tables.deployments.commit(replace(spec("b").first_deployment()), None)
    assert share_of(spec("a"), tables, NOON) == 20


def test_minimums_above_the_quota_leave_its_own_minimum(tables: ControlTables) -> None:
    evaluated(tables, "b", 20)
    assert share_of(spec("a", 2, slots={"min": 2, "start": 2}), tables, NOON) == 2


def test_smaller_of_budget_and_share_counts_and_is_named(tables: ControlTables) -> None:
    evaluated(tables, "b", 20, wanted=20)
    seen = with_budget(signals(app_signals(2, 10.0, None)), spec("a", priority=3), tables, NOON)
    assert (seen.budget, seen.budget_key, seen.priority) == (18, QUOTA, 3)
    apps = {"apps": {"x": {"script": "x.py"}, "y": {"script": "y.py"}}, "budget": {"slots": 5}}
    seen = with_budget(signals(app_signals(2, 10.0, None)), spec("a", **apps), tables, NOON)
    assert (seen.budget, seen.budget_key) == (5, "budget.slots")


def test_fleet_claims_at_least_the_nodes_that_always_run(tables: ControlTables) -> None:
    fleet = {"script": "x.py", "checkpoints": "/c", "streams": {"list": ["a"]}, "node": {"slots": 2, "capacity": 10}}
    nodes = {"nodes": {"min": 1, "max": 4, "start": 1}}
    evaluated(tables, "b", 3, 3)
    of = PipelineSpec.model_validate({"name": "f", "fleet": {**fleet, **nodes}, "guards": {"max_total_slots": 6}})
    assert share_of(of, tables, NOON) == 3, "six slots for two equal pipelines, one of which could have eight"


def test_node_that_a_fleet_may_not_start_yet_counts_as_wanted(tables: ControlTables) -> None:
    fleet = {"script": "x.py", "checkpoints": "/c", "streams": {"list": ["a", "b", "c"]}}
    nodes = {"node": {"slots": 2, "capacity": 10}, "nodes": {"min": 1, "max": 4, "start": 2}}
    of = PipelineSpec.model_validate({"name": "f", "fleet": {**fleet, **nodes}, "guards": {"max_total_slots": 12}})
    tables.deployments.commit(replace(of.first_deployment(), ingest={"a": 0, "b": 1, "c": 1}), None)
    evaluated(tables, "b", 8, wanted=8)
    assert share_of(spec("b", 12), tables, NOON) == 8
    seen = replace(signals(app_signals(2, 10.0, None, app="node0")), pipeline="f", app_bounds=of.bounds_by_app(NOON))
    moves = (Change("node2", "ingest", 1, 2, stream="c"), Change("node1", "ingest", 1, -1, stream="gone"))
    vetoed = Decision("f-1", "f", NOON, Action.VETO, "quota", "", proposals=(Proposal("drfm", moves, "", ""),))
    tables.decisions.record(replace(vetoed, signals=seen, cursor_version=1, cursor_until=NOON, base_version=1))
    assert share_of(of, tables, NOON) == 6 == share_of(spec("b", 12), tables, NOON)
    advised = replace(vetoed, decision_id="f-2", time=NOON + timedelta(minutes=1), action=Action.ADVISE)
    tables.decisions.record(replace(advised, signals=seen, cursor_version=1, cursor_until=NOON, base_version=1))
    assert share_of(spec("b", 12), tables, NOON) == 8
