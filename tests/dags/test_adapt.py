from dataclasses import replace
from pathlib import Path

import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import ParamValidationError
from airflow.utils.session import create_session
from sqlalchemy import select

from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.decision import Action
from tests.airflow_home import write_pipeline
from tests.dags.runs import launched, overloaded, run, waiting

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


def test_adapt_before_the_first_launch_records_a_hold(lake: Lake) -> None:
    state, tasks = run("adapt_tiny")
    assert (state, set(tasks.values())) == ("success", {"skipped"})
    decision = DecisionStore(lake).last("tiny")
    assert decision is not None and decision.action is Action.HOLD
    assert "launch_tiny" in decision.sentence


def test_adapt_without_new_telemetry_is_skipped_and_not_failed(lake: Lake) -> None:
    launched(lake)
    overloaded(lake)
    write_pipeline(Path(lake.location.uri).parents[1] / "specs", "advise")
    run("adapt_tiny")
    before = DecisionStore(lake).recent("tiny")
    state, tasks = run("adapt_tiny")
    assert state == "success"
    assert set(tasks.values()) == {"skipped"}
    assert DecisionStore(lake).recent("tiny") == before


def test_adapt_when_mode_is_advise_then_decides_and_changes_nothing(lake: Lake, tmp_path: Path) -> None:
    write_pipeline(tmp_path / "specs", "advise")
    base = launched(lake)
    overloaded(lake)
    state, tasks = run("adapt_tiny")
    assert (state, tasks["apply"], tasks["ask"]) == ("success", "skipped", "skipped")
    decision = DecisionStore(lake).last("tiny")
    assert decision is not None and decision.action is Action.ADVISE, decision
    assert DeploymentStore(lake).latest("tiny") == base
    with create_session() as session:
        of_tiny = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        of_decisions = of_tiny.where(AssetModel.name == "decisions_tiny").order_by(AssetEvent.id.desc())
        event = session.scalars(of_decisions).first()
        assert event is not None
        assert (event.extra["decision_id"], event.extra["sentence"]) == (decision.decision_id, decision.sentence)


def test_adapt_in_mode_approve_asks_in_a_separate_run(lake: Lake, tmp_path: Path) -> None:
    write_pipeline(tmp_path / "specs", "approve")
    base = launched(lake)
    overloaded(lake)
    state, tasks = run("adapt_tiny")
    assert (state, tasks["apply"], tasks["ask"]) == ("success", "skipped", "success")
    decision = DecisionStore(lake).last("tiny")
    assert decision is not None and decision.action is Action.AWAIT, decision
    with create_session() as session:
        asked = session.scalars(select(DagRun).where(DagRun.run_id == decision.decision_id)).one()
        assert asked.dag_id == "approve_tiny"
        assert asked.conf == {"decision_id": decision.decision_id}
        assert asked.state == "queued"
    assert DeploymentStore(lake).latest("tiny") == base


def test_adapt_in_a_dry_run_changes_nothing_in_any_mode(lake: Lake) -> None:
    base = launched(lake)
    overloaded(lake)
    state, tasks = run("adapt_tiny", {"dry_run": True})
    assert (state, tasks["apply"], tasks["ask"]) == ("success", "skipped", "skipped")
    decision = DecisionStore(lake).last("tiny")
    assert decision is not None and decision.action is Action.ADVISE
    assert DeploymentStore(lake).latest("tiny") == base


def test_adapt_when_apply_fails_then_the_decision_is_kept(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from millrace.control.loop import ControlLoop
    from millrace.model.errors import MillraceError

    calls = []

    def full(self: ControlLoop, decision_id: str, approved_by: str | None) -> None:
        calls.append(decision_id)
        raise MillraceError("lake", "/lake", "a writable folder", "Free space.")

    monkeypatch.setattr(ControlLoop, "apply", full)
    launched(lake)
    overloaded(lake)
    state, tasks = run("adapt_tiny")
    assert (state, tasks["evaluate"], tasks["apply"]) == ("failed", "success", "failed")
    decision = DecisionStore(lake).last("tiny")
    assert decision is not None and decision.action is Action.APPLY
    assert calls == [decision.decision_id]


def test_adapt_applies_what_the_agent_decided_since_the_last_evaluation(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millrace.control.loop import ControlLoop

    applied = []
    monkeypatch.setattr(ControlLoop, "apply", lambda self, decision_id, approved_by: applied.append(decision_id) or ())
    made = waiting(lake, launched(lake))
    target = made.target
    assert target is not None
    DeploymentStore(lake).commit(replace(target, author="contingency"), made.base_version)
    overloaded(lake)
    _, tasks = run("adapt_tiny")
    assert (tasks["evaluate"], tasks["ask"]) == ("success", "skipped")
    decision = DecisionStore(lake).last("tiny")
    assert decision is not None and decision.action is Action.HOLD
    assert applied == [made.decision_id]


def test_adapt_when_the_evaluation_is_killed_then_its_retry_finds_the_decision(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millrace.control.loop import ControlLoop

    decide, calls, applied = ControlLoop.decide, [], []
    monkeypatch.setattr(ControlLoop, "apply", lambda self, decision_id, approved_by: applied.append(decision_id) or ())

    def killed_once(self: ControlLoop, *args: object) -> object:
        decision = decide(self, *args)  # type: ignore[arg-type]
        calls.append(decision.decision_id)
        if len(calls) == 1:
            raise ConnectionError("the worker is gone")
        return decision

    monkeypatch.setattr(ControlLoop, "decide", killed_once)
    launched(lake)
    overloaded(lake)
    run("adapt_tiny")
    assert len(calls) == 1 and applied == calls, "the retry finds no new telemetry, and acts on the recorded Decision"
    assert [d.decision_id for d in DecisionStore(lake).recent("tiny")] == calls
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None and newest.decision_id == calls[0]


@pytest.mark.parametrize("conf", [{"slots": 5}, {"slots": 0}, {"slots": "2"}, {"dry_run": "yes"}])
def test_adapt_when_params_are_bad_then_evaluates_nothing(lake: Lake, conf: dict[str, object]) -> None:
    with pytest.raises(ParamValidationError, match=next(iter(conf))):
        run("adapt_tiny", conf)
    assert DecisionStore(lake).last("tiny") is None
