"""Run a whole DAG of the pipeline ``tiny`` against the real lake, and check the state of each task."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance

from millrace.lake.decisions import DecisionStore, new_decision_id
from millrace.lake.deployments import DeploymentStore
from millrace.lake.row_codec import app_row, batch_row
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision
from millrace.model.deployment import Change, Deployment
from millrace.model.telemetry import AppMetrics
from millrace.pipelines.catalog import find
from tests.airflow_home import ROOT
from tests.include.control.synthetic import App


def run(dag_id: str, conf: dict[str, Any] | None = None, folder: Path = ROOT / "dags") -> tuple[str, dict[str, str]]:
    """Run a DAG and return its state and its tasks' states, mapped tasks as ``task[name in the UI]``."""
    dag = DagBag(folder).dags[dag_id]
    for task in dag.tasks:
        task.retry_delay = timedelta(0)
    done = dag.test(run_conf=conf)
    return str(done.state), {_name(ti): str(ti.state) for ti in done.get_task_instances()}


def _name(ti: TaskInstance) -> str:
    return ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.rendered_map_index or ti.map_index}]"


def launched(lake: Lake, *, running: bool = True) -> Deployment:
    """Create the first version of ``tiny``."""
    return DeploymentStore(lake).commit(replace(find("tiny").first_deployment(), running=running), None)


def waiting(lake: Lake, base: Deployment) -> Decision:
    """Record a Decision of ``tiny`` for 4 slots that waits for a person."""
    now = datetime.now(UTC)
    decision_id = new_decision_id(now, "tiny")
    target = base.with_changes((Change("tiny", "slots", 2, 4),))
    decision = Decision(
        decision_id,
        "tiny",
        now,
        Action.AWAIT,
        "under_provisioned",
        "tiny: 2 -> 4 slots",
        base_version=base.version,
        target=replace(target, author="decision", decision_id=decision_id, reason="more load"),
    )
    assert DecisionStore(lake).record(decision)
    return decision


def overloaded(lake: Lake) -> None:
    """Write a minute of telemetry of an app of 2 slots that receives three times its throughput."""
    now = datetime.now(UTC)
    app = App(slots=2, fixed_s=0.2, rows_per_s=200.0, cap=300, clock=now - timedelta(seconds=60))
    rows = [replace(batch, pipeline="tiny", app="tiny") for batch in app.run(58, 600.0)]
    lake.append("telemetry/batches", [batch_row(row) for row in rows], {"tiny/tiny/tiny/0": len(rows)})
    lake.append("telemetry/apps", [app_row(AppMetrics("tiny", "tiny", now, 1, 1.9, 10**8, 60.0))])
