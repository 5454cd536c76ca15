"""Changes that miss their prediction, through the live loop and its replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.evaluation import Request
from millrace.control.guard_context import guard_context
from millrace.control.launch import launch
from millrace.control.new_observations import known_observations
from millrace.control.pending_decision import refuse
from millrace.control.roll_back import lag_s, undo
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.model.arrival import ArrivalBasis
from millrace.model.decision import Action, Decision, Memory, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import Change, Deployment
from millrace.model.placement import PartitionLoads
from millrace.model.signals import AppSignals, Signals
from millrace.reporting.backtest import replay
from tests.include.control.recorded_run import Run, launched, spec_of
from tests.include.control.world import NAME, NOON

DOWN, UP = {2: 1}, {2: 4}
LITTLE = {1: 300.0, 2: 900.0, 4: 910.0}
"""What one slot can do is far less than predicted, and what four can do is no more than two."""
APP = AppSignals(NAME, 2, 2, False, 100.0, 100.0, 4_000, 0.0, 9, 9, 1.0, 0.0, 0.5, None)


class Insistent:
    """Goes from some slots to others, whatever the signals, and predicts 400 rows/s per slot."""

    def __init__(self, steps: Mapping[int, int], each: float = 400.0) -> None:
        self.steps, self.each = steps, each

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        now = current.apps[NAME].slots
        wanted = self.steps.get(now, now)
        changes = () if wanted == now else (Change(NAME, "slots", now, wanted),)
        predicted = {"throughput_rows_per_s": self.each * wanted}
        return Proposal("steady", changes, "insists", f"{wanted} slots are wanted", predicted), memory


def run(
    home: Path, steps: Mapping[int, int], arrivals: Sequence[float], able: Mapping[int, float] = LITTLE,
    each: float = 400.0, **spec: Any,
) -> Run:  # fmt: skip
    return launched(home, Insistent(steps, each), spec_of(**spec), arrivals, able=lambda p: able[p])


def told(decisions: Sequence[Decision]) -> list[str]:
    return [f"{d.action.value}: {d.reason_code}" for d in decisions]


def die(run: Run, times: int = 1) -> None:
    """Let the driver die and start again, a second apart."""
    store = ReconfigurationStore(run.lake)
    for _ in range(times):
        last = store.recent(NAME, 1)[0]
        began = (last.ended or last.started) + timedelta(seconds=1)
        healed = replace(
            last, decision_id=None, from_version=last.to_version, generation=(last.generation or 0) + 1, achieved={},
            started=began, ended=began + timedelta(seconds=1), tier="T2",
        )  # fmt: skip
        store.record(healed)


def test_freed_slots_are_restored_when_the_lag_misses_its_goal_at_the_planned_load(tmp_path: Path) -> None:
    w = run(tmp_path, DOWN, [250, 250, 250, 250, 250], {**LITTLE, 1: 100.0})
    first, second, third, *_ = decisions = w.day()
    assert told(decisions) == [
        "apply: insists", "roll back: lag_goal_missed", "veto: roll_back", "veto: roll_back", "veto: roll_back",
    ]  # fmt: skip
    assert (
        "slots 1 -> 2: the step from 2 to 1 slots should have been enough for 320 rows/s, but 250 rows/s arrive"
        in second.sentence
    )
    assert second.sentence.startswith("Rolled back: ") and "(goal: 30 s)" in second.sentence
    newest, former = w.tables.deployments.latest(NAME), w.tables.deployments.get(NAME, 1)
    assert newest is not None and former is not None and first.target is not None
    assert (newest.apps, newest.version, newest.author) == (former.apps, 3, "verification")
    assert w.app.slots == 2
    assert "it is not tried again until the arrival rate leaves 188 to 312 rows/s" in third.sentence


def test_rolled_back_step_is_retried_only_at_another_load(tmp_path: Path) -> None:
    w = run(tmp_path, DOWN, [250, 250, 250, 200, 300, 80], {**LITTLE, 1: 100.0})
    assert told(w.day())[2:] == ["veto: roll_back", "veto: roll_back", "veto: roll_back", "apply: insists"]


def test_rolled_back_step_is_retried_after_a_day(tmp_path: Path) -> None:
    w = run(tmp_path, DOWN, [250, 250, 250, 250], {**LITTLE, 1: 100.0})
    assert told([w.evaluate(), w.evaluate(), w.evaluate()])[-1] == "veto: roll_back"
    w.clock.wait(86_400)
    assert told([w.evaluate()]) == ["apply: insists"]


def test_rolled_back_step_may_be_retried_with_another_content(tmp_path: Path) -> None:
    w = run(tmp_path, DOWN, [250, 250, 250, 250], {**LITTLE, 1: 100.0})
    assert told([w.evaluate(), w.evaluate(), w.evaluate()])[-1] == "veto: roll_back"
    w.loop.spec = spec_of(memory_mb=2048)
    launch(w.spec, w.tables)
    w.app.version = 4
    assert told([w.evaluate()]) == ["apply: insists"]


@pytest.mark.parametrize(
    ("arrivals", "spec"),
    [
        ([250, 400, 400], {}),
        ([250, 250, 250], {"verification": {"window_s": 0}}),
        ([250, 250, 250], {"verification": {"window_s": 20}}),
        ([250, 250, 250], {"objective": {"max_lag_s": 600}}),
        ([90, 90, 90], {}),
    ],
    ids=["load beyond the plan", "switched off", "window over", "goal met", "slots suffice"],
)
def test_freed_slots_stay_freed_if_they_are_not_the_cause(
    tmp_path: Path, arrivals: list[float], spec: dict[str, Any]
) -> None:
    w = run(tmp_path, DOWN, arrivals, {**LITTLE, 1: 100.0}, **spec)
    assert told(w.day()) == ["apply: insists", "hold: insists", "hold: insists"]


def test_more_slots_are_rolled_back_if_the_former_number_can_do_as_much(tmp_path: Path) -> None:
    w = run(tmp_path, UP, [850, 850, 850, 850])
    decisions = w.day()
    assert told(decisions) == ["apply: insists", "roll back: gain_missed", "veto: roll_back", "veto: roll_back"]
    assert "should have added 700 rows/s, but added 10 +- 13; 2 slots can do as much" in decisions[1].sentence
    assert w.app.slots == 2
    assert {o.parallelism for o in known_observations(w.tables, NAME)} == {2, 4}


@pytest.mark.parametrize(
    ("able", "arrival", "spec"),
    [
        ({2: 900.0, 4: 1000.0}, 850.0, {}),
        ({2: 900.0, 4: 910.0}, 905.0, {}),
        ({2: 900.0, 4: 1400.0}, 850.0, {}),
        ({2: 900.0, 4: 910.0}, 850.0, {"verification": {"least_gain": 0}}),
    ],
    ids=["a little more", "just enough", "half of it came", "no least gain"],
)
def test_more_slots_stay_if_fewer_would_be_worse(
    tmp_path: Path, able: dict[int, float], arrival: float, spec: dict[str, Any]
) -> None:
    w = run(tmp_path, UP, [arrival] * 3, able, **spec)
    assert told(w.day()) == ["apply: insists", "hold: insists", "hold: insists"]


def test_slots_taken_back_may_return_if_it_is_worse_without_them(tmp_path: Path) -> None:
    able = {2: 900.0, 4: 910.0}
    w = launched(tmp_path, Insistent(UP), spec_of(), [850] * 4, able=lambda p: able[p])
    assert told([w.evaluate(), w.evaluate()])[-1] == "roll back: gain_missed"
    able[2] = 450.0  # the machine had become slower; the slots were not useless
    assert told([w.evaluate()]) == ["apply: insists"]
    able[4] = 905.0
    assert told([w.evaluate()]) == ["hold: insists"]


def test_change_is_rolled_back_when_two_drivers_die_after_it(tmp_path: Path) -> None:
    w = run(tmp_path, UP, [100] * 4, {2: 900.0, 4: 1700.0})
    w.evaluate()
    die(w)
    assert told([w.evaluate()]) == ["hold: insists"]
    die(w)
    decision = w.evaluate()
    assert told([decision]) == ["roll back: died_after_change"]
    assert "2 drivers died since the step from 2 to 4 slots" in decision.sentence and w.app.slots == 2
    assert told([w.evaluate()]) == ["veto: roll_back"]


def test_change_is_rolled_back_when_two_executors_die_after_it(tmp_path: Path) -> None:
    w = run(tmp_path, UP, [100] * 3, {2: 900.0, 4: 1700.0})
    w.evaluate()
    w.app.executor_deaths = 1
    assert told([w.evaluate()]) == ["hold: insists"]
    w.app.executor_deaths = 2
    decision = w.evaluate()
    assert told([decision]) == ["roll back: died_after_change"]
    assert "2 executors died since the step from 2 to 4 slots" in decision.sentence and w.app.slots == 2


def test_change_is_rolled_back_when_its_drivers_die_without_telemetry(tmp_path: Path) -> None:
    w = run(tmp_path, UP, [100], {2: 900.0, 4: 1700.0})
    w.evaluate()
    die(w, 2)
    broken = replace(ReconfigurationStore(w.lake).recent(NAME, 1)[0], outcome=Outcome.CIRCUIT_OPEN, error="killed")
    started = broken.started + timedelta(seconds=3)
    ReconfigurationStore(w.lake).record(replace(broken, started=started, ended=started))
    w.clock.wait(60)
    observed = w.loop.observe()
    assert observed.hold is not None and observed.hold.reason == "circuit_open"
    assert told([w.loop.decide(observed)]) == ["roll back: died_after_change"]


def test_change_stays_when_drivers_died_before_it_too(tmp_path: Path) -> None:
    w = run(tmp_path, {2: 4, 4: 2}, [100] * 3, {2: 900.0, 4: 1700.0}, verification={"least_gain": 0})
    w.evaluate()
    die(w)
    w.evaluate()
    die(w, 2)
    assert told([w.evaluate()]) == ["apply: insists"]


def test_roll_back_of_a_change_whose_successor_dies_too_holds_nothing(tmp_path: Path) -> None:
    w = run(tmp_path, UP, [100] * 4, {2: 900.0, 4: 1700.0})
    w.evaluate()
    die(w, 2)
    assert told([w.evaluate()]) == ["roll back: died_after_change"]
    die(w)
    assert told([w.evaluate()]) == ["apply: insists"]


def test_persons_change_and_roll_backs_are_never_rolled_back(tmp_path: Path) -> None:
    w = run(tmp_path, {}, [250] * 3, {**LITTLE, 1: 100.0})
    forced = w.evaluate(Request(forced_slots=1, requested_by="ada"))
    assert told([forced, w.evaluate(), w.evaluate()]) == ["apply: forced", "hold: insists", "hold: insists"]


def test_person_is_asked_in_mode_approve_but_not_again_after_a_refusal(tmp_path: Path) -> None:
    w = run(tmp_path, DOWN, [250] * 5, {**LITTLE, 1: 100.0}, mode="approve")
    w.evaluate()  # asked, and approved at once
    asked = w.loop.decide(_next(w))
    assert told([asked]) == ["await: lag_goal_missed"] and asked.sentence.startswith("Waiting for approval: ")
    assert "is still waiting for approval" in w.loop.decide(_next(w)).sentence
    refuse(w.tables, NAME, asked.decision_id, "ada", w.clock())
    refused = w.loop.decide(_next(w))
    assert told([refused]) == ["hold: insists"] and "Not asking again" in refused.sentence
    assert w.app.slots == 1


def test_mode_advise_only_says_that_a_change_missed(tmp_path: Path) -> None:
    w = run(tmp_path, DOWN, [250] * 3, {**LITTLE, 1: 100.0})
    w.evaluate()
    w.loop.spec = spec_of(mode="advise")
    advised = w.evaluate()
    assert advised.target is None and "Advice only: delays: slots 1 -> 2: the step" in advised.sentence
    assert w.app.slots == 1


@pytest.mark.parametrize(
    ("steps", "able"), [(DOWN, {**LITTLE, 1: 100.0}), (UP, LITTLE)], ids=["freed slots", "little gain"]
)
def test_replay_repeats_recorded_roll_backs(tmp_path: Path, steps: dict[int, int], able: dict[int, float]) -> None:
    w = run(tmp_path, steps, [250] * 4 + [80, 80], able)
    recorded = w.day()
    assert Action.ROLL_BACK in {d.action for d in recorded}
    made = replay(w.spec, w.tables, "steady", Insistent(steps), {}, None, NOON + timedelta(days=1))
    assert [(e.replayed.action, e.replayed.sentence) for e in made.evaluations] == [
        (d.action, d.sentence) for d in recorded
    ]
    assert made.modelled == 0 and made.agreed == len(recorded)


def test_replay_follows_a_roll_back_that_read_no_telemetry(tmp_path: Path) -> None:
    w = run(tmp_path, UP, [100] * 4, {2: 900.0, 4: 1700.0})
    recorded = [w.evaluate()]
    die(w, 2)
    w.clock.wait(60)
    unread = replace(w.loop.observe(), signals=None)
    w.app.evaluation -= 1
    w.loop.apply(w.loop.decide(unread).decision_id)
    recorded += [w.evaluate(), w.evaluate()]
    assert told(recorded) == ["apply: insists", "veto: roll_back", "veto: roll_back"]
    made = replay(w.spec, w.tables, "steady", Insistent(UP), {}, None, NOON + timedelta(days=1))
    assert [e.replayed.sentence for e in made.evaluations] == [d.sentence for d in recorded]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 40.0),
        ({"restart_lag_rows": 3_000}, 10.0),
        ({"restart_lag_rows": 9_000}, 0.0),
        ({"backlog_rows": None}, None),
        ({"arrival_rows_per_s": 0.0}, None),
        ({"arrival_basis": ArrivalBasis.AT_LEAST}, None),
    ],
)
def test_lag_is_the_age_of_waiting_rows_except_those_of_a_restart(changes: dict[str, Any], expected: float) -> None:
    assert lag_s(replace(APP, **changes)) == expected


@pytest.mark.parametrize(
    ("trigger_s", "made_by", "missed"),
    [
        (0.0, {}, True),
        (60.0, {}, False),
        (0.0, {"decision_id": None, "author": "reconciler"}, True),  # another app of the version failed
        (0.0, {"decision_id": None, "author": "ada"}, False),
    ],
)
def test_change_of_one_app_is_judged_by_its_trigger_until_a_person_makes_a_version(
    trigger_s: float, made_by: dict[str, Any], missed: bool
) -> None:
    limits = spec_of(submit={"master": "embedded"})
    first = limits.first_deployment()
    step = Change(NAME, "slots", first.apps[NAME].slots, 1)
    target = replace(first.with_changes((step,)), version=2, decision_id="d1")
    proposal = Proposal("flow", (step,), "over_provisioned", "", {"throughput_rows_per_s": 400.0})

    def measured(version: int, waiting: int) -> Signals:
        app = replace(APP, backlog_rows=waiting, trigger_s=trigger_s)
        return Signals(NAME, NOON, NOON, 7, version, (app, replace(app, app="next", trigger_s=120.0)))

    before = measured(1, 2_000)
    decision = Decision("d1", NAME, NOON, Action.APPLY, "over_provisioned", "", before, 1, (proposal,), target=target)
    ended = NOON - timedelta(minutes=3)
    change = Reconfiguration(NAME, NAME, "d1", "T1", 1, 2, 1, ended, ended, 0.0, Outcome.READY)
    newest = replace(target, version=3, **made_by)
    guards = guard_context(limits, newest, NOON, [change], {"d1": decision}, {}, ())
    proposals = undo(limits.verification, guards, measured(3, 4_000))
    assert (proposals is not None and proposals.proposals[0].reason_code == "lag_goal_missed") == missed


def _next(run: Run) -> Any:
    run.clock.wait(60)
    return run.loop.observe()


@pytest.mark.parametrize(
    ("busy_s", "rows", "arrival", "sampled", "missed"),
    [
        ((2.0, 2.0), 9, 500.0, 1, True),
        ((1.1, 1.1), 9, 500.0, 1, False),
        ((2.0, 2.0), 18, 500.0, 1, False),
        ((2.0, 2.0), 9, 900.0, 1, False),
        ((2.0, 0.2), 9, 500.0, 1, False),
        ((2.0, 2.0), 9, 500.0, -1, False),
    ],
    ids=["nothing saved", "saved", "larger batches", "another load", "other hot keys", "sampled before it"],
)
def test_placement_is_rolled_back_if_it_saves_nothing_at_the_same_load(
    busy_s: tuple[float, float], rows: int, arrival: float, sampled: int, missed: bool
) -> None:
    def measured(
        version: int, load: float, executor: tuple[int, int], busy: tuple[float, float], since: datetime, each: int = 9
    ) -> Signals:
        groups = PartitionLoads(
            NAME, since, since, 9, ("q/0", "q/0"), (0, 1), executor, busy, (0.01, 0.01), (each, each), (1, 1)
        )
        app = replace(APP, arrival_rows_per_s=load, backlog_rows=0)
        return Signals(NAME, since, since, 7, version, (app,), partition_loads=groups)

    limits = spec_of(submit={"master": "embedded"})
    first = limits.first_deployment()
    step = Change(NAME, "placement", -1, 1, "q/0", partition=1)
    target = replace(first.with_changes((step,)), version=2, decision_id="d1")
    proposal = Proposal("albic", (step,), "uneven", "", {"stateful_batch_s": 1.0})
    was = measured(1, 500.0, (0, 0), (1.0, 1.0), NOON - timedelta(minutes=5))
    decision = Decision(
        "d1", NAME, NOON, Action.APPLY, "uneven", "", was, 1, (proposal,), proposal.predicted, target=target
    )
    ended = NOON - timedelta(minutes=3)
    change = Reconfiguration(NAME, NAME, "d1", "T1", 1, 2, 1, ended, ended, 0.0, Outcome.READY)
    guards = guard_context(limits, target, NOON, [change], {"d1": decision}, {}, ())
    now = measured(2, arrival, (0, 1), busy_s, ended + timedelta(minutes=sampled), rows)
    undone = undo(limits.verification, guards, now)
    assert (undone is not None) is missed
    if undone is not None:
        assert undone.content.apps == first.apps and not target.restarts(undone.content)
        assert "the stateful part of a batch from 2.0 to 1.0 s, but it takes 2.0 s" in undone.proposals[0].sentence
