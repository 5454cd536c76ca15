"""A join's workers, block size and shed ratio: changed without a restart, kept and rolled back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.control.guard_context import GuardContext
from millrace.control.guards import judge
from millrace.control.launch import launch, roll_back
from millrace.control.messages import explain_change
from millrace.control.proposals import Proposals, arbitrate
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.store import Lake
from millrace.model.backtest import Backtest
from millrace.model.decision import Action, Memory, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import (
    BLOCK_SIZE,
    JOIN_FIELDS,
    JOIN_WORKERS,
    SHED_RATIO,
    SLOTS,
    AppDeployment,
    Change,
    Deployment,
)
from millrace.model.join import JoinSettings
from millrace.model.objective import Bounds
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.model.spec_sections import GuardsSpec
from millrace.reporting.backtest import replay
from millrace.wiring import first_join_workers
from tests.include.control.recorded_run import DAY, App, Steady, launched, spec_of
from tests.include.control.world import NAME, NOON, MemoryPlant, PassingGate, World, spec, world
from tests.include.drivers.plant_of_doubles import DoublesPlant

JOIN: dict[str, Any] = {
    "streams": {"a": {"source": "a", "time": "t", "columns": ["k"]}},
    "tasks": {"pairs": {"left": "a", "right": "a", "on": ["k"], "within_s": 60}},
    "results": "r",
    "checkpoint": "c",
    "capacity": 100,
    "workers": {"min": 1, "max": 6, "start": 2},
    "block": 10,
}
OWNERS = {"slots": "flow", **dict.fromkeys(JOIN_FIELDS, "esj")}
CURRENT = Deployment(NAME, 3, True, {NAME: AppDeployment("x", (), 2, 1024, 8)}, join=JoinSettings(2, 10, 0.2))


def joined(**changes: Any) -> PipelineSpec:
    return spec(join={**JOIN, **changes})


def settings(lake: Lake) -> JoinSettings | None:
    return latest(lake).join


def latest(lake: Lake) -> Deployment:
    found = DeploymentStore(lake).latest(NAME)
    assert found is not None
    return found


class Scripted:
    """Wants one list of settings after another."""

    def __init__(self, name: str, *wanted: Mapping[str, float]) -> None:
        self.name, self.wanted = name, list(wanted)

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        changes = []
        for field, value in (self.wanted.pop(0) if self.wanted else {}).items():
            before = current.value(Change(NAME, field, 0, value))
            assert before is not None
            changes.append(Change(NAME, field, before, value))
        predicted = {f"{self.name}_ratio": 0.5}
        return Proposal(self.name, tuple(changes), "wants", f"{self.name} wants it so", predicted), memory


def running(home: Path, *wanted: Mapping[str, float], tuner: Scripted | None = None, **changes: Any) -> World:
    w = world(home, join=JOIN, **changes)
    w.loop.optimizers = {"flow": tuner or Scripted("flow"), "esj": Scripted("esj", *wanted)}
    w.plant = MeasuringPlant(w.lake, w.clock)
    w.loop.plant, w.loop.gate = w.plant, PassingGate(w.clock)
    w.run()
    return w


class MeasuringPlant(MemoryPlant):
    """An app that continues with its first version."""

    def observe(self, since: Cursor) -> Signals:
        return replace(super().observe(since), deployment_version=1)


def evaluate(w: World, number: int) -> Any:
    w.clock.wait(1)
    w.report(number, number)
    decision = w.loop.decide(w.loop.observe())
    w.loop.apply(decision.decision_id)
    return decision


def test_arbitration_of_a_join_checks_owner_and_existence() -> None:
    wanted = (Change(NAME, JOIN_WORKERS, 2, 5), Change(NAME, BLOCK_SIZE, 10, 20), Change(NAME, SHED_RATIO, 0.2, 0.0))
    proposal = Proposal("esj", wanted, "r", "s")
    assert arbitrate(proposal, CURRENT, OWNERS) == (wanted, ())
    assert {a.why for a in arbitrate(proposal, replace(CURRENT, join=None), OWNERS)[1]} == {f"{NAME} has no join"}
    _, other = arbitrate(replace(proposal, optimizer="flow"), CURRENT, OWNERS)
    assert [a.why for a in other] == [f"{field} belongs to esj" for field in JOIN_FIELDS]
    _, stale = arbitrate(Proposal("esj", (Change(NAME, SHED_RATIO, 0.1, 0.0),), "r", "s"), CURRENT, OWNERS)
    assert stale[0].why == "it expected 0.1, but 0.2 is set"


def test_message_shows_a_joins_settings_together() -> None:
    changes = (
        Change(NAME, JOIN_WORKERS, 2, 5), Change(NAME, SHED_RATIO, 0.2, 0.0), Change(NAME, SLOTS, 2, 4),
    )  # fmt: skip
    proposals = Proposals(CURRENT.with_changes(changes), (Proposal("esj", changes, "r", "it is full"),), changes)
    told = explain_change(Action.APPLY, proposals, None)
    assert told == "delays: slots 2 -> 4, delays: join_workers 2 -> 5, shed_ratio 0.2 -> 0: it is full."
    third = Proposals(CURRENT, changes=(Change(NAME, SHED_RATIO, 1 / 3, 2 / 3),))
    assert "shed_ratio 0.333 -> 0.667" in explain_change(Action.APPLY, third, None)


def context(**changes: Any) -> GuardContext:
    plain: dict[str, Any] = {
        "now": NOON, "current": CURRENT, "bounds": {"flight_weather": Bounds(1, 8)},
        "limits": GuardsSpec(cool_down_s=60), "max_per_hour": 1, "join": joined().join,
    }  # fmt: skip
    return GuardContext(**{**plain, **changes})


def restarted(ended_ago_s: float | None) -> Reconfiguration:
    ended = None if ended_ago_s is None else NOON - timedelta(seconds=ended_ago_s)
    begun = (ended or NOON) - timedelta(seconds=5)
    outcome = Outcome.OPEN if ended is None else Outcome.READY
    return Reconfiguration(NAME, NAME, "d", "T2", 1, 2, 2, begun, ended, 5.0, outcome)


def vetoes(target: Deployment, **changes: Any) -> list[str]:
    return [outcome.guard for outcome in judge(context(**changes), target) if not outcome.passed]


@given(st.integers(0, 8), st.integers(0, 60), st.floats(-0.5, 1.5), st.floats(0, 3000))
def test_guards_when_only_a_join_changes_then_apply_only_its_bounds(
    workers: int, block: int, shed: float, ended_ago_s: float
) -> None:
    target = replace(CURRENT, join=JoinSettings(workers, block, shed))
    inside = 1 <= workers <= 6 and 1 <= block <= 50 and 0 <= shed <= 1
    assert vetoes(target, history=[restarted(ended_ago_s)]) == ([] if inside else ["bounds"])


def test_settings_of_an_older_spec_hold_up_no_other_change() -> None:
    """The job follows its former bounds until a restart applies the new spec."""
    older = replace(CURRENT, join=JoinSettings(7, 80, 0.2))
    for join in (JoinSettings(7, 80, 0.4), JoinSettings(6, 80, 0.2), JoinSettings(7, 50, 0.2)):
        assert vetoes(replace(older, join=join), current=older) == []
    for join in (JoinSettings(8, 80, 0.2), JoinSettings(7, 70, 0.2)):
        assert vetoes(replace(older, join=join), current=older) == ["bounds"]


def test_join_change_waits_for_open_restarts_and_quiet_hours() -> None:
    target = replace(CURRENT, join=JoinSettings(3, 10, 0.0))
    assert vetoes(target, history=[restarted(None)]) == ["cool-down"]
    assert vetoes(target, limits=GuardsSpec(quiet_hours=("11:00-13:00",))) == ["quiet hours"]


def test_overloaded_join_changes_each_time_without_restarts(tmp_path: Path) -> None:
    wanted = [{SHED_RATIO: 0.3, JOIN_WORKERS: 3}, {SHED_RATIO: 0.1, BLOCK_SIZE: 4}, {}, {SHED_RATIO: 0.0}]
    w = running(tmp_path, *wanted, guards={"cool_down_s": 600}, objective={"max_reconfigurations_per_hour": 0})
    ReconfigurationStore(w.lake).record(replace(restarted(1), started=w.clock.now, ended=w.clock.now))
    actions = [evaluate(w, number).action for number in range(31, 35)]
    assert actions == [Action.APPLY, Action.APPLY, Action.HOLD, Action.APPLY]
    history = [made.join for _, made in reversed(DeploymentStore(w.lake).versions(NAME, 100))]
    assert history == [
        JoinSettings(2, 10, 0.0), JoinSettings(3, 10, 0.3), JoinSettings(3, 4, 0.1), JoinSettings(3, 4, 0.0)
    ]  # fmt: skip
    assert latest(w.lake).apps == DeploymentStore(w.lake).get(NAME, 1).apps  # type: ignore[union-attr]


def test_evaluation_when_slots_must_wait_then_still_changes_the_join(tmp_path: Path) -> None:
    tuner = Scripted("flow", {SLOTS: 4}, {SLOTS: 4})
    w = running(tmp_path, {SHED_RATIO: 0.3}, tuner=tuner, guards={"cool_down_s": 600})
    ReconfigurationStore(w.lake).record(replace(restarted(1), started=w.clock.now, ended=w.clock.now))
    decision = evaluate(w, 31)
    assert (decision.action, settings(w.lake)) == (Action.APPLY, JoinSettings(2, 10, 0.3))
    assert latest(w.lake).apps[NAME].slots == 2
    assert "delays: shed_ratio 0 -> 0.3" in decision.sentence
    assert "Not now: delays: slots 2 -> 4 (cool-down: the last reconfiguration ended 1 s ago" in decision.sentence
    assert set(decision.predicted) == {"esj_ratio"}, "what was put off brings nothing"
    assert all(outcome.passed for outcome in decision.guards)
    held = evaluate(w, 32)
    assert (held.action, held.reason_code) == (Action.VETO, "cool_down")


def test_evaluation_when_the_join_is_out_of_bounds_then_changes_nothing(tmp_path: Path) -> None:
    w = running(tmp_path, {JOIN_WORKERS: 7}, tuner=Scripted("flow", {SLOTS: 4}))
    decision = evaluate(w, 31)
    assert (decision.action, decision.reason_code) == (Action.VETO, "bounds")
    assert "7 join workers; allowed: 1 to 6" in decision.sentence and latest(w.lake).version == 1
    assert "Not now" not in decision.sentence, "nothing was left out: all was refused"


def test_roll_back_of_a_join_change_restores_its_settings(tmp_path: Path) -> None:
    w = running(tmp_path, {SHED_RATIO: 0.3, JOIN_WORKERS: 3})
    evaluate(w, 31)
    roll_back(w.tables, NAME, 1, "ann", w.clock.now, None)
    assert (latest(w.lake).version, settings(w.lake)) == (3, JoinSettings(2, 10, 0.0))


def test_launch_keeps_a_joins_settings_within_bounds(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = launch(joined(), ControlTables(lake))
    assert first.join == JoinSettings(2, 10, 0.0)
    found = replace(first, join=JoinSettings(6, 40, 0.25))
    DeploymentStore(lake).commit(found, 1)
    assert launch(joined(), ControlTables(lake)).version == 2, "it is what is wished already"
    again = launch(joined(capacity=60, workers={"min": 1, "max": 4, "start": 1}), ControlTables(lake))
    assert (again.version, again.join) == (3, JoinSettings(4, 30, 0.25))
    narrow = launch(joined(capacity=60, workers={"min": 1, "max": 3, "start": 1}), ControlTables(lake))
    assert (narrow.version, narrow.apps, narrow.join) == (4, again.apps, JoinSettings(3, 30, 0.25))
    assert launch(spec(), ControlTables(lake)).join is None
    assert launch(joined(), ControlTables(lake)).join == JoinSettings(2, 10, 0.0)


def test_first_launch_starts_the_workers_for_the_expected_rate(tmp_path: Path) -> None:
    """Equation 2: 3 rows/s stay for 60 s, and workers for 100 tuples each are to be 40 % full."""
    expecting = joined(expected_rows_per_s=3.0)
    assert first_join_workers(joined()) is None and first_join_workers(spec()) is None
    workers = first_join_workers(expecting)
    assert workers == 5
    lake = Lake(tmp_path)
    first = launch(expecting, ControlTables(lake), join_workers=workers)
    assert first.join == JoinSettings(5, 10, 0.0)
    DeploymentStore(lake).commit(replace(first, join=JoinSettings(6, 10, 0.0)), 1)
    assert launch(expecting, ControlTables(lake), join_workers=workers).join == JoinSettings(6, 10, 0.0)
    assert first_join_workers(joined(expected_rows_per_s=2000.0)) == 6, "no more than the spec allows"


def test_reconcile_of_a_join_change_starts_no_driver(
    tmp_path: Path,
) -> None:
    plant = DoublesPlant(tmp_path)
    try:
        store = plant.deployments
        first = plant.deploy()
        made = store.commit(replace(first, join=JoinSettings(2, 10, 0.0)), first.version)
        plant.reconciler().reconcile()
        for shed in (0.2, 0.4):
            made = store.commit(replace(made, join=JoinSettings(3, 10, shed)), made.version)
            assert plant.reconciler().reconcile() == ()
        assert plant.versions() == [(1, 2)]
        app = made.apps["p"]
        store.commit(replace(made, apps={"p": replace(app, script=str(tmp_path / "gone.py"))}), made.version)
        assert [c.outcome for c in plant.reconciler().reconcile()] == [Outcome.ROLLED_BACK]
        back = store.latest("p")
        assert back is not None and back.apps == made.apps and back.join == JoinSettings(3, 10, 0.4)
        assert plant.versions() == [(1, 2)]
    finally:
        plant.close()


class LiveApp(App):
    """An app that keeps running when only its join settings change."""

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        ran = DeploymentStore(self.lake).get(NAME, self.version)
        assert ran is not None
        return () if target.apps == ran.apps else super().apply(target)


def test_replay_follows_a_join_that_changes_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = launched(tmp_path, Steady(), spec_of(join=JOIN))
    run.app = LiveApp(run.spec, run.lake, run.clock, DAY)
    ratios = [{SHED_RATIO: 0.1 + 0.1 * (evaluation % 2)} for evaluation in range(len(DAY))]
    run.loop.plant, run.loop.optimizers = run.app, {"steady": Steady(), "esj": Scripted("esj", *ratios)}
    recorded = run.day()
    assert latest(run.lake).version == len(DAY) + 1 and any(len(d.proposals[1].changes) for d in recorded)

    def replayed(tuner: Steady) -> Backtest:
        return replay(run.spec, run.tables, "steady", tuner, {}, None, run.clock.now)

    same = replayed(Steady())
    assert (same.agreed, same.modelled) == (len(DAY), 0)
    assert {k.replayed.reason_code for k in same.evaluations} == {d.proposals[1].reason_code for d in recorded}
    slow = replayed(Steady(patience=2)).evaluations
    assert any(before.modelled and not after.modelled for before, after in pairwise(slow)), "it comes back to it"
