"""Alerts to people, sent with Airflow's own notifiers to a server that listens here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from tests.dags.runs import launched, run, waiting
from tests.http_server import posted_bodies

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]

ALERTS = """
alerts:
  - notifier: airflow.providers.http.notifications.http.HttpNotifier
    options:
      http_conn_id: team
      endpoint: /hook
      json: {text: "{{ alert.pipeline }}: {{ alert.sentence }}", link: "{{ alert.url }}"}
    events: [approval, not_running, running]
"""


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    with posted_bodies() as (address, posted):
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", address)
        yield posted


@pytest.fixture
def lake(millrace_home: Path) -> Lake:
    return Lake(millrace_home / "lake")


def add_to_spec(folder: Path, text: str) -> None:
    spec = folder / "specs" / "tiny.yaml"
    spec.write_text(spec.read_text() + text)


def test_waiting_approval_alerts_once(lake: Lake, tmp_path: Path, posted: list[bytes]) -> None:
    add_to_spec(tmp_path, ALERTS)
    decision = waiting(lake, launched(lake, running=False))
    for _ in range(2):
        state, tasks = run("reconcile")
        assert (state, tasks["unsettled"], tasks["alert[tiny]"]) == ("success", "success", "success")
    link = f"http://127.0.0.1:8080/dags/approve_tiny/runs/{decision.decision_id}"
    assert [json.loads(body) for body in posted] == [{"text": "tiny: tiny: 2 -> 4 slots", "link": link}]


def test_pipeline_that_stops_running_alerts_and_so_does_its_recovery(
    lake: Lake, tmp_path: Path, posted: list[bytes]
) -> None:
    add_to_spec(tmp_path, ALERTS)
    first, deployments = launched(lake, running=True), DeploymentStore(lake)
    broken = replace(first.apps["tiny"], script="/nowhere/tiny.py")
    second = deployments.commit(replace(first, apps={"tiny": broken}), 1)
    for _ in range(2):
        state, tasks = run("reconcile")
        assert (state, tasks["reconcile[tiny]"], tasks["alert[tiny]"]) == ("failed", "failed", "success")
    (told,) = map(json.loads, posted)
    assert "tiny does not run" in told["text"] and told["link"] == "http://127.0.0.1:8080/millrace/?pipeline=tiny"
    deployments.commit(replace(second, running=False), second.version)
    assert run("reconcile")[0] == "success"
    assert json.loads(posted[1])["text"] == f"tiny: The pipeline no longer has to run: {second.reason}"


@pytest.mark.parametrize(
    ("notifier", "problem"),
    [("airflow.providers.nobody.Notifier", "Install its provider"), ("json.JSONDecoder", "BaseNotifier")],
)
def test_notifier_that_cannot_be_created_fails_and_does_not_block_the_others(
    lake: Lake, tmp_path: Path, posted: list[bytes], notifier: str, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    add_to_spec(tmp_path, ALERTS.replace("alerts:", f"alerts:\n  - notifier: {notifier}"))
    waiting(lake, launched(lake, running=False))
    state, tasks = run("reconcile")
    assert (state, tasks["unsettled"], tasks["alert[tiny]"]) == ("success", "success", "failed")
    assert problem in capfd.readouterr().out
    assert len(posted) == 1
    assert len(lake.rows("select * from alerts", "control/alerts")) == 1
