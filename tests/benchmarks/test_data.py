"""The location of recorded data."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.data import folder
from millrace.places import REPO


def test_folder_when_the_variable_is_set_then_it_is_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_DATA", str(tmp_path))
    assert folder() == tmp_path


def test_folder_when_the_variable_is_not_set_then_is_next_to_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLRACE_DATA", raising=False)
    assert folder() == REPO.parent / "shared" / "data"
