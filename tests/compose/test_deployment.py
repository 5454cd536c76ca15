"""The shared deployment in use: services run as docker-compose.yaml says, and adapt a user's pipeline."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.decision import Outcome
from millrace.model.deployment import Deployment
from tests.compose.containers import Containers, deployment
from tests.compose.test_definition import config
from tests.include.runtime.telemetry.arriving import arriving, files
from tests.jobs.adapting import tells_ability
from tests.jobs.driving import SCRIPTS, until
from tests.jobs.totals import expected_totals, total

pytestmark = pytest.mark.platform

LOW, HIGH = 40.0, 110.0
"""Rows/s: a slot can process 50."""
READS_S = 5.0
"""Time that a person takes to read a question, at least."""
SPEC = """\
name: numbers
script: /pipelines/totals.py
args: [/millrace/home/data/source, /millrace/home/data/totals.json, /millrace/home/data/checkpoint, "0.02"]
submit: {master: embedded, secrets: {PLANTED: /run/driver_secrets/planted}}
slots: {min: 2, max: 8, start: 2}
executor: {cores: 2, memory_mb: 512}
objective: {target_utilisation: 0.75, max_lag_s: 40}
mode: approve
period_s: 10
guards: {cool_down_s: 0}
ready_deadline_s: 600
alerts:
  - notifier: airflow.providers.http.notifications.http.HttpNotifier
    options: {http_conn_id: nobody, json: {text: "{{ alert.sentence }}"}}
    events: [not_running]
"""
PERSON, PASSWORD, PLANTED = "ada", "a-password-of-her-own", "planted-secret-of-a-driver"


@dataclass(frozen=True)
class Client:
    """A user of Airflow's API on the deployment's network."""

    containers: Containers
    token: str = ""

    def log_in(self, user: str, password: str) -> Client:
        body = json.dumps({"username": user, "password": password})
        return Client(self.containers, self.ask("POST", "/auth/token", body)["access_token"])

    def send(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        """Return the status and text of a response."""
        options = [f'url = "http://api-server:8080{path}"', f"request = {method}"]
        options.append('header = "Content-Type: application/json"')
        options += [f'header = "Authorization: Bearer {self.token}"'] if self.token else []
        options += [f"data = {json.dumps(body)}"] if body else []
        told = self.containers.run("mlflow", "curl", "-sS", "-w", "\n%{http_code}", "-K", "-", text="\n".join(options))
        text, _, code = told.rpartition("\n")
        return int(code), text

    def ask(self, method: str, path: str, body: str = "") -> Any:
        code, text = self.send(method, path, body)
        assert code < 300, f"{method} {path}: {code} {text}"
        return json.loads(text)


@pytest.fixture
def running(engine: None, compose: str, deployed: Path) -> Iterator[Containers]:
    """The whole deployment, healthy, with a user's spec, script and secret."""
    own = deployed / "var" / "compose"
    (own / "pipelines" / "numbers.yaml").write_text(SPEC)
    shutil.copy(SCRIPTS / "totals.py", own / "pipelines")
    secret = own / "driver_secrets" / "planted"
    secret.write_text(PLANTED)
    secret.chmod(0o600)
    shutil.chown(secret, own.stat().st_uid)
    definition = config(compose, deployed)
    assert definition.returncode == 0, definition.stderr
    with deployment(deployed, definition.stdout) as containers:
        containers.up(containers.build())
        yield containers


