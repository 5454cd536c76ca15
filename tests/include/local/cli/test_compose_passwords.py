"""Airflow's password file in the shared deployment: what `migrate` prepares is what the api-server can open.

There need not be a container engine: a service's environment and command come from docker-compose.yaml, and a check at
every `open` stands for the mount of a secret, which nobody can write to, not even root.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from include.local.cli.compose_env import compose_env

REPO = Path(__file__).resolve().parents[4]
PASSWORDS = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"

LOGIN = """\
import errno, os, sys

def check(event, args):
    if event == "open" and str(args[0]).startswith(READ_ONLY) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), args[0])

READ_ONLY = sys.argv[1]
sys.addaudithook(check)
from airflow.api_fastapi.app import init_auth_manager
from airflow.api_fastapi.auth.managers.simple.datamodels.login import LoginBody
from airflow.api_fastapi.auth.managers.simple.services.login import SimpleAuthManagerLogin
from fastapi import HTTPException

init_auth_manager()
for password in sys.stdin.read().split():
    try:
        token = SimpleAuthManagerLogin.create_token(LoginBody(username="admin", password=password))
        print("in" if token else "no token")
    except HTTPException as refused:
        print(refused.status_code)
"""


@dataclass
class Containers:
    """The shared deployment's services as local processes.

    Attributes:
        folder: Where the compose file and what compose-env writes lie; also what stands for the containers' folders.
    """

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "volumes" / "home"

    @property
    def mounts(self) -> Path:
        return self.folder / "mounts" / "secrets"

    @property
    def variables(self) -> dict[str, str]:
        lines = (self.folder / ".env").read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)

    @property
    def password(self) -> str:
        return self.variables["MILLRACE_ADMIN_PASSWORD"]

    def write_secrets(self, *options: str) -> None:
        ran = CliRunner().invoke(compose_env, ["--folder", str(self.folder), *options], catch_exceptions=False)
        assert ran.exit_code == 0 and self.password not in ran.output

    def service(self, name: str) -> dict[str, Any]:
        compose = yaml.safe_load((REPO / "docker-compose.yaml").read_text(encoding="utf-8"))
        service: dict[str, Any] = compose["services"][name]
        for secret in service.get("secrets", ()):
            source = self.folder / compose["secrets"][secret]["file"]
            self.mounts.mkdir(parents=True, exist_ok=True)
            mounted = self.mounts / secret
            mounted.unlink(missing_ok=True)
            mounted.write_bytes(source.read_bytes())
            mounted.chmod(0o400)
        return service

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        """Return a service's whole environment: what compose interpolates, and where programs are found."""
        given = {key: self.text(str(value)) for key, value in service["environment"].items()}
        doubles = self.folder / "bin"
        return {**given, "PATH": f"{doubles}:{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def text(self, value: str) -> str:
        """Return a value as the container sees it, with its folders moved here."""
        value = re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda m: self.variables[m[1]], value).replace("$$", "$")
        return value.replace("/millrace/home", str(self.home)).replace("/run/secrets", str(self.mounts))

    def migrate(self) -> str:
        """Run the very command of ``migrate``, with a double of Airflow's; return what it and the double wrote."""
        airflow = self.folder / "bin" / "airflow"
        airflow.parent.mkdir(exist_ok=True)
        airflow.write_text('#!/bin/sh\necho airflow "$@"\n')
        airflow.chmod(0o755)
        service = self.service("migrate")
        command = [self.text(word) for word in service["command"]]
        ran = subprocess.run(command, env=self.environment(service), capture_output=True, text=True, check=True)
        return ran.stdout + ran.stderr

    def log_in(self, *passwords: str) -> tuple[list[str], str]:
        """Start the api-server's own auth manager and log the admin in; return the answers and what was logged."""
        environment = self.environment(self.service("api-server"))
        command = [sys.executable, "-c", LOGIN, str(self.mounts)]
        ran = subprocess.run(
            command, env=environment, input="\n".join(passwords), capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.split()[-len(passwords) :], ran.stdout + ran.stderr

    @property
    def opened(self) -> Path:
        return Path(self.environment(self.service("api-server"))[PASSWORDS])


@pytest.fixture
def containers(tmp_path: Path) -> Containers:
    made = Containers(tmp_path)
    made.write_secrets()
    return made


@pytest.mark.airflow
def test_admin_logs_in_after_migrate_and_no_output_has_the_password(
    containers: Containers,
) -> None:
    told = containers.migrate()
    assert told.splitlines()[-1] == "airflow db migrate"
    before = containers.opened.read_bytes()
    for _ in range(2):  # a restart finds the file of the last start
        answers, log = containers.log_in(containers.password, "wrong")
        assert answers == ["in", "401"]
        assert containers.password not in told + log
    assert containers.opened.read_bytes() == before


@pytest.mark.airflow
def test_only_the_new_password_logs_in_after_a_replacement(containers: Containers) -> None:
    containers.migrate()
    old = containers.password
    containers.log_in(old)
    containers.write_secrets("--replace")
    containers.migrate()
    assert containers.log_in(containers.password, old)[0] == ["in", "401"]


def test_repeated_migrate_keeps_the_secret_and_its_permissions(
    containers: Containers,
) -> None:
    for _ in range(2):
        containers.migrate()
        file = containers.opened
        assert file.is_relative_to(containers.home)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert list(file.parent.iterdir()) == [file]
    (mounted,) = containers.mounts.iterdir()
    assert stat.S_IMODE(mounted.stat().st_mode) == 0o400
    assert mounted.read_bytes() == file.read_bytes()


def test_only_migrate_has_the_passwords(containers: Containers) -> None:
    services = yaml.safe_load((REPO / "docker-compose.yaml").read_text(encoding="utf-8"))["services"]
    assert [name for name, s in services.items() if "airflow_passwords" in s.get("secrets", ())] == ["migrate"]


def test_image_when_built_then_generated_secrets_stay_outside() -> None:
    ignored = (REPO / ".dockerignore").read_text(encoding="utf-8").split()
    assert {"var", ".env"} <= {line.strip("/") for line in ignored}
