"""A Decision from values alone: no table, no clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from millrace.control.decide import DecisionContext, Question, action_of, decide
from millrace.control.evaluation import NO_REQUEST, EvaluationInput, GateResult, Hold, Request
from millrace.control.guard_context import GuardContext, guard_context
from millrace.model.decision import Action, Decision, Memory, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import Change, Deployment
from millrace.model.objective import Bounds, Objective
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Capacity, Signals
from millrace.model.spec import Mode
from tests.include.control.world import NAME, NOON, Proportional, spec

SOUND, BAD = GateResult(True), GateResult(False, sentence="rows_in is -7")
APP = AppSignals(NAME, 2, 2, False, 800.0, 400.0, 1200, 20.0, 10, 8, 0.9, 0.5, 0.8, Capacity(2, 0.4, 480.0, 5.0, 20))
SIGNALS = Signals(
    NAME, NOON - timedelta(minutes=1), NOON, 7, 1, (APP,), objective=Objective(), bounds=Bounds(1, 8)
)  # fmt: skip


def deployment(version: int = 1, running: bool = True) -> Deployment:
    first = spec().first_deployment()
    app = replace(first.apps[NAME], slots=2)
    return replace(first, version=version, running=running, apps={NAME: app})


def guards(current: Deployment, history: tuple[Reconfiguration, ...] = (), **changes: Any) -> GuardContext:
    return guard_context(spec(**changes), current, NOON, history, {}, {}, ())


def context(current: Deployment | None = None, **changes: Any) -> DecisionContext:
    plain: dict[str, Any] = {
        "spec": spec(), "decision_id": "d", "now": NOON, "action": Action.APPLY, "owners": spec().field_owners,
        "optimizers": {"flow": Proportional("flow")}, "guards": guards(current or deployment()),
    }  # fmt: skip
    return DecisionContext(**{**plain, **changes})


def observation(**changes: Any) -> EvaluationInput:
    plain: dict[str, Any] = {
        "signals": SIGNALS,
        "gate": SOUND,
        "since": Cursor(),
        "time": NOON,
        "until": Cursor(7, NOON),
    }
    return EvaluationInput(NAME, **{**plain, **changes})


def decided(observed: EvaluationInput, given: DecisionContext) -> Decision:
    return decide(observed, given)[0]


def test_decision_is_the_same_for_the_same_values() -> None:
    first, memories = decide(observation(), context())
    assert (first.action, first.reason_code, memories) == (Action.APPLY, "under_provisioned", {"flow": {"looks": 1}})
    assert decide(observation(), context()) == (first, memories)
    assert first.target is not None and first.target.apps[NAME].slots == 4
    assert [outcome.guard for outcome in first.guards][:2] == ["data quality", "bounds"]


@pytest.mark.parametrize(
    ("observed", "given", "reason"),
    [
        (observation(), context(guards=None), "not_launched"),
        (observation(), context(deployment(running=False)), "stopped"),
        (observation(hold=Hold("collect_failed", "no"), gate=BAD), context(), "collect_failed"),
        (observation(gate=BAD), context(), "data_quality"),
        (observation(signals=None), context(), "no_signals"),
        (observation(), context(deployment(2)), "not_running_yet"),
    ],
)
def test_hold_comes_before_any_optimizer_is_asked(
    observed: EvaluationInput, given: DecisionContext, reason: str
) -> None:
    decision, memories = decide(observed, given)
    assert (decision.action, decision.reason_code, decision.proposals, memories) == (Action.HOLD, reason, (), {})
    assert [o.guard for o in decision.guards if not o.passed] == ([] if observed.gate.passed else ["data quality"])


def test_signals_of_the_same_apps_at_another_version_are_used() -> None:
    assert decided(observation(), context(deployment(2), ran=deployment(1))).action is Action.APPLY


@pytest.mark.parametrize(
    ("lag", "told"),
    [
        ({"clicks/3": 900, "clicks/0": 0}, "just enough. 900 of the 1,200 waiting rows are in clicks/3."),
        ({"clicks/0": 600, "clicks/1": 500}, "just enough. 600 of the 1,200 waiting rows are in clicks/0."),
        ({"clicks/0": 500, "clicks/1": 400, "clicks/2": 300}, "just enough."),
        ({"clicks/0": 1200}, "just enough."),
    ],
)
def test_source_partition_with_most_of_the_backlog_is_named(lag: dict[str, int], told: str) -> None:
    signals = replace(SIGNALS, apps=(replace(APP, lag=lag),))
    assert decided(observation(signals=signals), context()).sentence.endswith(told)


def test_advice_on_an_app_that_is_not_deployed_changes_nothing() -> None:
    class Stray:
        def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
            return Proposal("stray", (Change("gone", "slots", 1, 2),), "stray", "It wants another app."), memory

    given = context(optimizers={"flow": Proportional("flow"), "stray": Stray()})
    decision = decided(observation(), given)
    assert decision.action is Action.APPLY and [p.optimizer for p in decision.proposals] == ["flow", "stray"]
    resting = replace(APP, arrival_rows_per_s=400.0)
    assert decided(observation(signals=replace(SIGNALS, apps=(resting,))), given).action is Action.ADVISE


class Joint:
    """Wants other slots for two apps at once."""

    def __init__(self, **wanted: int) -> None:
        self.wanted = wanted

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        changes = tuple(Change(app, "slots", 2, slots) for app, slots in self.wanted.items())
        return Proposal("flow", changes, "together", "Both need other slots.", {"slots/gold": 4.0}), memory


@pytest.mark.parametrize(("gold", "budget", "follows"), [(4, None, True), (4, 9, True), (1, None, True), (1, 9, False)])
def test_app_does_not_wait_for_another_one_that_may_not_change(gold: int, budget: int | None, follows: bool) -> None:
    current, signals = deployment(), replace(SIGNALS, budget=budget)
    current = replace(current, apps={**current.apps, "gold": current.apps[NAME]})
    going_on = Reconfiguration(NAME, NAME, None, "T2", 1, 1, 1, NOON, None, None, Outcome.OPEN)
    judged = replace(guards(current, (going_on,)), signals=signals)
    given = context(current, guards=judged, optimizers={"flow": Joint(**{NAME: 4, "gold": gold})})
    decision = decided(observation(signals=signals), given)
    assert decision.action is (Action.APPLY if follows else Action.VETO), decision.sentence
    if follows:
        assert decision.target is not None
        assert {name: app.slots for name, app in decision.target.apps.items()} == {NAME: 2, "gold": gold}
        assert "Not now: delays: slots 2 -> 4 (cool-down: delays: the change that" in decision.sentence


def test_no_app_changes_alone_shortly_after_a_person_has_rolled_one_back() -> None:
    """Otherwise the version of another app would hide the rollback, and the next decision could undo it."""
    current = deployment()
    current = replace(current, apps={**current.apps, "gold": current.apps[NAME]})
    undone = replace(current, apps={**current.apps, NAME: replace(current.apps[NAME], slots=4)})
    given = context(
        current, guards=replace(guards(current), undone=undone), optimizers={"flow": Joint(**{NAME: 4, "gold": 4})}
    )
    decision = decided(observation(), given)
    assert decision.action is Action.VETO and decision.target is None, decision.sentence


def test_forced_change_needs_no_telemetry_and_stores_no_memory() -> None:
    request = Request(forced_slots=5, requested_by="ada")
    decision, memories = decide(observation(signals=None, gate=BAD), context(request=request))
    assert decision.action is Action.APPLY and decision.target is not None and memories == {}
    assert (decision.target.apps[NAME].slots, decision.target.author) == (5, "ada")


def test_veto_names_its_guard_and_has_no_target() -> None:
    ended = Reconfiguration(NAME, NAME, None, "T2", None, 1, 1, NOON, NOON, None, Outcome.READY)
    decision = decided(observation(), context(guards=guards(deployment(), (ended,))))
    assert (decision.action, decision.reason_code, decision.target) == (Action.VETO, "cool_down", None)


def test_waiting_question_is_not_asked_again() -> None:
    given = context(action=Action.AWAIT)
    asked = decided(observation(), given)
    assert asked.action is Action.AWAIT
    again = decided(observation(), replace(given, questions=(Question(asked, None),)))
    assert (again.action, again.reason_code) == (Action.HOLD, "awaiting_approval")
    expired = Question(asked, replace(asked, action=Action.VETO, reason_code="expired"))
    assert decided(observation(), replace(given, questions=(expired,))).action is Action.AWAIT
    moved = context(deployment(2), action=Action.AWAIT, ran=deployment(1), questions=(Question(asked, None),))
    assert decided(observation(), moved).action is Action.AWAIT


def wanting(partitions: int = 16, action: Action = Action.AWAIT, **changes: Any) -> DecisionContext:
    return context(spec=spec(max_parallelism=partitions), rescale=action, **changes)


def test_other_state_partitions_in_the_spec_wait_for_a_person_in_any_mode() -> None:
    assert spec().mode is Mode.AUTO and spec().rescale is Mode.APPROVE
    asked, memories = decide(observation(), wanting())
    assert (asked.action, asked.reason_code, memories) == (Action.AWAIT, "state_partitions", {})
    assert "max_parallelism 8 -> 16" in asked.sentence
    assert asked.target is not None and deployment().restarts(asked.target)
    assert asked.target.apps[NAME] == replace(deployment().apps[NAME], max_parallelism=16)
    assert decided(observation(), wanting(action=Action.APPLY)).action is Action.APPLY


def test_tuner_continues_while_state_partitions_wait_or_are_only_advised() -> None:
    asked = decided(observation(), wanting())
    for given in (wanting(questions=(Question(asked, None),)), wanting(action=Action.ADVISE)):
        tuned, memories = decide(observation(), given)
        assert (tuned.action, tuned.reason_code, memories) == (
            Action.APPLY,
            "under_provisioned",
            {"flow": {"looks": 1}},
        )
        assert tuned.target is not None and tuned.target.apps[NAME].max_parallelism == 8
        assert "max_parallelism 8 -> 16" in tuned.sentence


def test_state_partitions_are_left_alone_if_in_force_or_slots_are_forced() -> None:
    assert decided(observation(), wanting(8)).reason_code == "under_provisioned"
    assert decided(observation(), wanting(request=Request(forced_slots=5))).reason_code == "forced"


def test_content_that_a_person_refused_is_not_proposed_again() -> None:
    given = context(action=Action.AWAIT)
    asked = decided(observation(), given)
    refused = Question(asked, replace(asked, action=Action.VETO, reason_code="rejected", sentence="ada said no"))
    again = decided(observation(), replace(given, questions=(refused,)))
    assert (again.action, again.reason_code) == (Action.HOLD, "rejected") and "ada said no" in again.sentence


@pytest.mark.parametrize(
    ("mode", "request_", "action"),
    [
        (Mode.ADVISE, NO_REQUEST, Action.ADVISE),
        (Mode.APPROVE, NO_REQUEST, Action.AWAIT),
        (Mode.AUTO, NO_REQUEST, Action.APPLY),
        (Mode.ADVISE, Request(forced_slots=3), Action.APPLY),
        (Mode.AUTO, Request(forced_slots=3, dry_run=True), Action.ADVISE),
    ],
)
def test_action_follows_mode_and_request(mode: Mode, request_: Request, action: Action) -> None:
    assert action_of(mode, request_) is action
