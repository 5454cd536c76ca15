from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.lake.decisions import DecisionStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.model.decision import Action, Decision, Proposal, Reconfiguration
from millrace.model.deployment import Change, Deployment
from millrace.reporting.tracker import MlflowTracker
from tests.include.control.world import NAME, NOON, world


def test_change_and_its_run_link_each_other(tmp_path: Path, mlflow_uri: str) -> None:
    from mlflow import MlflowClient

    w = world(tmp_path, MlflowTracker(mlflow_uri, artifacts=(tmp_path / "artifacts").as_uri()))
    w.run()
    decision = w.loop.decide(w.loop.observe())
    (change,) = w.loop.apply(decision.decision_id)
    (stored,) = DecisionStore(w.lake).with_runs([decision])
    assert stored.mlflow_run_id is not None
    run = MlflowClient(mlflow_uri).get_run(stored.mlflow_run_id)
    assert run.data.tags["millrace.decision_id"] == decision.decision_id

    ReconfigurationStore(w.lake).record(change)
    w.clock.wait(60)
    w.report(31, 89)
    w.loop.observe()  # the next evaluation checks the effect of the change
    verified = ReconfigurationStore(w.lake).recent(NAME, 1)[0]
    assert verified.achieved == {"throughput_rows_per_s": 960.0}
    metrics = MlflowClient(mlflow_uri).get_run(stored.mlflow_run_id).data.metrics
    assert metrics["achieved_throughput_rows_per_s"] == 960.0


def test_failed_change_has_a_run_too(tmp_path: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(tmp_path, MlflowTracker(mlflow_uri, artifacts=tmp_path.as_uri()))
    w.run()
    decision = w.loop.decide(w.loop.observe())
    w.loop.commit(decision)

    def fails(target: Deployment) -> tuple[Reconfiguration, ...]:
        raise OSError(f"no driver for version {target.version}")

    monkeypatch.setattr(w.plant, "apply", fails)
    with pytest.raises(OSError, match="no driver for version 2"):
        w.loop.apply(decision.decision_id)
    (stored,) = DecisionStore(w.lake).with_runs([decision])
    assert stored.mlflow_run_id is not None


def test_change_is_applied_while_mlflow_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    w = world(tmp_path, MlflowTracker("http://127.0.0.1:1"))
    w.run()
    decision = w.loop.decide(w.loop.observe())
    assert (decision.action, decision.mlflow_run_id) == (Action.APPLY, None)
    assert len(w.loop.apply(decision.decision_id)) == 1


def test_hold_when_recorded_then_creates_no_run(tmp_path: Path) -> None:
    w = world(tmp_path)
    w.run()
    w.plant.arrival = 400
    w.loop.tracker = MlflowTracker(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert w.loop.decide(w.loop.observe()).mlflow_run_id is None
    assert not (tmp_path / "mlflow.db").exists()


def test_change_that_an_agent_made_is_recorded_and_logged_after_the_next_evaluation(
    tmp_path: Path, mlflow_uri: str
) -> None:
    from mlflow import MlflowClient

    w = world(tmp_path, MlflowTracker(mlflow_uri, artifacts=(tmp_path / "artifacts").as_uri()))
    w.run()
    current = w.tables.deployments.latest(NAME)
    assert current is not None
    change = Change(NAME, "slots", 2, 4)
    made = Decision(
        "20130101T120000-c", NAME, NOON, Action.APPLY, "contingency", "More arrives: 2 -> 4 slots.", base_version=1,
        proposals=(Proposal("contingency", (change,), "contingency", "More arrives."),),
    )  # fmt: skip
    target = replace(current.with_changes((change,)), author="contingency", decision_id=made.decision_id)
    DecisionStore(w.lake).record(replace(made, target=target))
    w.tables.deployments.commit(target, 1)
    w.plant.arrival = 800.0
    hold = w.loop.decide(w.loop.observe())
    assert hold.action is Action.HOLD
    assert w.loop.commit(hold) == made.decision_id
    (change_made,) = w.loop.apply(made.decision_id)
    assert change_made.decision_id == made.decision_id
    ReconfigurationStore(w.lake).record(change_made)
    assert w.loop.commit(hold) is None
    (stored,) = DecisionStore(w.lake).with_runs([made])
    assert stored.mlflow_run_id is not None
    run = MlflowClient(mlflow_uri).get_run(stored.mlflow_run_id)
    assert run.data.params["reason"] == "contingency"
