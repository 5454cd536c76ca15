"""The output of ``status --storage`` for people and programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.lake.maintenance import maintain
from millrace.lake.store import Lake
from millrace.local.cli import __main__ as cli
from millrace.local.cli.storage import size

NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def lake(home: Path) -> Lake:
    lake = Lake(home / "lake")
    for number in range(4):
        row = {"pipeline": "tiny", "time": NOW - timedelta(days=20 * number), "app": "a", "generation": 1}
        lake.append("telemetry/apps", [row] * 1500)
    lake.create("control/deployments")
    return lake


def test_storage_shows_sizes_and_the_last_maintenance(
    lake: Lake, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maintain(lake, "telemetry/apps", NOW.date(), keep_days=30)
    (home / "mlflow").mkdir()
    (home / "mlflow" / "mlflow.db").write_bytes(b"0" * 1500)
    assert cli.main(["status", "--storage"]) == 0
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    held, done = (line for line in told if line[:1] == ["telemetry/apps"])
    oldest = (NOW - timedelta(days=20)).date().isoformat()
    assert (held[1], held[-3:]) == ("3,000", [oldest, "30", "days"])
    assert done[1:] == ["0", "min", "3,000", "4", "->", "2", "0"]
    held, done = (line for line in told if line[:1] == ["control/deployments"])
    assert (held[1], held[-1], done[1:]) == ("0", "permanently", ["not", "yet"])
    assert next(line[1] for line in told if line[:1] == ["total"]) == "3,000"
    assert ["MLflow", "1.5", "kB"] in told


def test_storage_as_json(lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_KEEP_TELEMETRY_DAYS", "90")
    monkeypatch.setenv("MILLRACE_KEEP_CONTROL_DAYS", "forever")
    assert cli.main(["status", "--storage", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["storage"]["tables"]
    assert set(tables) == {"telemetry/apps", "control/deployments"}
    apps = tables["telemetry/apps"]
    assert (apps["rows"], apps["files"], apps["keep_days"], apps["upkeep"]) == (6000, 4, 90, None)


def test_empty_number_of_days_is_the_default(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_KEEP_TELEMETRY_DAYS", "")
    assert cli.main(["status", "--storage", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["storage"]["tables"]["telemetry/apps"]["keep_days"] == 30


def test_storage_without_a_lake_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--storage"]) == 0
    assert "The lake is empty." in capsys.readouterr().out


def test_storage_when_days_are_not_a_number_then_says_what_is_allowed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_KEEP_TELEMETRY_DAYS", "0")
    assert cli.main(["status", "--storage"]) == cli.BAD_INPUT
    told = capsys.readouterr().err
    assert "MILLRACE_KEEP_TELEMETRY_DAYS" in told and "forever" in told


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (99_960, "100.0 kB"), (123_456_789, "123 MB"), (5e15, "5000 TB")],
)
def test_size_is_readable(count: int, text: str) -> None:
    assert size(int(count)) == text
