"""The shared deployment's definition: docker-compose accepts it, and only their owner can read secrets."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from millrace.local.cli.compose_env import compose_env
from millrace.model.errors import MillraceError
from millrace.pipelines.spec_yaml import parse

REPO = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
OF_AIRFLOW = {"airflow_pgpass", "fernet_key"}
SECRETS = {
    "postgres": {"postgres_password", "airflow_database_password", "mlflow_database_password"},
    "migrate": {*OF_AIRFLOW, "admin_password"},
    "api-server": {*OF_AIRFLOW, "jwt_secret", "api_secret_key"},
    "scheduler": {*OF_AIRFLOW, "jwt_secret", "mlflow_credentials"},
    "dag-processor": OF_AIRFLOW,
    "triggerer": {*OF_AIRFLOW, "mlflow_credentials"},
    "upkeep": {"upkeep_pgpass", "fernet_key"},
    "mlflow": {"mlflow_pgpass", "mlflow_auth", "mlflow_session_key"},
    "spark-master": {"spark_cluster"},
    "spark-worker": {"spark_cluster"},
    "runner": {"spark_driver"},
}
"""Which secrets each service has: a user's function, which runs in the worker, has none of Airflow's."""


def config(compose: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([compose, "config"], cwd=folder, env=_bare(), capture_output=True, text=True, check=False)


def _bare() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE")}


def services(compose: str, folder: Path) -> dict[str, Any]:
    result = config(compose, folder)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = parse(result.stdout, "docker-compose.yaml")["services"]
    return found


def test_each_service_has_only_its_own_secrets(compose: str, deployed: Path) -> None:
    found = services(compose, deployed)
    assert {name: {s["source"] for s in service["secrets"]} for name, service in found.items()} == SECRETS


def test_each_service_is_checked_limited_and_unprivileged(compose: str, deployed: Path) -> None:
    for name, service in services(compose, deployed).items():
        assert "healthcheck" in service or name == "migrate", name
        assert {"mem_limit", "user"} <= service.keys() and not service["user"].startswith("0"), name
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name


def test_no_secret_is_in_the_definition(compose: str, deployed: Path) -> None:
    told = config(compose, deployed).stdout + (deployed / ".env").read_text()
    for file in (deployed / "var/compose/secrets").iterdir():
        for value in _values(file.read_text()):
            assert value not in told, file.name


def test_compose_file_when_secrets_are_missing_then_says_which_command_to_run(compose: str, tmp_path: Path) -> None:
    shutil.copy(REPO / "docker-compose.yaml", tmp_path)
    result = config(compose, tmp_path)
    assert result.returncode != 0
    assert "compose-env" in result.stderr


def test_ports_are_published_on_loopback_only(compose: str, deployed: Path) -> None:
    published = [port for service in services(compose, deployed).values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith(f"{LOOPBACK}:") for port in published)


def test_airflow_gets_the_days_to_keep_data() -> None:
    definition, page = ((REPO / name).read_text(encoding="utf-8") for name in ("docker-compose.yaml", "docs/lake.md"))
    variables = set(re.findall(r"MILLRACE_KEEP_\w+", page))
    assert len(variables) == 5 and all(f"{name}: ${{{name}:-}}\n" in definition for name in variables)


def test_image_contains_neither_secrets_nor_runtime_files() -> None:
    ignored = (REPO / ".dockerignore").read_text(encoding="utf-8").split()
    assert {"var", ".env", ".venv"} <= {line.strip("/") for line in ignored}


def test_only_the_owner_can_read_secrets(deployed: Path) -> None:
    own = deployed / "var" / "compose"
    files = [deployed / ".env", *(own / "secrets").iterdir()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    user = (deployed / ".env").read_text().strip().removeprefix("MILLRACE_USER=")
    assert {f"{p.stat().st_uid}:{p.stat().st_gid}" for p in (own, *own.rglob("*"))} == {user}


def test_compose_env_when_secrets_exist_then_keeps_them(deployed: Path) -> None:
    password = deployed / "var/compose/secrets/admin_password"
    before = password.read_text()
    with pytest.raises(MillraceError, match="--replace"):
        CliRunner().invoke(compose_env, ["--folder", str(deployed)], catch_exceptions=False)
    assert password.read_text() == before
    with (deployed / ".env").open("a") as env:
        env.write("MILLRACE_PIPELINES_FOLDER=/srv/pipelines\n")
    ran = CliRunner().invoke(compose_env, ["--folder", str(deployed), "--replace"], catch_exceptions=False)
    assert (deployed / ".env").read_text().splitlines()[1:] == ["MILLRACE_PIPELINES_FOLDER=/srv/pipelines"]
    assert password.read_text() != before
    assert password.read_text().strip() not in ran.output


def test_compose_env_when_only_env_is_lost_then_keeps_the_secrets_of_the_database(deployed: Path) -> None:
    files = {file: file.read_text() for file in (deployed / "var/compose/secrets").iterdir()}
    user = (deployed / ".env").read_text()
    (deployed / ".env").unlink()
    CliRunner().invoke(compose_env, ["--folder", str(deployed)], catch_exceptions=False)
    assert {file: file.read_text() for file in (deployed / "var/compose/secrets").iterdir()} == files
    assert (deployed / ".env").read_text() == user


def test_compose_env_when_some_secrets_are_lost_then_replaces_none_without_being_told_to(deployed: Path) -> None:
    secrets = deployed / "var/compose/secrets"
    (deployed / ".env").unlink()
    (secrets / "admin_password").unlink()
    files = {file: file.read_text() for file in secrets.iterdir()}
    with pytest.raises(MillraceError, match=r"no admin_password.*--replace"):
        CliRunner().invoke(compose_env, ["--folder", str(deployed)], catch_exceptions=False)
    assert {file: file.read_text() for file in secrets.iterdir()} == files


def test_compose_env_keeps_settings_that_were_there_first(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MILLRACE_PIPELINES_FOLDER=/srv/pipelines\n")
    CliRunner().invoke(compose_env, ["--folder", str(tmp_path)], catch_exceptions=False)
    first, second = (tmp_path / ".env").read_text().splitlines()
    assert first.startswith("MILLRACE_USER=") and second == "MILLRACE_PIPELINES_FOLDER=/srv/pipelines"


def _values(text: str) -> list[str]:
    """Return the secrets in a file: words that would not occur by chance."""
    return [
        word
        for line in text.split()
        for word in line.split(":")
        if len(word) >= 24 and "." not in word and "/" not in word
    ]
