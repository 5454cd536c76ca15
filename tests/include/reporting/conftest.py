from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mlflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One database for all tests: making it takes longer than all of them together."""
    return tmp_path_factory.mktemp("mlflow")
