"""How the agent acts on a plan: real tables, arrival rates set by the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.contingency import Contingency, ContingencyPlan
from millrace.model.decision import Action, Decision
from millrace.model.deployment import AppDeployment, Deployment, ExecutorSize
from millrace.model.errors import MillraceError
from millrace.runtime.agent.contingencies import Contingencies
from millrace.runtime.arrival_watch import ArrivalWatch

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
LINES = (Contingency("a", 4, 40.0, 2.0), Contingency("a", 8, 80.0, 2.0))


class Rig:
    """One app of two slots, its plan, and time controlled by the test."""

    def __init__(self, root: Path) -> None:
        self.lake, self.watch, self.now_s, self.rows = Lake(root), ArrivalWatch(), 0.0, 0
        self.deployments, self.decisions = DeploymentStore(self.lake), DecisionStore(self.lake)
        self.clock = lambda: NOON
        stores = self.decisions, self.deployments
        self.agent = Contingencies("a", self.watch, *stores, lambda: self.clock(), lambda: self.now_s)
        self.evaluated(NOON - timedelta(seconds=60))

    def evaluated(self, time: datetime) -> None:
        """Record an evaluation."""
        self.decisions.record(Decision(f"evaluation-{time:%H%M%S}", "p", time, Action.HOLD, "fits", "It fits."))

    def acted(self) -> list[Decision]:
        """Return what the agent recorded."""
        return [decision for decision in self.decisions.recent("p", 10) if decision.action is not Action.HOLD]

    def deploy(self, plan: ContingencyPlan | None, running: bool = True, **others: int) -> Deployment:
        app = AppDeployment("s.py", (), 2, 1024, 8, executor=ExecutorSize(1, 512))
        newest = self.deployments.latest("p")
        apps = {"a": app, **{name: replace(app, slots=slots) for name, slots in others.items()}}
        content = Deployment("p", 1, running, apps, contingencies=plan)
        return self.deployments.commit(content, newest.version if newest else None)

    def arrive(self, rate: float, seconds: int) -> bool:
        """Let rows arrive; say if a line was carried out."""
        done = self.agent.step(self.deployments.latest("p"))
        for _ in range(seconds):
            self.tick(rate)
            done = self.agent.step(self.deployments.latest("p")) or done
        return done

    def tick(self, rate: float) -> None:
        self.now_s, self.rows = self.now_s + 1.0, self.rows + round(rate)
        self.watch.reached("run", self.rows, self.now_s)

    @property
    def slots(self) -> int:
        newest = self.deployments.latest("p")
        assert newest is not None
        return newest.apps["a"].slots


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def plan(**changes: object) -> ContingencyPlan:
    return replace(ContingencyPlan("d1", LINES), **changes)


def test_line_of_the_rate_is_carried_out_once_as_a_decision_and_a_version(rig: Rig) -> None:
    rig.deploy(plan())
    assert not rig.arrive(35, 20) and rig.watch.armed
    assert rig.arrive(60, 10)
    newest = rig.deployments.latest("p")
    assert newest is not None and (newest.version, newest.author, rig.slots) == (2, "contingency", 4)
    assert newest.contingencies is None and not rig.arrive(200, 20)  # until the next evaluation makes a new plan
    assert not rig.watch.armed
    decision = rig.decisions.get(newest.decision_id or "")
    assert decision is not None and decision.action is Action.APPLY and decision.base_version == 1
    assert decision.target is not None and decision.target.apps["a"].slots == 4
    assert "60 rows/s arrive, more than 40" in decision.sentence and "a: slots 2 -> 4: " in decision.sentence
    assert "d1" in decision.sentence and newest.reason == decision.sentence


def test_rows_from_before_a_plan_are_no_arrival_under_it(rig: Rig) -> None:
    """Without a plan, sources are checked at the end of batches only: the next check counts all rows since."""
    rig.deploy(None)
    rig.agent.step(rig.deployments.latest("p"))
    rig.tick(30)
    rig.now_s += 60.0
    rig.deploy(plan())
    rig.agent.step(rig.deployments.latest("p"))
    rig.rows += 60 * 30
    assert not rig.arrive(30, 20) and rig.slots == 2
    assert rig.arrive(60, 10) and rig.slots == 4


def test_higher_rate_takes_the_higher_line(rig: Rig) -> None:
    rig.deploy(plan())
    assert rig.arrive(170, 10) and rig.slots == 8


def test_apps_that_are_fed_get_their_slots_in_the_same_version(rig: Rig) -> None:
    line = Contingency("a", 4, 40.0, 2.0, others={"b": 6, "c": 4, "gone": 8})
    rig.deploy(plan(lines=(line,)), b=2, c=4)
    assert rig.arrive(60, 10)
    newest = rig.deployments.latest("p")
    assert newest is not None and {name: app.slots for name, app in newest.apps.items()} == {"a": 4, "b": 6, "c": 4}
    assert newest.version == 2 and newest.reason.startswith("a: slots 2 -> 4, b: slots 2 -> 6: 60 rows/s arrive")


def test_apps_that_are_fed_wait_if_the_quota_is_too_small_for_all(rig: Rig) -> None:
    line = Contingency("a", 4, 40.0, 2.0, others={"b": 6})
    rig.deploy(plan(lines=(line,), max_total_slots=9), b=2)
    assert rig.arrive(60, 10)
    newest = rig.deployments.latest("p")
    assert newest is not None and {name: app.slots for name, app in newest.apps.items()} == {"a": 4, "b": 2}


def test_quota_allows_a_lower_line_or_none_and_says_so_once(rig: Rig) -> None:
    other = AppDeployment("s.py", (), 2, 1024, 8)
    rig.deployments.commit(Deployment("q", 1, True, {"q": other}), None)
    rig.deploy(plan(max_total_slots=6))
    assert rig.arrive(170, 10) and rig.slots == 4  # 2 elsewhere
    rig.deploy(plan(decision_id="d2", max_total_slots=5))
    assert not rig.arrive(170, 20) and rig.slots == 2
    (said,) = [d for d in rig.acted() if d.action is Action.VETO]
    assert said.reason_code == "quota" and "quota of 5 slots leaves 3" in said.sentence and said.target is None


def test_line_is_carried_out_once_another_pipeline_has_given_its_slots_back(rig: Rig) -> None:
    def elsewhere(slots: int, version: int | None) -> None:
        app = AppDeployment("s.py", (), slots, 1024, 8)
        rig.deployments.commit(Deployment("q", 1, True, {"q": app}), version)

    elsewhere(4, None)
    rig.deploy(plan(max_total_slots=6))
    assert not rig.arrive(170, 10) and rig.slots == 2
    elsewhere(1, 1)
    assert not rig.arrive(1, 10), "the rise is over"
    assert rig.arrive(170, 10) and rig.slots == 4


@pytest.mark.parametrize(
    ("changes", "running"), [({"quiet_hours": ("11:00-13:00",)}, True), ({}, False), ({"lines": ()}, True)]
)
def test_agent_does_nothing_in_quiet_hours_for_a_stopped_pipeline_or_without_a_line(
    rig: Rig, changes: dict[str, object], running: bool
) -> None:
    rig.deploy(plan(**changes), running)
    assert not rig.arrive(170, 20) and rig.slots == 2
    assert rig.acted() == []


def test_version_of_another_author_counts(rig: Rig) -> None:
    stale = rig.deploy(plan())
    rig.deploy(None)
    rig.agent.step(stale)
    for _ in range(10):
        rig.tick(200)
        assert not rig.agent.step(stale)
    assert rig.slots == 2 and rig.acted() == []


def test_commit_that_comes_second_changes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.deploy(plan())
    record: Callable[..., bool] = DecisionStore.record

    def overtaken(store: DecisionStore, decision: object) -> bool:
        rig.deploy(None)
        return record(store, decision)

    monkeypatch.setattr(DecisionStore, "record", overtaken)
    assert not rig.arrive(170, 20) and rig.slots == 2


@pytest.mark.parametrize(("store", "call"), [(DeploymentStore, "slots_in_use"), (DecisionStore, "record")])
def test_line_is_carried_out_once_the_lake_answers_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, store: type, call: str
) -> None:
    rig.deploy(plan())
    with monkeypatch.context() as down:
        down.setattr(store, call, Mock(side_effect=MillraceError("lake", "gone", "a folder", "Mount it.")))
        with pytest.raises(MillraceError):
            rig.arrive(60, 10)
    assert rig.slots == 2 and rig.acted() == []
    assert rig.arrive(60, 1) and rig.slots == 4


@pytest.mark.parametrize(
    ("quota", "slots", "said"),
    [
        (20, 8, ["apply: a: slots 2 -> 8"]),
        (9, 4, ["apply: a: slots 2 -> 8", "apply: a: slots 2 -> 4"]),
        (5, 2, ["apply: a: slots 2 -> 4", "veto: a: slots 2 -> 8"]),
    ],
)
def test_line_is_tried_again_within_the_quota_if_another_pipeline_raises_its_slots_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, quota: int, slots: int, said: list[str]
) -> None:
    rig.deploy(plan(max_total_slots=quota))
    commit: Callable[..., Deployment] = DeploymentStore.commit
    other = Deployment("q", 1, True, {"q": AppDeployment("s.py", (), 3, 1024, 8)})

    def overtaken(store: DeploymentStore, content: Deployment, *args: object) -> Deployment:
        if rig.deployments.latest("q") is None:
            commit(store, other, None)
        return commit(store, content, *args)

    monkeypatch.setattr(DeploymentStore, "commit", overtaken)
    assert rig.arrive(170, 10) == (slots > 2) and rig.slots == slots
    assert sorted(said) == sorted(f"{d.action}: {d.sentence.split(': 1')[0]}" for d in rig.acted())
    newest = rig.deployments.latest("p")
    assert newest is not None and newest.reason in {"", *(decision.sentence for decision in rig.acted())}


def test_overlong_batch_is_the_sign_if_no_arrival_is_reported(rig: Rig) -> None:
    rig.deploy(plan(lines=(Contingency("a", 4, None, 15.0),)))
    rig.watch.runs("run", 100.0)
    rig.now_s = 110.0
    assert not rig.agent.step(rig.deployments.latest("p"))
    rig.now_s = 116.0
    assert rig.agent.step(rig.deployments.latest("p")) and rig.slots == 4
    (decision,) = rig.acted()
    assert decision.sentence.startswith("a: slots 2 -> 4: a batch has been running for 16 s, ")


def test_overdue_batch_counts_beside_rates_as_a_source_may_report_them_late(rig: Rig) -> None:
    rig.deploy(plan(lines=(*LINES, Contingency("a", 4, None, 15.0))))
    rig.watch.runs("run", 0.0)
    assert not rig.arrive(35, 14) and rig.arrive(35, 3)
    assert rig.slots == 4


def test_plan_lapses_if_evaluations_have_stopped(rig: Rig) -> None:
    rig.clock = lambda: NOON + timedelta(seconds=250)
    rig.deploy(plan())
    assert not rig.arrive(170, 20) and rig.acted() == []
    rig.evaluated(NOON + timedelta(seconds=240))
    assert rig.arrive(170, 2) and rig.slots == 8


def test_blocked_line_is_told_again_only_if_other_slots_are_left_and_is_no_evaluation(rig: Rig) -> None:
    def elsewhere(slots: int, version: int | None) -> None:
        app = AppDeployment("s.py", (), slots, 1024, 8)
        rig.deployments.commit(Deployment("q", 1, True, {"q": app}), version)

    elsewhere(4, None)
    now = [NOON]
    rig.clock = lambda: now[0]
    rig.deploy(plan(max_total_slots=6))
    assert not rig.arrive(170, 10) and len(rig.acted()) == 1
    elsewhere(4, 1)
    now[0] += timedelta(seconds=120)
    assert not rig.arrive(170, 10) and len(rig.acted()) == 1
    elsewhere(1, 2)
    now[0] = NOON + timedelta(seconds=250)
    assert not rig.arrive(170, 20) and rig.slots == 2, "the last evaluation was five minutes ago"


def test_killed_between_decision_and_version_leaves_the_next_evaluation_to_decide(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.deploy(plan())
    with monkeypatch.context() as killed:
        killed.setattr(DeploymentStore, "commit", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            rig.arrive(170, 20)
    assert rig.slots == 2 and [d.action for d in rig.acted()] == [Action.APPLY]
    successor = Contingencies("a", ArrivalWatch(), rig.decisions, rig.deployments, lambda: NOON)
    assert not successor.step(rig.deployments.latest("p"))
