"""What docker-compose.yaml needs to run: programs from Debian packages, installed if possible."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from millrace.local.cli.compose_env import compose_env

REPO = Path(__file__).resolve().parents[2]
COMPOSE = Path("include", "millrace", "local", "stack", "compose")
POSTGRES = Path("/usr/lib/postgresql")


def _install(*packages: str) -> None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        # as in single-user mode, packages start no services
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "-qq", *command], check=False, capture_output=True, env=quiet)


@pytest.fixture(scope="session")
def compose() -> str:
    """Debian's docker-compose."""
    if shutil.which("docker-compose") is None:
        _install("docker-compose")
    found = shutil.which("docker-compose")
    if found is None:
        pytest.skip("docker-compose is not on this machine and cannot be installed without being root on Debian")
    return found


PROBE = """\
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
ip link add br0 type bridge
ip link add veth0 type veth peer name veth1
"""


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The replacement for a container engine: root's rights, an init, and Postgres."""
    if os.geteuid() != 0:
        pytest.skip("only root makes namespaces with networks and users of their own")
    if shutil.which("tini") is None or not POSTGRES.is_dir():
        _install("tini", "postgresql", "iproute2")
    if shutil.which("tini") is None or not POSTGRES.is_dir():
        pytest.skip("tini and Postgres are not on this machine and cannot be installed")
    probe = ["unshare", "--net", "--mount", "sh", "-ec", PROBE]
    if subprocess.run(probe, cwd=tmp_path_factory.mktemp("probe"), check=False).returncode:
        pytest.skip("this machine makes no namespaces, overlays or bridges")


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    """A folder with the compose file, the repository files that it mounts, and generated secrets."""
    shutil.copy(REPO / "docker-compose.yaml", tmp_path)
    shutil.copytree(REPO / COMPOSE, tmp_path / COMPOSE)
    result = CliRunner().invoke(compose_env, ["--folder", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    return tmp_path
