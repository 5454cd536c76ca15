from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.environment.home import Home
from millrace.local.stack.lifecycle import FOLDERS, environment
from millrace.pipelines.catalog import FOLDERS_VARIABLE


def test_environment_makes_relative_folders_of_specs_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FOLDERS == FOLDERS_VARIABLE
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDERS, f"mine{os.pathsep}/theirs")
    assert environment(Home(tmp_path))[FOLDERS] == f"{tmp_path / 'mine'}{os.pathsep}/theirs"
    monkeypatch.delenv(FOLDERS)
    assert FOLDERS not in environment(Home(tmp_path))
