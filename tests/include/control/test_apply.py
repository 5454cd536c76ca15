"""Checks that are repeated when a Decision becomes a version; a veto ends the Decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.guards import CHAIN
from millrace.control.launch import roll_back
from millrace.control.pending_decision import question, refuse
from millrace.lake.decisions import DecisionStore, veto_id
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.model.errors import MillraceError, Settled
from tests.include.control.tenants import slots_in_all, tenants
from tests.include.control.world import NAME, NOON, World, world


def decided(home: Path, **changes: Any) -> tuple[World, Decision]:
    """Return a world and its Decision to go from 2 to 4 slots, made at noon."""
    w = world(home, **changes)
    w.run(slots=2)
    return w, w.loop.decide(w.loop.observe())


def version(w: World) -> int:
    latest = DeploymentStore(w.lake).latest(NAME)
    assert latest is not None
    return latest.version


def vetoes(w: World) -> list[Decision]:
    return [d for d in DecisionStore(w.lake).recent(NAME) if d.action is Action.VETO]


def restart(ended_s: float | None, decision_id: str | None = None) -> Reconfiguration:
    """A restart that began at noon and ended this much later, or still runs."""
    ended = None if ended_s is None else NOON + timedelta(seconds=ended_s)
    outcome = Outcome.OPEN if ended is None else Outcome.READY
    return Reconfiguration(NAME, NAME, decision_id, "T2", 1, 1, 2, NOON, ended, None, outcome)


@pytest.mark.parametrize("mode", ["auto", "approve"])
def test_apply_when_quiet_hours_have_begun_then_vetoes(tmp_path: Path, mode: str) -> None:
    w, decision = decided(tmp_path, mode=mode, guards={"quiet_hours": ["12:05-13:00"]})
    w.clock.wait(360)
    with pytest.raises(Settled, match=r"it is 12:06 UTC, within the quiet hours 12:05-13:00"):
        w.loop.apply(decision.decision_id)
    (veto,) = vetoes(w)
    assert (veto.decision_id, veto.reason_code, veto.time) == (veto_id(decision), "quiet_hours", w.clock())
    assert [g.guard for g in veto.guards if not g.passed] == ["quiet hours"] and len(veto.guards) == len(CHAIN) + 1
    assert version(w) == 1 and w.plant.applied == []


@pytest.mark.parametrize(
    ("history", "code"),
    [
        ([restart(340)], "cool_down"),
        ([restart(None)], "cool_down"),
        ([restart(20, "d1"), replace(restart(30, "d2"), started=NOON + timedelta(seconds=25))], "changes_per_hour"),
    ],
)
def test_apply_judges_by_events_since_the_decision(tmp_path: Path, history: list[Reconfiguration], code: str) -> None:
    limits = {"max_reconfigurations_per_hour": 2}
    w, decision = decided(tmp_path, objective=limits, ready_deadline_s=600)
    for change in history:
        ReconfigurationStore(w.lake).record(change)
    w.clock.wait(360)
    with pytest.raises(Settled):
        w.loop.apply(decision.decision_id)
    assert [veto.reason_code for veto in vetoes(w)] == [code]
    assert version(w) == 1


def test_apply_vetoes_a_forced_change_beyond_narrowed_bounds(tmp_path: Path) -> None:
    (tenant,) = tenants(tmp_path, "a")
    decision = tenant.decide(5)
    tenant.spec = tenant.spec.model_copy(update={"slots": tenant.spec.slots.model_copy(update={"max": 4})})
    with pytest.raises(Settled, match="5 slots; allowed: 1 to 4"):
        tenant.loop.apply(decision.decision_id)
    assert tenant.slots == 1


def test_apply_of_a_forced_change_passes_quiet_hours(tmp_path: Path) -> None:
    (tenant,) = tenants(tmp_path, "a")
    tenant.spec = tenant.spec.model_copy(
        update={"guards": tenant.spec.guards.model_copy(update={"quiet_hours": ("00:00-24:00",)})}
    )
    tenant.loop.apply(tenant.decide(5).decision_id)
    assert tenant.slots == 5


def test_apply_vetoes_the_second_decision_on_one_quota(tmp_path: Path) -> None:
    a, b = tenants(tmp_path, "a", "b")
    first, second = a.decide(4), b.decide(4)
    assert first.action is second.action is Action.APPLY
    a.loop.apply(first.decision_id)
    with pytest.raises(Settled, match="4 slots here plus 4 in other pipelines exceed the quota of 6"):
        b.loop.apply(second.decision_id)
    assert (a.slots, b.slots) == (4, 1)
    veto = DecisionStore(b.lake).get(veto_id(second))
    assert veto is not None and veto.reason_code == "quota"


def test_apply_gives_slots_back_beyond_the_quota(tmp_path: Path) -> None:
    a, b = tenants(tmp_path, "a", "b", quota=None, start=5)
    a.spec = a.spec.model_copy(update={"guards": a.spec.guards.model_copy(update={"max_total_slots": 6})})
    a.loop.apply(a.decide(4).decision_id)
    assert slots_in_all(b.lake) == 9


def test_apply_retried_after_its_commit_is_not_judged_again(tmp_path: Path) -> None:
    w, decision = decided(tmp_path, mode="approve", guards={"quiet_hours": ["12:05-13:00"]})
    assert decision.target is not None
    DeploymentStore(w.lake).commit(decision.target, 1)
    w.clock.wait(360)
    assert len(w.loop.apply(decision.decision_id)) == 1
    assert vetoes(w) == [] and w.plant.applied == [2]


def test_apply_when_refused_then_never_becomes_a_version(tmp_path: Path) -> None:
    w, decision = decided(tmp_path, mode="approve")
    refuse(w.tables, NAME, decision.decision_id, "ada", w.clock())
    for _ in range(2):
        with pytest.raises(Settled, match=f"ada rejected decision {decision.decision_id}"):
            w.loop.apply(decision.decision_id)
    assert version(w) == 1 and len(vetoes(w)) == 1


def test_apply_keeps_a_veto_that_the_guard_would_not_repeat(tmp_path: Path) -> None:
    w, decision = decided(tmp_path, mode="approve", guards={"quiet_hours": ["12:05-12:10"]})
    w.clock.wait(360)
    with pytest.raises(Settled, match="quiet hours"):
        w.loop.apply(decision.decision_id)
    w.clock.wait(600)
    with pytest.raises(Settled, match="it is 12:06 UTC"):
        w.loop.apply(decision.decision_id)
    assert version(w) == 1 and len(vetoes(w)) == 1


def test_apply_when_a_veto_was_interrupted_then_it_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w, decision = decided(tmp_path, mode="approve")

    def die(store: DecisionStore, decision: Decision) -> bool:
        raise OSError("killed")

    with monkeypatch.context() as dying:
        dying.setattr(DecisionStore, "record", die)
        with pytest.raises(OSError, match="killed"):
            refuse(w.tables, NAME, decision.decision_id, "ada", w.clock())
    with pytest.raises(Settled, match="was already refused"):
        question(w.tables, NAME, decision.decision_id)
    with pytest.raises(Settled, match="it was already refused"):
        w.loop.apply(decision.decision_id)
    assert version(w) == 1 and [v.reason_code for v in vetoes(w)] == ["refused"]


def test_refuse_after_applying_fails_and_records_nothing(tmp_path: Path) -> None:
    w, decision = decided(tmp_path, mode="approve")
    w.loop.apply(decision.decision_id)
    with pytest.raises(MillraceError, match=r"already applied as version 2.*--roll-back-to 1"):
        refuse(w.tables, NAME, decision.decision_id, "ada", w.clock())
    assert vetoes(w) == []


def test_question_when_the_decision_has_ended_then_asks_no_one(tmp_path: Path) -> None:
    w, decision = decided(tmp_path / "applied", mode="approve")
    assert question(w.tables, NAME, decision.decision_id) == decision.sentence
    w.loop.apply(decision.decision_id)
    with pytest.raises(Settled, match="already applied as version 2"):
        question(w.tables, NAME, decision.decision_id)
    w, decision = decided(tmp_path / "refused", mode="approve")
    refuse(w.tables, NAME, decision.decision_id, None, w.clock())
    with pytest.raises(Settled, match=r"No one approved decision .* in time"):
        question(w.tables, NAME, decision.decision_id)


def test_roll_back_retried_records_its_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w, decision = decided(tmp_path)
    w.loop.apply(decision.decision_id)

    def die(store: DecisionStore, decision: Decision) -> bool:
        raise OSError("killed")

    with monkeypatch.context() as dying:
        dying.setattr(DecisionStore, "record", die)
        with pytest.raises(OSError, match="killed"):
            roll_back(w.tables, NAME, 1, "ada", w.clock(), None)
    made = roll_back(w.tables, NAME, 1, "ada", w.clock(), None)
    last = DecisionStore(w.lake).get(made.decision_id or "")
    assert last is not None and (last.action, last.target, last.base_version) == (Action.ROLL_BACK, made, 2)


def test_commit_creates_the_version_that_apply_then_carries_out(tmp_path: Path) -> None:
    w, decision = decided(tmp_path)
    w.loop.commit(decision)
    w.loop.commit(decision)  # a retried task
    version = w.loop.tables.deployments.latest(NAME)
    assert version is not None and version.decision_id == decision.decision_id and version.version == 2
    (change,) = w.loop.apply(decision.decision_id)
    assert change.to_version == 2


def test_commit_of_a_vetoed_decision_leaves_the_message_to_apply(tmp_path: Path) -> None:
    w, decision = decided(tmp_path, guards={"quiet_hours": ["12:05-13:00"]})
    w.clock.wait(360)
    w.loop.commit(decision)
    assert w.loop.tables.deployments.made_by(NAME, decision.decision_id) is None
    with pytest.raises(Settled):
        w.loop.apply(decision.decision_id)
