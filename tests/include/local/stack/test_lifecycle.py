from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.environment.home import Home
from millrace.local.stack import lifecycle, supervisor
from millrace.local.stack.lifecycle import FOLDERS, LAKE, environment
from millrace.local.stack.stack_record import StackRecord
from millrace.pipelines.catalog import FOLDERS_VARIABLE
from millrace.run_folder.process import ProcessId
from millrace.wiring import LAKE_VARIABLE


def test_environment_makes_relative_folders_of_specs_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (FOLDERS, LAKE) == (FOLDERS_VARIABLE, LAKE_VARIABLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDERS, f"mine{os.pathsep}/theirs")
    assert environment(Home(tmp_path))[FOLDERS] == f"{tmp_path / 'mine'}{os.pathsep}/theirs"
    monkeypatch.delenv(FOLDERS)
    assert FOLDERS not in environment(Home(tmp_path))


def test_stack_that_was_started_with_other_folders_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    monkeypatch.delenv(LAKE, raising=False)
    monkeypatch.setenv(FOLDERS, "/srv/old")
    assert lifecycle.started_otherwise(home) is None
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environment(home)) as child:
        StackRecord(ProcessId.of(child.pid), 0.0).write(supervisor.record_path(home))
        assert lifecycle.started_otherwise(home) is None
        monkeypatch.setenv(FOLDERS, "/srv/new")
        told = lifecycle.started_otherwise(home)
        assert told is not None and (told.key, told.value) == (FOLDERS, "/srv/new")
        assert "/srv/old" in told.allowed and "./millrace down" in told.remedy
        child.terminate()


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
