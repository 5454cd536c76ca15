"""The part of the caller's environment that a service gets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from millrace.environment.home import Home
from millrace.local.stack import service_processes
from millrace.local.stack.service import Service

PRINT = "import json, os; print(json.dumps(dict(os.environ)))"


def test_settings_of_another_airflow_stay_out_and_a_persons_connections_are_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"AIRFLOW__LOGGING__REMOTE_LOGGING": "true", "AIRFLOW__SMTP__SMTP_HOST": "mail"}
    kept = {"AIRFLOW_CONN_TEAM": "http://team", **settings}
    other = {"AIRFLOW_HOME": "/elsewhere", "AIRFLOW__CORE__FERNET_KEY": "x", "MLFLOW_TRACKING_URI": "http://elsewhere"}
    for name, value in (kept | other).items():
        monkeypatch.setenv(name, value)
    log = tmp_path / "log"
    service = Service("print", (sys.executable, "-c", PRINT), {"AIRFLOW_HOME": "/mine"})
    assert service_processes.start(service, tmp_path, log).wait() == 0
    env = json.loads(log.read_text())
    assert {name: env[name] for name in kept} == kept
    assert env["AIRFLOW_HOME"] == "/mine" and not {"AIRFLOW__CORE__FERNET_KEY", "MLFLOW_TRACKING_URI"} & env.keys()


def test_home_is_private_to_its_owner_unless_opened(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.ensure()
    folders = [home.lake, home.run, home.logs, home.reports, home.secrets, home.mlflow]
    folders += [home.root / "spark", home.root / "gx"]  # what executors print, what the quality gate checked
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    for folder in (home.lake, home.secrets):
        folder.chmod(0o755)
    home.ensure()
    assert (home.lake.stat().st_mode & 0o777, home.secrets.stat().st_mode & 0o777) == (0o755, 0o700)
