from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from include.control.pending_decision import awaiting, refuse
from include.lake.control_tables import ControlTables
from include.lake.decisions import DecisionStore
from include.lake.store import Lake
from include.model.decision import Action, Decision
from include.model.errors import MillraceError

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
def test_refuse_when_repeated_then_is_one_veto_that_is_no_evaluation(lake: Lake, by: str | None, reason: str) -> None:
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