def test_team_adapts_a_pipeline_and_the_version_names_the_approver(running: Containers) -> None:
    home = running.folder / "var" / "compose" / "home"
    tables = ControlTables(Lake(home / "lake"))
    admin = Client(running).log_in("admin", (running.secrets["admin_password"]).read_text().strip())
    for name, role in ((PERSON, "Op"), ("guest", "Public")):
        words = f"users create --username {name} --role {role} --firstname A --lastname B --email {name}@localhost"
        running.run("api-server", "airflow", *words.split(), text=f"{PASSWORD}\n{PASSWORD}\n")
    person, guest = (Client(running).log_in(name, PASSWORD) for name in (PERSON, "guest"))
    assert [who.send("GET", "/millrace/")[0] for who in (Client(running), guest, person)] == [401, 403, 200]

    with arriving(files(home / "data" / "source", "json"), LOW) as arrivals:
        until(lambda: admin.send("GET", "/api/v2/dags/launch_numbers")[0] == 200, "the pipeline's DAGs are there")
        admin.ask("POST", "/api/v2/dags/launch_numbers/dagRuns", '{"logical_date": null}')
        until(lambda: outcomes(tables) == [("T2", Outcome.READY)], "the driver serves")
        until(
            lambda: any(map(tells_ability, tables.decisions.recent("numbers", 1))),
            "what two slots can process is known",
        )
        arrivals.rows_per_s = HIGH
        until(lambda: questions(person), "a change waits for a person")
        try:
            until(lambda: agreed(person, tables), "executors were added")
        except AssertionError as error:
            decisions = (decision.sentence for decision in tables.decisions.recent("numbers", 100))
            raise AssertionError("\n".join((str(error), str(outcomes(tables)), *decisions))) from error
        latest = newest(tables)
        assert latest.apps["numbers"].slots > 2
        assert latest.reason.startswith(f"Approved by {PERSON}: ")
    results = home / "data" / "totals.json"
    until(lambda: total(results) == arrivals.rows[-1], "all rows in the results")
    assert json.loads(results.read_text()) == expected_totals(arrivals.rows[-1])
    assert "numbers" in person.send("GET", "/millrace/")[1]
    assert_nobody_tells(running)

    killed = datetime.now(UTC)
    running.running["runner"].stop()
    until(lambda: "last seen" in told_since(tables, killed), "people are told that the runner is dead")
    assert "last seen" in person.send("GET", "/millrace/")[1]
    failed = "/api/v2/dags/reconcile/dagRuns?state=failed"
    until(lambda: admin.ask("GET", failed)["total_entries"], "the run that told them is red")


def outcomes(tables: ControlTables) -> list[tuple[str, Outcome]]:
    return [(change.tier, change.outcome) for change in tables.reconfigurations.recent("numbers")]


def agreed(person: Client, tables: ControlTables) -> bool:
    """Approve what waits, and say if executors were added. If guards veto an answer, it asks again.

    Airflow fails a task that is answered before its scheduler has seen it wait. A person takes longer.
    """
    waited = (found for found in questions(person) if _age_s(found["created_at"]) > READS_S)
    for asked in (found["task_instance"] for found in waited):
        path = f"/api/v2/dags/{asked['dag_id']}/dagRuns/{asked['dag_run_id']}/taskInstances/ask/-1/hitlDetails"
        person.ask("PATCH", path, '{"chosen_options": ["Approve"], "params_input": {}}')
    return ("T1", Outcome.READY) in outcomes(tables)


def _age_s(time: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()


def told_since(tables: ControlTables, since: datetime) -> str:
    return "\n".join(alert.sentence for alert in tables.alerts.since("numbers", since))


def newest(tables: ControlTables) -> Deployment:
    found = tables.deployments.latest("numbers")
    assert found is not None
    return found


def questions(person: Client) -> list[Any]:
    found = person.ask("GET", "/api/v2/dags/~/dagRuns/~/hitlDetails?response_received=false&state=awaiting_input")
    return list(found["hitl_details"])


def assert_nobody_tells(running: Containers) -> None:
    """Look for secrets in processes, logs and tables, and for rights that no container may have."""
    texts = {name: file.read_text().strip() for name, file in running.secrets.items()}
    values = {name: text.encode() for name, text in texts.items() if "\n" not in text and ":" not in text}
    values["spark_secret"] = texts["spark_driver"].rpartition("spark.authenticate.secret")[2].split()[0].encode()
    values["planted"] = PLANTED.encode()
    # MLflow takes its key only as a variable, a driver its secrets, and an executor its login to the driver
    allowed = {("mlflow", "mlflow_session_key"), ("runner", "planted"), ("spark-worker", "spark_secret")}
    for container in running.running.values():
        for process in (Path("/proc", str(pid)) for pid in _inside(container.process.pid)):
            with suppress(ProcessLookupError, FileNotFoundError):  # it has ended
                status = (process / "status").read_text()
                words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
                assert "\nUid:\t1000\t1000" in status and "\nCapEff:\t0000000000000000" in status, status
                assert not {(container.name, name) for name, value in values.items() if value in words} - allowed
    own = running.folder / "var" / "compose"
    written = (*running.folder.glob("*.log"), *_files(own / "home"), *_files(own / "postgres"))
    for file in (path for path in written if path.is_file()):
        with suppress(FileNotFoundError):  # services keep running and remove their own files
            content = file.read_bytes()
            assert not [name for name, value in values.items() if value in content], file


def _files(top: Path) -> list[Path]:
    return [Path(folder, name) for folder, _, names in os.walk(top) for name in names]


def _inside(pid: int) -> list[int]:
    """Return the processes of a container, whose namespaces a process created."""
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [int(word) for word in listed] + [child for word in listed for child in _inside(int(word))]
