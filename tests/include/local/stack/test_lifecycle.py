from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.environment.home import Home
from millrace.local.stack import lifecycle
from millrace.local.stack.lifecycle import FOLDERS, environment
from millrace.pipelines.catalog import FOLDERS_VARIABLE


def test_environment_makes_relative_folders_of_specs_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FOLDERS == FOLDERS_VARIABLE
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDERS, f"mine{os.pathsep}/theirs")
    assert environment(Home(tmp_path))[FOLDERS] == f"{tmp_path / 'mine'}{os.pathsep}/theirs"
    monkeypatch.delenv(FOLDERS)
    assert FOLDERS not in environment(Home(tmp_path))


def test_interrupted_start_leaves_no_supervisor_without_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    records = iter([KeyboardInterrupt(), None])

    def status(home: Home) -> None:
        if (found := next(records)) is not None:
            raise found

    monkeypatch.setattr(lifecycle, "_spawn", lambda home, until_pid: child)
    monkeypatch.setattr(lifecycle, "status", status)
    with pytest.raises(KeyboardInterrupt):
        lifecycle.up(Home(tmp_path))
    assert child.returncode == -signal.SIGTERM
