from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.evaluation import NO_REQUEST, EvaluationInput, Request
from millrace.control.guard_context import read_guard_context
from millrace.control.guards import CHAIN, judge
from millrace.control.launch import launch, roll_back
from millrace.control.messages import NEXT_RUN
from millrace.lake.decisions import DecisionStore, veto_id
from millrace.lake.deployments import DeploymentStore
from millrace.lake.memories import MemoryStore
from millrace.lake.observations import ObservationStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.row_codec import batch_row
from millrace.model.codec import from_json, to_json
from millrace.model.decision import Action, Decision, Memory, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import Change, Deployment
from millrace.model.errors import MillraceError, NotReady, Settled
from millrace.model.protocols import Cursor
from millrace.model.query_failure import QueryFailure
from millrace.model.signals import Signals
from tests.include.control.world import NAME, NOON, Proportional, World, batch, good_rows, world, write, write_app


@pytest.fixture
def w(tmp_path: Path) -> World:
    made = world(tmp_path)
    made.run(slots=2)
    return made


def evaluate(w: World, request: Request | None = None) -> Decision:
    asked = request or Request()
    observed = from_json(EvaluationInput, to_json(w.loop.observe(asked)))  # as it is passed between two tasks
    return w.loop.decide(observed, asked)


def slots(w: World) -> int:
    latest = DeploymentStore(w.lake).latest(NAME)
    assert latest is not None
    return latest.apps[NAME].slots


def test_decision_names_a_failed_query_while_the_others_are_still_sized(w: World) -> None:
    failure = QueryFailure("orders", NOON, "ValueError: poison")
    w.loop.query_failures = lambda: (failure,)
    decision = evaluate(w)
    assert decision.action is Action.APPLY
    assert decision.sentence.endswith(failure.sentence)


def test_evaluation_sizes_up_and_says_why(w: World) -> None:
    decision = evaluate(w)
    assert (decision.action, decision.reason_code, decision.base_version) == (Action.APPLY, "under_provisioned", 1)
    for told in ("delays: slots 2 -> 4", "4 slots are just enough"):
        assert told in decision.sentence
    assert all(outcome.passed for outcome in decision.guards) and len(decision.guards) == len(CHAIN) + 1
    stored = DecisionStore(w.lake).get(decision.decision_id)
    assert stored == decision
    changes = w.loop.apply(decision.decision_id)
    assert [c.decision_id for c in changes] == [decision.decision_id]
    latest = DeploymentStore(w.lake).latest(NAME)
    assert latest is not None
    assert (latest.version, latest.decision_id, latest.author, slots(w)) == (2, decision.decision_id, "decision", 4)


def test_evaluation_records_a_hold_with_its_reason(w: World) -> None:
    w.plant.arrival = 400
    decision = evaluate(w)
    assert (decision.action, decision.reason_code) == (Action.HOLD, "fits")
    assert decision.sentence == "The slots fit the load."
    assert DecisionStore(w.lake).last(NAME) == decision
    assert w.loop.apply(decision.decision_id) == () and w.plant.applied == []


def test_evaluation_when_nothing_is_new_then_records_nothing(w: World) -> None:
    evaluate(w)
    with pytest.raises(NotReady):
        w.loop.observe()
    assert len(DecisionStore(w.lake).recent(NAME)) == 1


def test_next_evaluation_starts_at_the_end_of_the_last_one(w: World) -> None:
    first = evaluate(w)
    w.clock.wait(20)
    w.report(31, 50)
    seen = w.loop.observe()
    assert (seen.since.telemetry_version, seen.since.until) == (first.cursor_version, first.cursor_until)
    assert first.signals is not None and seen.signals is not None
    assert seen.since.telemetry_version == first.signals.telemetry_version < seen.signals.telemetry_version


def test_decide_retried_duplicates_nothing(w: World) -> None:
    seen = w.loop.observe()
    first = w.loop.decide(seen)
    w.clock.wait(7)
    assert w.loop.decide(seen) == first
    assert len(DecisionStore(w.lake).recent(NAME)) == 1
    assert MemoryStore(w.lake).latest(NAME, "flow") == {"looks": 1}
    assert len(ObservationStore(w.lake).recent(NAME)) == 1


