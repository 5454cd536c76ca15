"""A pipeline inside a user's own DAG."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.decision import Action
from tests.airflow_home import ROOT, write_pipeline
from tests.dags.runs import launched, overloaded, run

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]

OWN_DAG = """\
from airflow.sdk import DAG, task
from millrace.dags.builders.task_group import MillraceTaskGroup

with DAG("nightly", schedule=None, params={"slots": 99}) as dag:

    @task
    def load(): ...

    @task
    def publish(): ...

    load() >> MillraceTaskGroup("tiny"OPTIONS) >> publish()
"""


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of DAGs that Airflow has beside Millrace's."""
    folders = {"millrace": ROOT / "dags", "own": tmp_path / "own"}
    folders["own"].mkdir()
    bundle = "airflow.dag_processing.bundles.local.LocalDagBundle"
    named = [{"name": n, "classpath": bundle, "kwargs": {"path": str(folder)}} for n, folder in folders.items()]
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(named))
    return folders["own"]


def own_dag(folder: Path, options: str = "") -> Path:
    (folder / "nightly.py").write_text(OWN_DAG.replace("OPTIONS", options))
    return folder


def test_evaluation_in_a_dag_of_ones_own_decides_and_the_tasks_after_it_run(
    lake: Lake, tmp_path: Path, own: Path
) -> None:
    write_pipeline(tmp_path / "specs", "advise")
    base = launched(lake)
    overloaded(lake)
    state, tasks = run("nightly", folder=own_dag(own, ", launch=False"))
    assert state == "success"
    assert {name: tasks[name] for name in ("load", "tiny.evaluate", "tiny.done", "publish")} == dict.fromkeys(
        ("load", "tiny.evaluate", "tiny.done", "publish"), "success"
    )
    assert tasks["tiny.apply"] == tasks["tiny.ask"] == "skipped"
    decision = DecisionStore(lake).last("tiny")
    assert decision is not None and decision.action is Action.ADVISE
    assert DeploymentStore(lake).latest("tiny") == base, "the DAG's own param slots is not the pipeline's"


def test_change_that_needs_approval_is_asked_for_in_the_pipelines_dag(lake: Lake, tmp_path: Path, own: Path) -> None:
    write_pipeline(tmp_path / "specs", "approve")
    launched(lake)
    overloaded(lake)
    _, tasks = run("nightly", folder=own_dag(own, ", launch=False, group_id='size'"))
    assert (tasks["size.apply"], tasks["size.evaluate"]) == ("skipped", "success")
    assert tasks["size.ask"] != "skipped"


def test_group_without_tasks_and_an_unknown_pipeline_are_errors_of_the_dag(lake: Lake, own: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    nothing = DagBag(own_dag(own, ", launch=False, evaluate=False"))
    assert "at least one of them True" in next(iter(nothing.import_errors.values()))
    folder = own_dag(own)
    (folder / "nightly.py").write_text((folder / "nightly.py").read_text().replace('"tiny"', '"nowhere"'))
    assert "nowhere" in next(iter(DagBag(folder).import_errors.values()))


def test_launch_comes_before_the_evaluation(lake: Lake, own: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    dag = DagBag(own_dag(own)).dags["nightly"]
    assert dag.get_task("tiny.evaluate").upstream_task_ids == {"tiny.reconcile"}
    assert dag.get_task("tiny.deploy").upstream_task_ids == {"load"}
    assert dag.get_task("publish").upstream_task_ids == {"tiny.done"}
