import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.models.taskinstance import TaskInstance
from airflow.sdk.exceptions import ParamValidationError
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from millrace.control.pending_decision import refuse
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import DecisionStore, veto_id
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision
from tests.airflow_home import write_pipeline
from tests.dags.runs import launched, run, waiting

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def api(airflow_db: Path) -> Iterator[TestClient]:
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    with TestClient(create_app(), base_url="http://testserver") as client:
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ada", role="admin"))
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


def once_asked(then: Callable[[TaskInstance], Any]) -> threading.Thread:
    """Do something as soon as a run of ``approve_tiny`` waits for a person."""
    over = threading.Event()

    def wait() -> None:
        while not over.wait(0.2):
            with create_session() as session:
                query = select(TaskInstance).where(TaskInstance.dag_id == "approve_tiny", TaskInstance.task_id == "ask")
                found = session.scalars(query.where(TaskInstance.state == "awaiting_input")).first()
                if found is not None:
                    then(found)
                    return

    thread = threading.Thread(target=wait, daemon=True)
    thread.over = over  # type: ignore[attr-defined]
    thread.start()
    return thread


def approve(api: TestClient, decision: Decision, word: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Run the DAG and answer through Airflow's own API; return its outcome and the text shown to the person."""
    shown: dict[str, Any] = {}

    def answer(ti: TaskInstance) -> None:
        url = f"/api/v2/dags/{ti.dag_id}/dagRuns/{ti.run_id}/taskInstances/ask/-1/hitlDetails"
        shown.update(api.get(url).json())
        response = api.patch(url, json={"chosen_options": [word], "params_input": {}})
        assert response.status_code == 200, response.text

    thread = once_asked(answer)
    try:
        state, tasks = run("approve_tiny", {"decision_id": decision.decision_id})
    finally:
        thread.over.set()  # type: ignore[attr-defined]
        thread.join()
    return state, tasks, shown


def test_approve_when_a_person_agrees_then_creates_a_version(api: TestClient, lake: Lake) -> None:
    # a stopped pipeline: its versions change, but no driver starts
    decision = waiting(lake, launched(lake, running=False))
    state, tasks, shown = approve(api, decision, "Approve")
    assert (state, tasks["apply"], tasks["refuse"]) == ("success", "success", "skipped")
    assert shown["body"] == "tiny: 2 -> 4 slots"
    assert shown["options"] == ["Approve", "Reject"]
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None
    assert (newest.version, newest.apps["tiny"].slots, newest.decision_id) == (2, 4, decision.decision_id)
    assert newest.reason.startswith("Approved by ada: ")
    assert DecisionStore(lake).get(veto_id(decision)) is None


def test_approve_records_who_refused(api: TestClient, lake: Lake) -> None:
    base = launched(lake, running=False)
    decision = waiting(lake, base)
    state, tasks, _ = approve(api, decision, "Reject")
    assert (state, tasks["apply"], tasks["refuse"]) == ("success", "skipped", "success")
    veto = DecisionStore(lake).get(veto_id(decision))
    assert veto is not None
    assert (veto.action, veto.reason_code, veto.target) == (Action.VETO, "rejected", None)
    assert veto.sentence.startswith("ada rejected")
    assert DeploymentStore(lake).latest("tiny") == base


def test_approve_when_no_one_answers_then_records_an_expiry(api: TestClient, lake: Lake, tmp_path: Path) -> None:
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner

    write_pipeline(tmp_path / "specs")
    spec = tmp_path / "specs" / "tiny.yaml"
    spec.write_text(spec.read_text().replace("approval_expires_s: 3600", "approval_expires_s: 0.1"))
    base = launched(lake, running=False)
    decision = waiting(lake, base)

    def scheduler_sweeps(ti: TaskInstance) -> None:
        runner = SchedulerJobRunner(job=Job())
        for _ in range(6000):
            runner.check_awaiting_input_timeouts()
            with create_session() as session:
                query = select(TaskInstance.state).where(TaskInstance.id == ti.id)
                if session.scalars(query).one() != "awaiting_input":
                    return
            threading.Event().wait(0.1)
        raise AssertionError("the scheduler never let it expire")

    thread = once_asked(scheduler_sweeps)
    try:
        state, tasks = run("approve_tiny", {"decision_id": decision.decision_id})
    finally:
        thread.over.set()  # type: ignore[attr-defined]
        thread.join()
    assert (state, tasks["apply"], tasks["refuse"]) == ("success", "skipped", "success")
    veto = DecisionStore(lake).get(veto_id(decision))
    assert veto is not None
    assert veto.reason_code == "expired"
    assert DeploymentStore(lake).latest("tiny") == base


def test_approve_when_the_pipeline_moved_on_then_agreeing_has_no_effect(api: TestClient, lake: Lake) -> None:
    base = launched(lake, running=False)
    decision = waiting(lake, base)
    moved = DeploymentStore(lake).commit(base, base.version)
    state, tasks, _ = approve(api, decision, "Approve")
    assert (state, tasks["apply"]) == ("success", "skipped")
    veto = DecisionStore(lake).get(veto_id(decision))
    assert veto is not None
    assert veto.reason_code == "base_version_moved"
    assert DeploymentStore(lake).latest("tiny") == moved


def test_approve_run_again_after_a_refusal_asks_no_one(api: TestClient, lake: Lake) -> None:
    base = launched(lake, running=False)
    decision = waiting(lake, base)
    approve(api, decision, "Reject")
    state, tasks = run("approve_tiny", {"decision_id": decision.decision_id})
    assert (state, set(tasks.values())) == ("success", {"skipped"})
    assert DeploymentStore(lake).latest("tiny") == base


def test_approve_run_again_after_applying_asks_no_one(api: TestClient, lake: Lake) -> None:
    decision = waiting(lake, launched(lake, running=False))
    approve(api, decision, "Approve")
    state, tasks = run("approve_tiny", {"decision_id": decision.decision_id})
    assert (state, set(tasks.values())) == ("success", {"skipped"})
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None and (newest.version, newest.decision_id) == (2, decision.decision_id)


def test_approve_when_refused_elsewhere_then_agreeing_has_no_effect(
    api: TestClient, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = launched(lake, running=False)
    decision = waiting(lake, base)
    patch = api.patch

    def refused_first(*args: Any, **kwargs: Any) -> Any:
        refuse(ControlTables(lake), "tiny", decision.decision_id, "bob", decision.time)
        return patch(*args, **kwargs)

    monkeypatch.setattr(api, "patch", refused_first)
    state, tasks, _ = approve(api, decision, "Approve")
    assert (state, tasks["apply"], tasks["refuse"]) == ("success", "skipped", "skipped")
    assert DeploymentStore(lake).latest("tiny") == base
    veto = DecisionStore(lake).get(veto_id(decision))
    assert veto is not None and veto.sentence.startswith("bob rejected")


def test_approve_when_applied_elsewhere_then_refusing_fails(
    api: TestClient, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = launched(lake, running=False)
    decision = waiting(lake, base)
    patch = api.patch

    def applied_first(*args: Any, **kwargs: Any) -> Any:
        assert decision.target is not None
        DeploymentStore(lake).commit(decision.target, base.version)
        return patch(*args, **kwargs)

    monkeypatch.setattr(api, "patch", applied_first)
    state, tasks, _ = approve(api, decision, "Reject")
    assert (state, tasks["apply"], tasks["refuse"]) == ("failed", "skipped", "failed")
    assert DecisionStore(lake).get(veto_id(decision)) is None
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None and newest.decision_id == decision.decision_id


def test_approve_when_applying_fails_then_records_no_refusal(
    api: TestClient, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millrace.control.loop import ControlLoop
    from millrace.model.errors import MillraceError

    def full(self: ControlLoop, decision_id: str, approved_by: str | None) -> None:
        raise MillraceError("lake", "/lake", "a writable folder", "Free space.")

    monkeypatch.setattr(ControlLoop, "apply", full)
    decision = waiting(lake, launched(lake, running=False))
    state, tasks, _ = approve(api, decision, "Approve")
    assert (state, tasks["apply"], tasks["refuse"]) == ("failed", "failed", "skipped")
    assert DecisionStore(lake).get(veto_id(decision)) is None


def test_approve_when_the_decision_does_not_wait_then_asks_no_one(api: TestClient, lake: Lake) -> None:
    state, tasks = run("approve_tiny", {"decision_id": "20130101T120000-1f3a9c04"})
    assert state == "failed", tasks
    assert (tasks["present"], tasks["ask"], tasks["refuse"]) == ("failed", "upstream_failed", "upstream_failed")


@pytest.mark.parametrize("conf", [{}, {"decision_id": "x' or 1=1"}, {"decision_id": None}])
def test_approve_without_a_decision_does_not_run(api: TestClient, lake: Lake, conf: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError, match="decision_id"):
        run("approve_tiny", conf)
