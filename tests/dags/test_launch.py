import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from millrace.control.launch import launch
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.pipelines.catalog import load
from tests.dags.runs import launched, run

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


def test_launch_of_a_stopped_pipeline_starts_no_driver(lake: Lake, millrace_home: Path) -> None:
    launched(lake, running=False)
    wish = {"running": False, "slots": 4}
    assert run("launch_tiny", wish) == ("success", {"deploy": "success", "reconcile": "success"})
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None
    assert (newest.version, newest.apps["tiny"].slots, newest.author) == (2, 4, "dag_test")
    assert run("launch_tiny", wish)[0] == "success"
    assert DeploymentStore(lake).latest("tiny") == newest
    assert not list((millrace_home / "run").rglob("generation-*.json"))


def test_launch_succeeds_before_others_start_the_driver(lake: Lake, tmp_path: Path) -> None:
    spec = tmp_path / "specs" / "tiny.yaml"
    spec.write_text("name: tiny\nsubmit: {launcher: external}\nslots: {min: 1, max: 4, start: 1}\n")
    assert run("launch_tiny") == ("success", {"deploy": "success", "reconcile": "success"})
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None and newest.running


def test_launch_cannot_stop_a_pipeline_that_was_never_launched(lake: Lake) -> None:
    assert run("launch_tiny", {"running": False}) == ("failed", {"deploy": "failed", "reconcile": "upstream_failed"})
    assert DeploymentStore(lake).latest("tiny") is None


@pytest.mark.parametrize(
    "conf", [{"slots": 5}, {"slots": 0}, {"slots": 1.5}, {"running": "no"}, {"roll_back_to": 0}, {"roll_back_to": "1"}]
)
def test_launch_with_bad_params_does_not_run(lake: Lake, conf: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError, match=next(iter(conf))):
        run("launch_tiny", conf)
    assert DeploymentStore(lake).latest("tiny") is None


def test_launch_beyond_the_quota_fails_at_once(lake: Lake, tmp_path: Path) -> None:
    spec = tmp_path / "specs" / "tiny.yaml"
    spec.write_text(spec.read_text() + "guards: {max_total_slots: 1}\n")
    assert run("launch_tiny") == ("failed", {"deploy": "failed", "reconcile": "upstream_failed"})
    assert DeploymentStore(lake).latest("tiny") is None


def test_launch_to_an_unknown_version_fails(lake: Lake) -> None:
    base = launched(lake, running=False)
    assert run("launch_tiny", {"roll_back_to": 7})[0] == "failed"
    assert DeploymentStore(lake).latest("tiny") == base


def test_launch_resizes_the_named_app_of_several(lake: Lake, tmp_path: Path) -> None:
    spec = tmp_path / "specs" / "tiny.yaml"
    apps = "apps: {first: {slots: {max: 3}}, second: {slots: {max: 2}}}"
    spec.write_text(f"name: tiny\nscript: tiny.py\nsubmit: {{master: local}}\nslots: {{min: 1, start: 2}}\n{apps}\n")
    launch(load(spec), ControlTables(lake))
    wish = {"running": False, "slots": 3, "app": "first"}
    assert run("launch_tiny", wish)[0] == "success"
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None
    assert {name: app.slots for name, app in newest.apps.items()}["first"] == 3
    assert run("launch_tiny", {"running": False, "slots": 3, "app": "second"})[0] == "failed"
    assert run("launch_tiny", {"running": False, "slots": 2})[0] == "failed"
    with pytest.raises(ParamValidationError, match="app"):
        run("launch_tiny", {"app": "third"})


def test_launch_of_a_join_starts_the_workers_for_the_rate_it_expects(lake: Lake, tmp_path: Path) -> None:
    launched(lake, running=False)
    join = {
        "streams": {"a": {"source": "a", "time": "t", "columns": ["k"]}},
        "tasks": {"pairs": {"left": "a", "right": "a", "on": ["k"], "within_s": 60}},
        **{"results": "r", "checkpoint": "c", "capacity": 100, "expected_rows_per_s": 3.0},
    }
    spec = {"name": "tiny", "submit": {"master": "local"}, "slots": {"max": 4, "start": 2}, "join": join}
    (tmp_path / "specs" / "tiny.yaml").write_text(json.dumps(spec).replace('"on":', "on:"))
    assert run("launch_tiny", {"running": False})[0] == "success"
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None and newest.join is not None and newest.join.workers == 5
