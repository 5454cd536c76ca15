from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.control.pending_decision import awaiting, on_newest, refuse
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision, Proposal
from millrace.model.deployment import EXECUTOR_MEMORY, AppDeployment, Change, Deployment, ExecutorSize
from millrace.model.errors import MillraceError
from tests.include.control.world import NAME, world

NOW = datetime(2013, 1, 1, 12, tzinfo=UTC)
ID = "20130101T120000-1f3a9c04"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def asked(lake: Lake, action: Action = Action.AWAIT) -> Decision:
    decision = Decision(ID, "tiny", NOW, action, "under_provisioned", "2 -> 4 slots", base_version=3, cursor_version=9)
    DecisionStore(lake).record(decision)
    return decision


@pytest.mark.parametrize(("by", "reason"), [("ada", "rejected"), (None, "expired")])
def test_refuse_when_repeated_then_is_one_veto_and_no_evaluation(lake: Lake, by: str | None, reason: str) -> None:
    asked(lake)
    veto = refuse(ControlTables(lake), "tiny", ID, by, NOW + timedelta(minutes=5))
    assert (veto.action, veto.reason_code, veto.base_version) == (Action.VETO, reason, 3)
    assert "2 -> 4 slots" in veto.sentence
    assert refuse(ControlTables(lake), "tiny", ID, "someone else", NOW + timedelta(minutes=6)) == veto
    assert len(DecisionStore(lake).recent("tiny")) == 2
    assert DecisionStore(lake).cursor("tiny").telemetry_version == 9


def test_awaiting_when_there_is_no_such_decision_then_says_so(lake: Lake) -> None:
    asked(lake)
    assert awaiting(ControlTables(lake), "tiny", ID).decision_id == ID
    for pipeline, decision_id in (("tiny", "nothing"), ("other", ID)):
        with pytest.raises(MillraceError, match=f"a Decision of {pipeline}"):
            awaiting(ControlTables(lake), pipeline, decision_id)


@pytest.mark.parametrize("action", [a for a in Action if a is not Action.AWAIT])
def test_refuse_when_the_decision_does_not_wait_then_records_nothing(lake: Lake, action: Action) -> None:
    asked(lake, action)
    with pytest.raises(MillraceError, match="waits for a person"):
        refuse(ControlTables(lake), "tiny", ID, "ada", NOW)
    assert len(DecisionStore(lake).recent("tiny")) == 1


SIZE = ExecutorSize(cores=1, memory_mb=1024)
BASE = Deployment("tiny", 3, True, {"tiny": AppDeployment("s.py", (), 2, 1024, 8, executor=SIZE)}, decision_id="d2")


def more_memory() -> Decision:
    """A Decision on BASE to double the executors' memory, which restarts the driver."""
    change = Change("tiny", EXECUTOR_MEMORY, 1024, 2048)
    proposal = Proposal("executor_memory", (change,), "memory_deaths", "double it")
    target = replace(BASE.with_changes((change,)), author="decision", decision_id=ID, reason="double it")
    asked = Decision(ID, "tiny", NOW, Action.AWAIT, "memory_deaths", "double it", base_version=3)
    return replace(asked, proposals=(proposal,), target=target)


def newest(**changes: Any) -> Deployment:
    return replace(BASE, **{"version": 4, "decision_id": "d3", **changes})


def app(**changes: Any) -> dict[str, AppDeployment]:
    return {"tiny": replace(BASE.apps["tiny"], **changes)}


def test_waiting_decision_survives_a_live_change_of_another_field() -> None:
    content = on_newest(more_memory(), newest(apps=app(slots=6)))
    assert content is not None and content.apps["tiny"].executor is not None
    assert (content.apps["tiny"].slots, content.apps["tiny"].executor.memory_mb) == (6, 2048)
    assert (content.author, content.decision_id, content.reason) == ("decision", ID, "double it")
    assert on_newest(more_memory(), BASE) == more_memory().target


@pytest.mark.parametrize(
    "moved_on",
    [
        newest(decision_id=None),
        newest(running=False),
        newest(apps=app(executor=ExecutorSize(1, 4096))),
        newest(apps=app(slots=6, args=("--other",))),
        newest(apps={}),
    ],
    ids=["launched again", "stopped", "the same field changed", "a restart between", "no such app"],
)
def test_waiting_decision_is_void_after_any_other_change(moved_on: Deployment) -> None:
    assert on_newest(more_memory(), moved_on) is None


def test_approval_after_a_live_change_creates_the_next_version_with_both(tmp_path: Path) -> None:
    w = world(tmp_path, mode="approve", submit={"master": "embedded"})
    w.run(slots=2)
    base = w.tables.deployments.latest(NAME)
    assert base is not None
    change = Change(NAME, EXECUTOR_MEMORY, 1024, 2048)
    target = replace(base.with_changes((change,)), decision_id=ID)
    proposal = Proposal("executor_memory", (change,), "memory_deaths", "double it")
    asked = Decision(ID, NAME, w.clock(), Action.AWAIT, "memory_deaths", "double it", base_version=base.version)
    decision = replace(asked, proposals=(proposal,), target=target)
    w.tables.decisions.record(decision)
    resized = replace(base, apps={NAME: replace(base.apps[NAME], slots=4)}, decision_id="forced")
    w.tables.deployments.commit(resized, base.version)
    w.loop.apply(ID)
    latest = w.tables.deployments.latest(NAME)
    assert latest is not None and latest.apps[NAME].executor == replace(SIZE, memory_mb=2048)
    assert (latest.version, latest.slots, latest.decision_id) == (base.version + 2, 4, ID)
