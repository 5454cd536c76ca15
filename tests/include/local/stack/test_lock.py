"""The locked versions are compatible on each supported Python and processor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from millrace.places import REPO

UV = Path(sys.executable).with_name("uv")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("python", "processor"), [("3.11", "x86_64"), ("3.12", "x86_64"), ("3.13", "x86_64"), ("3.13", "aarch64")]
)
def test_locked_versions_resolve(python: str, processor: str) -> None:
    where = ["--python-version", python, "--python-platform", f"{processor}-manylinux_2_28"]
    files = ["--output-file=/dev/null"]
    for folder in (REPO, REPO / "tests"):
        files += [str(folder / "requirements.txt"), f"--constraint={folder / 'requirements.lock'}"]
    resolving = subprocess.run([str(UV), "pip", "compile", "--quiet", *where, *files], capture_output=True, text=True)
    assert resolving.returncode == 0, resolving.stderr
