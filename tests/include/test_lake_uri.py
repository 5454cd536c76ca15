"""The location of the lake, from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.model.errors import MillraceError
from millrace.wiring import LAKE_VARIABLE, lake, lake_uri


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))


@pytest.mark.parametrize("named", ["", None])
def test_lake_is_in_the_home_unless_set(tmp_path: Path, named: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LAKE_VARIABLE, raising=False) if named is None else monkeypatch.setenv(LAKE_VARIABLE, named)
    assert lake_uri() == str(tmp_path / "lake") == str(lake().location)


@pytest.mark.parametrize("named", ["/srv/lake", "s3://bucket/lake", "gs://bucket/lake"])
def test_lake_is_in_the_configured_place(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAKE_VARIABLE, named)
    assert lake_uri() == named == str(lake().location)


@pytest.mark.parametrize("named", ["lake", "~/lake", "hdfs://host/lake", "file:///srv/lake"])
def test_invalid_place_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAKE_VARIABLE, named)
    with pytest.raises(MillraceError, match=r"MILLRACE_LAKE.*s3://BUCKET/PREFIX"):
        lake_uri()
