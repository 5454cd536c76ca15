from __future__ import annotations

from pathlib import Path

import pytest

from millrace.lake.store import Lake
from tests.include.local.demo.synthetic import Run, spec_of


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(spec_of(), Lake(tmp_path / "lake"), tmp_path / "source", monkeypatch)
