"""The shared deployment: its file is one that docker-compose accepts, and its secrets are their owner's alone."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from include.local.cli.compose_env import compose_env
from include.model.errors import MillraceError

REPO = Path(__file__).resolve().parents[4]
LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="session")
def compose() -> str:
    """Debian's docker-compose; installed where that can be done, since a checked syntax is worth a download."""
    if shutil.which("docker-compose") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=False, capture_output=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "docker-compose"]
        subprocess.run(install, check=False, capture_output=True, env=quiet)
    found = shutil.which("docker-compose")
    if found is None:
        pytest.skip("docker-compose is not on this machine and cannot be installed without being root on Debian")
    return found


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """A folder with the compose file and generated secrets."""
    shutil.copy(REPO / "docker-compose.yaml", tmp_path)
    result = CliRunner().invoke(compose_env, ["--folder", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    return tmp_path


def config(compose: str, folder: Path) -> subprocess.CompletedProcess[str]:
    bare = {k: v for k, v in os.environ.items() if "PASSWORD" not in k and "SECRET" not in k and "KEY" not in k}
    return subprocess.run([compose, "config"], cwd=folder, env=bare, capture_output=True, text=True, check=False)


def test_compose_file_is_accepted_with_every_service(compose: str, deployment: Path) -> None:
    import yaml

    result = config(compose, deployment)
    assert result.returncode == 0, result.stderr
    services = yaml.safe_load(result.stdout)["services"]
    airflow = {"api-server", "scheduler", "dag-processor", "triggerer"}
    assert set(services) == airflow | {
        "postgres",
        "migrate",
        "mlflow",
        "spark-master",
        "spark-worker",
        "runner",
        "upkeep",
    }


def test_compose_file_when_secrets_are_missing_then_says_what_to_run(compose: str, tmp_path: Path) -> None:
    shutil.copy(REPO / "docker-compose.yaml", tmp_path)
    result = config(compose, tmp_path)
    assert result.returncode != 0
    assert "compose-env" in result.stderr


def test_compose_file_when_ports_are_published_then_on_loopback_only() -> None:
    import yaml

    services = yaml.safe_load((REPO / "docker-compose.yaml").read_text(encoding="utf-8"))["services"]
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith(f"{LOOPBACK}:") for port in published)


def test_compose_image_has_only_packages_of_the_repo() -> None:
    lines = (REPO / "include/local/stack/compose/Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert copied
    assert all((REPO / word).exists() for word in copied)


def test_compose_env_when_written_then_only_the_owner_can_read_it(deployment: Path) -> None:
    for name in (".env", "var/compose/airflow_passwords.json", "var/compose/mlflow_auth.ini"):
        assert stat.S_IMODE((deployment / name).stat().st_mode) == 0o600
    env = dict(line.split("=", 1) for line in (deployment / ".env").read_text(encoding="utf-8").splitlines())
    users = json.loads((deployment / "var/compose/airflow_passwords.json").read_text(encoding="utf-8"))
    assert users == {"admin": env["MILLRACE_ADMIN_PASSWORD"]}


def test_compose_env_when_there_already_then_keeps_the_old_secrets(deployment: Path) -> None:
    before = (deployment / ".env").read_text(encoding="utf-8")
    with pytest.raises(MillraceError, match="--replace"):
        CliRunner().invoke(compose_env, ["--folder", str(deployment)], catch_exceptions=False)
    assert (deployment / ".env").read_text(encoding="utf-8") == before
    CliRunner().invoke(compose_env, ["--folder", str(deployment), "--replace"], catch_exceptions=False)
    assert (deployment / ".env").read_text(encoding="utf-8") != before