def test_decide_retried_stores_an_evaluation_once(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = w.loop.observe()

    def die(store: DecisionStore, decision: Decision) -> bool:
        raise OSError("killed")

    with monkeypatch.context() as dying:
        dying.setattr(DecisionStore, "record", die)
        with pytest.raises(OSError, match="killed"):
            w.loop.decide(seen)
    w.loop.decide(seen)
    assert MemoryStore(w.lake).latest(NAME, "flow") == {"looks": 1}
    optimizer = w.loop.optimizers["flow"]
    assert isinstance(optimizer, Proportional) and optimizer.remembered == [{}, {}]
    assert len(ObservationStore(w.lake).recent(NAME)) == 1
    assert len(DecisionStore(w.lake).recent(NAME)) == 1


def test_decision_of_a_killed_evaluation_is_unfinished_until_it_is_acted_on(w: World) -> None:
    assert w.loop.unfinished() is None
    decision = w.loop.decide(w.loop.observe())
    assert w.loop.unfinished() == decision
    assert w.loop.commit(decision) == decision.decision_id
    assert w.loop.unfinished() is None
    w.clock.wait(3600)
    assert w.loop.unfinished() is None


def test_decision_that_nobody_acted_on_for_long_stays_as_it_is(w: World) -> None:
    w.loop.decide(w.loop.observe())
    w.clock.wait(3600)
    assert w.loop.unfinished() is None


def test_apply_retried_creates_one_version(w: World) -> None:
    decision = evaluate(w)
    w.loop.apply(decision.decision_id)
    assert w.loop.apply(decision.decision_id) == ()
    assert w.plant.applied == [2]
    latest = DeploymentStore(w.lake).latest(NAME)
    assert latest is not None and latest.version == 2


def test_apply_when_it_died_after_the_commit_then_retry_reaches_plant(w: World) -> None:
    decision = evaluate(w)
    assert decision.target is not None
    DeploymentStore(w.lake).commit(decision.target, 1)
    assert len(w.loop.apply(decision.decision_id)) == 1
    assert w.plant.applied == [2]


def test_apply_when_the_base_version_moved_then_vetoes_once(w: World) -> None:
    decision = evaluate(w)
    current = DeploymentStore(w.lake).latest(NAME)
    assert current is not None
    DeploymentStore(w.lake).commit(replace(current, author="alice"), 1)
    for _ in range(2):
        with pytest.raises(Settled):
            w.loop.apply(decision.decision_id)
    vetoes = [d for d in DecisionStore(w.lake).recent(NAME) if d.action is Action.VETO]
    assert [(v.decision_id, v.reason_code) for v in vetoes] == [(veto_id(decision), "base_version_moved")]
    assert "version 1" in vetoes[0].sentence and "newest is 2" in vetoes[0].sentence
    assert w.plant.applied == [] and slots(w) == 2


def test_apply_does_not_restore_a_replaced_version(w: World) -> None:
    decision = evaluate(w)
    w.loop.apply(decision.decision_id)
    roll_back(w.tables, NAME, 1, "alice", w.clock(), None)
    assert w.loop.apply(decision.decision_id) == ()
    assert w.plant.applied == [2] and slots(w) == 2


def test_apply_when_there_is_no_such_decision_then_names_it(w: World) -> None:
    with pytest.raises(MillraceError, match="20130101T000000-nothere"):
        w.loop.apply("20130101T000000-nothere")


@pytest.mark.parametrize(
    ("mode", "action"), [("advise", Action.ADVISE), ("approve", Action.AWAIT), ("auto", Action.APPLY)]
)
def test_mode_when_a_change_is_due_then_decides_how_far_it_goes(tmp_path: Path, mode: str, action: Action) -> None:
    w = world(tmp_path, mode=mode)
    w.run()
    decision = evaluate(w)
    assert decision.action is action
    assert (decision.target is None) == (mode == "advise")
    w.loop.apply(decision.decision_id)
    assert slots(w) == (2 if mode == "advise" else 4)


def test_other_state_partitions_wait_for_a_person_in_mode_auto_too(tmp_path: Path) -> None:
    w = world(tmp_path)
    w.run()
    wanting = replace(w.loop, spec=w.loop.spec.model_copy(update={"max_parallelism": 16}))
    w = replace(w, loop=wanting)
    asked = evaluate(w)
    assert (asked.action, asked.reason_code) == (Action.AWAIT, "state_partitions")
    w.loop.commit(asked)
    assert slots(w) == 2
    w.loop.apply(asked.decision_id)
    newest = DeploymentStore(w.lake).latest(NAME)
    assert newest is not None and newest.apps[NAME].max_parallelism == 16
    w.clock.wait(60)
    w.report(31, 50)
    assert evaluate(w).reason_code == "under_provisioned"


def test_approve_when_the_same_question_waits_then_does_not_ask_again(tmp_path: Path) -> None:
    w = world(tmp_path, mode="approve", approval_expires_s=100)
    w.run()
    asked = evaluate(w)
    w.clock.wait(20)
    w.report(31, 50)
    again = evaluate(w)
    assert (again.action, again.reason_code) == (Action.HOLD, "awaiting_approval")
    assert asked.decision_id in again.sentence
    w.clock.wait(100)
    w.report(51, 70)
    assert evaluate(w).action is Action.AWAIT


def test_approve_does_not_ask_again_after_a_refusal(tmp_path: Path) -> None:
    w = world(tmp_path, mode="approve")
    w.run()
    asked = evaluate(w)
    refusal = replace(
        asked, decision_id=veto_id(asked), action=Action.VETO, reason_code="rejected", sentence="no", target=None
    )
    DecisionStore(w.lake).record(replace(refusal, cursor_version=None))
    w.clock.wait(20)
    w.report(31, 50)
    assert evaluate(w).reason_code == "rejected"


def test_approval_when_it_is_too_late_then_vetoes(tmp_path: Path) -> None:
    w = world(tmp_path, mode="approve", approval_expires_s=60)
    w.run()
    asked = evaluate(w)
    w.clock.wait(61)
    with pytest.raises(Settled, match="its approval came 1 s too late"):
        w.loop.apply(asked.decision_id)
    last = DecisionStore(w.lake).last(NAME)
    assert last is not None and last.reason_code == "approval_expired" and slots(w) == 2


def test_apply_retried_after_expiry_reaches_the_plant(
    tmp_path: Path,
) -> None:
    w = world(tmp_path, mode="approve", approval_expires_s=60)
    w.run()
    asked = evaluate(w)
    assert asked.target is not None
    DeploymentStore(w.lake).commit(asked.target, 1)
    w.clock.wait(61)
    assert len(w.loop.apply(asked.decision_id)) == 1
    assert DecisionStore(w.lake).get(veto_id(asked)) is None


def test_evaluation_when_bad_rows_arrive_between_gate_and_collection_then_holds(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = w.plant.observe

    def late(since: Cursor) -> Signals:
        write(w.lake, batch_row(batch(31, NOON, rows_in=-7)))
        return collect(since)

    monkeypatch.setattr(w.plant, "observe", late)
    decision = evaluate(w)
    assert (decision.action, decision.reason_code) == (Action.HOLD, "data_quality")
    assert "rows_in of delays batch 31 of generation 1 is -7" in decision.sentence
    assert [outcome.guard for outcome in decision.guards if not outcome.passed] == ["data quality"]


def test_next_evaluation_continues_behind_bad_rows(w: World) -> None:
    evaluate(w)
    w.clock.wait(20)
    rows = good_rows(31, 50, w.clock())
    rows[9]["rows_in"] = -7
    write(w.lake, *rows)
    write_app(w.lake, w.clock())
    held = evaluate(w)
    assert held.reason_code == "data_quality" and held.cursor_version == w.lake.version("telemetry/batches")
    w.clock.wait(20)
    w.report(51, 70)
    assert evaluate(w).action is Action.APPLY


def test_dry_run_changes_neither_slots_nor_memory_nor_cursor(w: World) -> None:
    dry = evaluate(w, Request(dry_run=True, requested_by="alice"))
    assert dry.action is Action.ADVISE and "slots 2 -> 4" in dry.sentence and dry.target is None
    assert MemoryStore(w.lake).latest(NAME, "flow") == {}
    assert ObservationStore(w.lake).recent(NAME) == ()
    assert evaluate(w).action is Action.APPLY  # the same telemetry is still there to decide on


def test_forced_slots_apply_in_any_mode_and_name_the_person(tmp_path: Path) -> None:
    w = world(tmp_path, mode="advise")
    w.run()
    decision = evaluate(w, Request(forced_slots=5, requested_by="alice"))
    assert decision.action is Action.APPLY and "alice asked for 5 slots" in decision.sentence
    w.loop.apply(decision.decision_id)
    latest = DeploymentStore(w.lake).latest(NAME)
    assert latest is not None and (latest.author, slots(w)) == ("alice", 5)
    assert MemoryStore(w.lake).latest(NAME, "flow") == {}


@pytest.mark.parametrize("wanted", [0, -1, 9])
def test_forced_slots_when_out_of_bounds_then_vetoes_with_the_range(w: World, wanted: int) -> None:
    decision = evaluate(w, Request(forced_slots=wanted, requested_by="alice"))
    assert (decision.action, decision.reason_code) == (Action.VETO, "bounds")
    assert f"{wanted} slots; allowed: 1 to 8" in decision.sentence


def test_forced_slots_without_new_telemetry_still_apply(w: World) -> None:
    evaluate(w)
    decision = evaluate(w, Request(forced_slots=3, requested_by="alice"))
    assert decision.action is Action.APPLY and decision.signals is None


def test_forced_slots_that_are_already_set_hold(w: World) -> None:
    decision = evaluate(w, Request(forced_slots=2))
    assert decision.action is Action.HOLD and "already has 2 slots" in decision.sentence


def test_evaluation_when_the_pipeline_was_never_launched_then_holds_and_says_so(tmp_path: Path) -> None:
    decision = evaluate(world(tmp_path))
    assert (decision.action, decision.reason_code) == (Action.HOLD, "not_launched")
    assert "launch_delays" in decision.sentence


def test_evaluation_of_a_stopped_pipeline_holds_even_if_forced(w: World) -> None:
    current = DeploymentStore(w.lake).latest(NAME)
    assert current is not None
    DeploymentStore(w.lake).commit(replace(current, running=False), 1)
    assert evaluate(w).reason_code == "stopped"
    w.clock.wait(1)
    assert evaluate(w, Request(forced_slots=4)).action is Action.HOLD


def test_finished_pipeline_is_sized_for_its_next_run(w: World) -> None:
    current = DeploymentStore(w.lake).latest(NAME)
    assert current is not None
    DeploymentStore(w.lake).commit(replace(current, running=False, finished=NOON), 1)
    decision = evaluate(w)
    assert decision.action is Action.APPLY and decision.sentence.endswith(NEXT_RUN)
    w.loop.commit(decision)
    sized = DeploymentStore(w.lake).latest(NAME)
    assert sized is not None and (sized.version, sized.running, sized.finished) == (3, False, NOON)
    assert slots(w) > current.apps[NAME].slots
    again = launch(w.loop.spec, w.tables)
    assert (again.running, again.finished, again.apps) == (True, None, sized.apps)


@pytest.mark.parametrize("request_", [NO_REQUEST, Request(forced_slots=4)])
def test_detached_pipeline_is_not_evaluated(w: World, request_: Request) -> None:
    current = DeploymentStore(w.lake).latest(NAME)
    assert current is not None
    seen = w.loop.observe()
    DeploymentStore(w.lake).commit(replace(current, detached=True), 1)
    with pytest.raises(NotReady, match="millrace attach delays"):
        w.loop.observe(request_)
    assert w.loop.decide(seen, request_).reason_code == "detached"  # detached in between


@pytest.mark.parametrize(
    ("outcome", "code"), [(Outcome.FAILED, "driver_failed"), (Outcome.CIRCUIT_OPEN, "circuit_open")]
)
def test_evaluation_shows_the_exception_of_a_dead_driver(w: World, outcome: Outcome, code: str) -> None:
    error = "ValueError: no column dep_delay"
    failed = Reconfiguration(NAME, NAME, None, "T2", 1, 1, 2, NOON, NOON, None, outcome, error)
    ReconfigurationStore(w.lake).record(failed)
    decision = evaluate(w)
    assert (decision.action, decision.reason_code) == (Action.HOLD, code)
    assert error in decision.sentence


def test_app_without_a_driver_does_not_keep_the_others_from_being_sized(w: World) -> None:
    current = DeploymentStore(w.lake).latest(NAME)
    assert current is not None
    DeploymentStore(w.lake).commit(replace(current, apps={**current.apps, "gold": current.apps[NAME]}), 1)
    failed = Reconfiguration(NAME, "gold", None, "T2", 1, 2, 2, NOON, NOON, None, Outcome.CIRCUIT_OPEN, "no column x")
    ReconfigurationStore(w.lake).record(failed)
    decision = evaluate(w)
    assert decision.action is Action.APPLY, decision.sentence
    assert "gold does not run: its driver keeps failing: no column x." in decision.sentence
    other = replace(failed, app=NAME, started=NOON + timedelta(seconds=1))
    ReconfigurationStore(w.lake).record(other)
    assert w.loop.observe().hold is not None, "nothing runs"


class Broken:
    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        raise ZeroDivisionError("no rows at all")


def test_evaluation_holds_on_an_error_of_its_optimizer(w: World) -> None:
    w.loop.optimizers = {"flow": Broken()}
    decision = evaluate(w)
    assert (decision.action, decision.reason_code) == (Action.HOLD, "optimizer_failed")
    assert "ZeroDivisionError: no rows at all" in decision.sentence and "propose" in decision.sentence
    with pytest.raises(NotReady):
        w.loop.observe()


def test_evaluation_when_reading_telemetry_raises_then_holds_with_the_error(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observe(since: object) -> Signals:
        raise TypeError("rows_in is None")

    monkeypatch.setattr(w.plant, "observe", observe)
    decision = evaluate(w)
    assert (decision.action, decision.reason_code) == (Action.HOLD, "collect_failed")
    assert "rows_in is None" in decision.sentence


def test_evaluation_when_another_owns_the_slots_then_advises(tmp_path: Path) -> None:
    w = world(tmp_path, owners={"slots": "ds2"})
    w.run()
    decision = evaluate(w)
    assert decision.action is Action.ADVISE and "slots belongs to ds2" in decision.sentence


def test_evaluation_vetoes_within_the_cool_down(w: World) -> None:
    done = Reconfiguration(NAME, NAME, None, "T2", None, 1, 1, NOON, NOON, None, Outcome.READY)
    ReconfigurationStore(w.lake).record(done)
    decision = evaluate(w)
    assert (decision.action, decision.reason_code) == (Action.VETO, "cool_down")
    assert "ended 0 s ago; the cool-down is 30 s" in decision.sentence


def test_evaluation_backs_off_from_a_content_that_failed(w: World) -> None:
    first = evaluate(w)
    w.loop.apply(first.decision_id)
    failed = Reconfiguration(NAME, NAME, first.decision_id, "T2", 1, 2, 2, NOON, NOON, None, Outcome.ROLLED_BACK, "OOM")
    ReconfigurationStore(w.lake).record(failed)
    former = w.tables.deployments.get(NAME, 1)
    assert former is not None
    w.tables.deployments.commit(replace(former, author="reconciler"), 2)
    w.clock.wait(60)
    w.report(31, 89)
    again = evaluate(w)
    assert (again.action, again.reason_code) == (Action.VETO, "cool_down")
    assert "failed 60 s ago (OOM)" in again.sentence
    w.clock.wait(300)
    w.report(90, 389)
    assert evaluate(w).action is Action.APPLY


def test_evaluation_when_the_telemetry_is_from_an_older_version_then_holds(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = w.loop.observe()
    current = DeploymentStore(w.lake).latest(NAME)
    assert current is not None
    DeploymentStore(w.lake).commit(current.with_changes((Change(NAME, "slots", 2, 3),)), 1)
    decision = w.loop.decide(seen)
    assert (decision.action, decision.reason_code) == (Action.HOLD, "not_running_yet")


def test_decisions_when_listed_then_their_ids_sort_by_time(w: World) -> None:
    ids = [evaluate(w).decision_id]
    for step in range(3):
        w.clock.wait(20)
        w.report(31 + 20 * step, 50 + 20 * step)
        ids.append(evaluate(w).decision_id)
    assert ids == sorted(ids) and len(set(ids)) == 4


def test_roll_back_is_a_new_version_and_a_decision(w: World) -> None:
    w.loop.apply(evaluate(w).decision_id)
    made = roll_back(w.tables, NAME, 1, "alice", w.clock(), None)
    assert (made.version, made.apps[NAME].slots, made.author) == (3, 2, "alice")
    assert roll_back(w.tables, NAME, 1, "alice", w.clock(), None) == made
    last = DecisionStore(w.lake).get(made.decision_id or "")
    assert last is not None and last.action is Action.ROLL_BACK and last.target == made
    with pytest.raises(MillraceError, match="roll_back_to: got 9; allowed: 1 to 3"):
        roll_back(w.tables, NAME, 9, "alice", w.clock(), None)


def test_rolled_back_content_is_not_decided_again_for_an_hour(w: World) -> None:
    first = evaluate(w)
    w.loop.apply(first.decision_id)
    now = w.clock()
    made = roll_back(w.tables, NAME, 1, "alice", now, None)
    assert first.target is not None
    for later, expected in ((timedelta(minutes=59), ["roll-back"]), (timedelta(hours=1), [])):
        context = read_guard_context(w.loop.spec, w.tables, made, now + later, ())
        assert [o.guard for o in judge(context, first.target) if not o.passed] == expected
