"""Azurite, Microsoft's own server of Azure's API for tests, on loopback."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from millrace.environment.jars import SHARE
from tests.object_stores.place import NAME, Place
from tests.server_log import address_in

PINS = Path(__file__).with_name("azurite")
ACCOUNT, KEY = "millrace", base64.b64encode(b"a key of tests only, for a server on loopback").decode()
ADDRESS = re.compile(r"listens on (http://127\.0\.0\.1:\d+)")


@contextmanager
def azure() -> Iterator[Place]:
    """Run a server with an empty container; skip the test if there is no Node.js to run it."""
    with tempfile.TemporaryFile("w+") as log:
        command = ["node", str(_installed()), "--blobHost", "127.0.0.1", "--blobPort", "0"]
        command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
        environment = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}", "PATH": str(Path(shutil.which("node") or "").parent)}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            address = address_in(log, process, ADDRESS)
            _create(f"{address}/{ACCOUNT}")
            keys = {
                "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": KEY,
                "AZURE_STORAGE_USE_EMULATOR": "true",  # Azurite does not know all parameters of the service
                "AZURITE_BLOB_STORAGE_URL": address,
            }
            yield Place(f"az://{NAME}/lake", keys, f"az://{NAME}-none/lake")
        finally:
            process.kill()
            process.wait()


def _installed() -> Path:
    """Return Azurite's program, as package-lock.json pins it; install it if it is not there."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed: Azurite, the server of Azure's API, cannot run")
    home = SHARE / "azurite"
    program = home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    pins = (PINS / "package-lock.json").read_text()
    installed = home / "package-lock.json"
    if not program.exists() or not installed.exists() or installed.read_text() != pins:
        home.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(PINS / name, home / name)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=home, check=True)
    return program


def _create(endpoint: str) -> None:
    """Create the container, with a request that is signed as Azure wants it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\n{signed}/{ACCOUNT}/{ACCOUNT}/{NAME}\nrestype:container"
    mac = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{mac}", "Content-Length": "0"}
    urlopen(Request(f"{endpoint}/{NAME}?restype=container", headers=headers, method="PUT")).close()
