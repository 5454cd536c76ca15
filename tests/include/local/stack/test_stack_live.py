"""The real stack: healthy, closed to the outside, behind a login, and gone without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from millrace.environment.home import Home
from millrace.local.stack import lifecycle, secrets, service_processes
from millrace.local.stack.airflow_api import AirflowApi
from millrace.local.stack.services import airflow_url, mlflow_url
from millrace.local.stack.stack_record import StackRecord
from millrace.model.errors import MillraceError

pytestmark = [pytest.mark.airflow, pytest.mark.slow]


def _cli(home: Home, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "MILLRACE_HOME": str(home.root)}
    return subprocess.run([sys.executable, "-m", "millrace.local.cli", *args], env=env, capture_output=True, text=True)


def _status(url: str, password: str | None = None) -> int:
    request = urllib.request.Request(url)
    if password:
        request.add_header("Authorization", "Basic " + b64encode(f"admin:{password}".encode()).decode())
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _processes(home: Home) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get(service_processes.MARK) == str(home.root)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    up = _cli(home, "up")
    try:
        assert up.returncode == 0, up.stderr
        yield home
        # the last test of the module, here because no test may depend on the order
        down = _cli(home, "down")
        assert down.returncode == 0, down.stderr
        assert _processes(home) == []
        assert lifecycle.status(home) is None
    finally:
        lifecycle.down(home)


@pytest.fixture
def record(home: Home) -> StackRecord:
    record = lifecycle.status(home)
    assert record
    return record


def test_status_when_up_then_every_service_is_healthy(home: Home) -> None:
    told: dict[str, Any] = json.loads(_cli(home, "status", "--json").stdout)["stack"]
    assert told["healthy"] is True
    states = {name: s["state"] for name, s in told["services"].items()}
    assert states.pop("migrate") == "done"
    airflow = {"api-server", "execution-api", "scheduler", "dag-processor", "triggerer"}
    assert set(states) == {"mlflow", "spark-master", "spark-worker", "upkeep", *airflow}
    assert set(states.values()) == {"healthy"}


def test_up_when_already_up_then_changes_nothing(home: Home, record: StackRecord) -> None:
    assert _cli(home, "up").returncode == 0
    again = lifecycle.status(home)
    assert again and again.supervisor == record.supervisor


def test_pages_when_not_logged_in_then_are_refused(home: Home, record: StackRecord) -> None:
    password = secrets.load(home).admin_password
    assert _status(f"{airflow_url(record.ports)}/api/v2/dags") == 401
    assert _status(f"{mlflow_url(record.ports)}/") == 401
    assert _status(f"{mlflow_url(record.ports)}/", "wrong") == 401
    assert _status(f"{mlflow_url(record.ports)}/", password) == 200
    for name in ("spark_master", "spark_worker"):
        assert _status(f"http://127.0.0.1:{record.ports[name]}/") == 403


def test_client_when_logged_in_then_reads_health_and_errors_name_the_dag(home: Home) -> None:
    airflow = AirflowApi.of(home)
    assert airflow.health()["scheduler"]["status"] == "healthy"
    with pytest.raises(MillraceError, match="no_such_dag"):
        airflow.trigger("no_such_dag")


def test_trigger_when_dag_is_paused_then_says_so_instead_of_waiting(home: Home) -> None:
    airflow = AirflowApi.of(home)
    for dag_id in ("adapt_delays", "approve_delays"):
        airflow.wait_for_dag(dag_id)
    assert _cli(home, "pause", "delays").returncode == 0
    for dag_id in ("adapt_delays", "approve_delays"):
        with pytest.raises(MillraceError, match=rf"{dag_id}.*paused"):
            airflow.trigger(dag_id)
    assert _cli(home, "resume", "delays").returncode == 0


def test_sockets_when_up_then_listen_only_on_loopback(home: Home) -> None:
    listening = set()
    for process in _processes(home):
        # services' workers come and go in between
        with contextlib.suppress(psutil.NoSuchProcess):
            listening |= {c.laddr.ip for c in process.net_connections(kind="inet") if c.status == psutil.CONN_LISTEN}
    # a driver's JVM writes 127.0.0.1 as an IPv6 address
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_secrets_when_up_then_are_on_no_command_line(home: Home) -> None:
    values = secrets.load(home)
    told = ""
    for process in _processes(home):
        with contextlib.suppress(psutil.NoSuchProcess):
            told += " ".join(process.cmdline())
    assert told
    assert not [v for v in vars(values).values() if v in told]


def test_databases_and_secrets_are_readable_only_by_the_owner(home: Home) -> None:
    def reachable(path: Path) -> bool:
        return bool(path.stat().st_mode & 0o077)

    assert not [f for f in (home.secrets, home.airflow, home.mlflow) if reachable(f)]
