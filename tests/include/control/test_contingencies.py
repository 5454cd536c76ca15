"""Plans for a rise in arrival: from an optimizer's lines to what a Deployment allows its agents."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.contingencies import allowed_lines, plan_of, renew_plan, withdraw_plan
from millrace.control.decide import action_of, decide
from millrace.control.evaluation import NO_REQUEST, Request
from millrace.control.guard_context import read_guard_context
from millrace.control.guards import judge
from millrace.control.launch import roll_back
from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.contingency import Contingency
from millrace.model.decision import Action, Decision, Memory, Proposal
from millrace.model.deployment import Change, Deployment
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from tests.include.control.test_decide import context as decision_context
from tests.include.control.test_decide import guards, observation
from tests.include.control.world import NAME, NOON, spec, world

CLUSTER = {
    "submit": {"master": "embedded"},
    "executor": {"cores": 2, "memory_mb": 512},
    "slots": {"min": 2, "max": 8, "start": 2},
}
LINES = (Contingency(NAME, 4, 900.0, 2.0), Contingency(NAME, 6, 1200.0, 2.0), Contingency(NAME, 8, 1800.0, 2.0))


class Planning:
    """Wants these slots and plans these lines."""

    name = "flow"

    def __init__(self, slots: int, lines: tuple[Contingency, ...] = LINES) -> None:
        self.slots, self.lines = slots, lines

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        before = current.apps[NAME].slots
        changes = () if before == self.slots else (Change(NAME, "slots", before, self.slots),)
        return Proposal(self.name, changes, "fits", "It fits.", contingencies=self.lines), memory


def on_cluster(version: int = 1, **changes: Any) -> tuple[PipelineSpec, Deployment]:
    of = spec(**CLUSTER, **changes)
    first = of.first_deployment()
    return of, replace(first, version=version, apps={NAME: replace(first.apps[NAME], slots=2)})


def decided(slots: int = 2, request: Request = NO_REQUEST, **changes: Any) -> tuple[PipelineSpec, Decision]:
    of, current = on_cluster(**changes)
    judged = guards(current, **CLUSTER, **changes)
    action = action_of(of.mode, request)
    given = decision_context(
        spec=of, guards=judged, optimizers={"flow": Planning(slots)}, request=request, action=action
    )
    return of, decide(observation(), given)[0]


def test_hold_plans_all_lines_that_the_guards_allow() -> None:
    assert decided()[1].contingencies == LINES
    assert decided(guards={"max_total_slots": 6})[1].contingencies == LINES[:2]
    assert decided(guards={"quiet_hours": ["11:00-13:00"]})[1].contingencies == ()
    assert decided(objective={"max_reconfigurations_per_hour": 0})[1].contingencies == ()


def test_change_has_the_lines_above_its_slots_and_counts_as_an_hourly_change() -> None:
    _, decision = decided(4)
    assert decision.action is Action.APPLY and decision.target is not None
    assert decision.contingencies == LINES[1:]
    plan = decision.target.contingencies
    assert plan is not None and (plan.decision_id, plan.lines) == ("d", LINES[1:])
    _, last = decided(4, objective={"max_reconfigurations_per_hour": 1})
    assert last.action is Action.APPLY and last.contingencies == ()


def test_line_gives_other_apps_as_much_as_all_together_may_have() -> None:
    content = on_cluster()[1]
    content = replace(content, apps={**content.apps, "next": content.apps[NAME], "local": replace(
        content.apps[NAME], executor=None)})  # fmt: skip
    line = Contingency(NAME, 4, 900.0, 2.0, others={"next": 6, "local": 4, "gone": 4})
    judged = replace(guards(content, **CLUSTER), current=content, bounds={})
    (allowed,) = allowed_lines((line,), content, judged, changes=False)
    assert allowed.others == {"next": 6}, "an app that would restart, and one that is gone, are left out"
    (fewer,) = allowed_lines((line,), content, replace(judged, budget=10), changes=False)
    assert fewer.others == {"next": 4}
    (alone,) = allowed_lines((line,), content, replace(judged, budget=8), changes=False)
    assert (alone.slots, alone.others) == (4, {})
    assert allowed_lines((line,), content, replace(judged, budget=6), changes=False) == ()


def test_app_that_restarts_for_a_change_has_no_plan() -> None:
    assert decided()[1].contingencies
    given = decision_context(optimizers={"flow": Planning(2)})  # master: local
    assert decide(observation(), given)[0].contingencies == ()


@pytest.mark.parametrize(("mode", "action"), [("advise", Action.ADVISE), ("approve", Action.AWAIT)])
def test_lines_are_shown_but_not_carried_out_if_a_person_decides(mode: str, action: Action, tmp_path: Path) -> None:
    of, decision = decided(4, mode=mode)
    assert decision.action is action and decision.contingencies == LINES[1:]
    assert decision.target is None or decision.target.contingencies is None
    store = DeploymentStore(Lake(tmp_path))
    store.commit(on_cluster()[1], None)
    assert renew_plan(store, decided(mode=mode)[1], of) is None


def test_veto_plans_nothing() -> None:
    assert decided(4, guards={"max_total_slots": 2})[1].contingencies == ()


def test_plan_of_a_hold_becomes_a_version_only_if_it_is_new(tmp_path: Path) -> None:
    store = DeploymentStore(Lake(tmp_path))
    store.commit(on_cluster()[1], None)
    of, decision = decided()
    renewed = renew_plan(store, decision, of)
    assert renewed is not None and renewed.version == 2
    assert renewed.contingencies is not None and renewed.contingencies.lines == LINES
    assert (renewed.decision_id, renewed.author) == ("d", "decision")
    same = replace(decision, decision_id="e", base_version=2)
    assert renew_plan(store, same, of) is None  # nothing new
    assert renew_plan(store, replace(same, base_version=1), of) is None  # made on an earlier version
    unsized = replace(same, contingencies=(), proposals=())
    assert renew_plan(store, unsized, of) is None and store.latest(NAME) == renewed
    asking = of.model_copy(update={"mode": "advise"})
    taken_back = renew_plan(store, replace(same, action=Action.ADVISE), asking)
    assert taken_back is not None and taken_back.contingencies is None


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, LINES),
        ({"guards": {"max_total_slots": 6}}, ()),
        ({"guards": {"quiet_hours": ["11:00-13:00"]}}, ()),
        ({"slots": {"min": 2, "max": 2, "start": 2}}, ()),
        ({"tuner": {"options": {"contingencies": False}}}, ()),
    ],
)
def test_plan_in_force_stays_only_if_the_spec_still_is_the_same(
    changes: dict[str, Any], left: tuple[Contingency, ...], tmp_path: Path
) -> None:
    store = DeploymentStore(Lake(tmp_path))
    store.commit(on_cluster()[1], None)
    of, decision = decided()
    current = renew_plan(store, decision, of)
    assert current is not None
    then = spec(**(CLUSTER | changes))
    unsized = _unsized(then, current, changes)
    assert unsized.action is Action.HOLD and unsized.contingencies == left
    renewed = renew_plan(store, unsized, then)
    assert (renewed is None) == bool(left)
    assert renewed is None or renewed.contingencies is None
    not_judged = replace(unsized, contingencies=(), proposals=())
    newest = store.commit(replace(current, decision_id="f"), current.version + (renewed is not None))
    withdrawn = renew_plan(store, replace(not_judged, base_version=newest.version, decision_id="g"), then)
    assert (withdrawn is None) == bool(left)


def test_plan_in_force_loses_the_lines_that_a_veto_forbids(tmp_path: Path) -> None:
    store = DeploymentStore(Lake(tmp_path))
    store.commit(on_cluster()[1], None)
    of, decision = decided()
    current = renew_plan(store, decision, of)
    assert current is not None
    judged = guards(current, **CLUSTER, guards={"max_total_slots": 5})
    given = decision_context(spec=of, guards=judged, optimizers={"flow": Planning(8, ())}, ran=current, decision_id="e")
    vetoed = decide(observation(), given)[0]
    assert vetoed.action is Action.VETO and vetoed.contingencies == LINES[:1]
    renewed = renew_plan(store, vetoed, of)
    assert renewed is not None and renewed.contingencies is not None and renewed.contingencies.lines == LINES[:1]


def test_plan_in_force_is_withdrawn_if_the_slots_were_sized_and_need_none(tmp_path: Path) -> None:
    class Sized(Planning):
        def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
            proposal, memory = super().propose(signals, current, memory)
            return replace(proposal, predicted={"throughput_rows_per_s": 900.0}), memory

    store = DeploymentStore(Lake(tmp_path))
    store.commit(on_cluster()[1], None)
    of, decision = decided()
    current = renew_plan(store, decision, of)
    assert current is not None
    given = decision_context(
        spec=of, guards=guards(current, **CLUSTER), optimizers={"flow": Sized(2, ())}, ran=current, decision_id="e"
    )
    withdrawn = renew_plan(store, decide(observation(), given)[0], of)
    assert withdrawn is not None and withdrawn.contingencies is None


def _unsized(of: PipelineSpec, current: Deployment, changes: dict[str, Any]) -> Decision:
    judged = guards(current, **(CLUSTER | changes))
    given = decision_context(spec=of, guards=judged, optimizers={"flow": Planning(2, ())}, ran=current, decision_id="e")
    return decide(observation(), given)[0]


def test_lines_are_stored_with_their_decision(tmp_path: Path) -> None:
    decisions = DecisionStore(Lake(tmp_path))
    decisions.record(decided()[1])
    assert decisions.last(NAME) == decided()[1]


def test_pausing_withdraws_the_plan(tmp_path: Path) -> None:
    store = DeploymentStore(Lake(tmp_path))
    assert withdraw_plan(store, NAME, "ada") is None
    store.commit(on_cluster()[1], None)
    assert withdraw_plan(store, NAME, "ada") is None
    of, decision = decided()
    renew_plan(store, decision, of)
    withdrawn = withdraw_plan(store, NAME, "ada")
    assert withdrawn is not None and (withdrawn.version, withdrawn.author, withdrawn.contingencies) == (3, "ada", None)
    assert withdrawn.apps == on_cluster()[1].apps


def test_roll_back_takes_no_plan_along_and_outlasts_a_new_one(tmp_path: Path) -> None:
    w = world(tmp_path, **CLUSTER)
    store = w.tables.deployments
    first = store.commit(on_cluster()[1], None)
    of, decision = decided()
    planned = renew_plan(store, decision, of)
    assert planned is not None and planned.contingencies is not None
    grown = replace(planned.with_changes((Change(NAME, "slots", 2, 8),)), decision_id="grown")
    store.commit(grown, planned.version)
    back = roll_back(w.tables, NAME, planned.version, "ada", NOON, None)
    assert back.apps == first.apps and (back.contingencies, back.origin) == (None, None)
    renewed = renew_plan(store, replace(decision, decision_id="e", base_version=back.version), of)
    assert renewed is not None and (renewed.version, renewed.origin) == (back.version + 1, back.version)
    context = read_guard_context(of, w.tables, renewed, NOON + timedelta(minutes=59), ())
    assert [o.guard for o in judge(context, grown) if not o.passed] == ["roll-back"]  # the person's word stands


def test_executors_that_are_missing_are_named_after_a_plan_was_renewed(tmp_path: Path) -> None:
    of, current = on_cluster()
    ran = replace(current, apps={NAME: replace(current.apps[NAME], slots=4)})
    newest = replace(ran, version=2)
    given = decision_context(spec=of, guards=guards(newest, **CLUSTER), optimizers={"flow": Planning(4)}, ran=ran)
    assert f"{NAME} has 2 of its 4 slots" in decide(observation(), given)[0].sentence


def test_plan_lapses_after_five_minutes_or_several_periods(tmp_path: Path) -> None:
    def lapses_s(**changes: Any) -> float:
        of, decision = decided(**changes)
        plan = plan_of(decision, of)
        assert plan is not None
        return plan.lapses_s

    assert lapses_s() == 300 and lapses_s(period_s=600) == 3000
