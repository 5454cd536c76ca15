"""The command doctor, on homes without a stack."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.drivers import failure_history
from millrace.drivers.failure_history import FailureHistory, fingerprint
from millrace.environment.jars import CONNECTORS
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.local.cli import __main__ as cli
from millrace.local.cli.status import pipeline_statuses
from millrace.local.doctor import pipelines
from millrace.local.doctor.finding import Level
from tests.include.local.demo.synthetic import Run, at, spec_of


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MILLRACE_PIPELINES", raising=False)
    return tmp_path / "home"


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(spec_of(), Lake(home / "lake"), home / "source", monkeypatch)


def _findings(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    groups = json.loads(capsys.readouterr().out)
    return {finding["name"]: finding for findings in groups.values() for finding in findings}


def test_new_home_is_healthy_and_is_not_created_by_the_check(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert "Machine" in told and "Pipelines" in told and "✗" not in told
    assert not home.exists()


def test_broken_spec_is_one_problem_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("{name: bad, script: x.py, scrypt: x.py}")
    monkeypatch.setenv("MILLRACE_PIPELINES", str(tmp_path))
    assert cli.main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "scrypt" in told and "→ Remove or rename `scrypt`." in told
    assert "1 problem" in told


def test_connector_without_jars_is_a_problem_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.py").touch()
    (tmp_path / "orders.yaml").write_text("{name: orders, script: x.py, submit: {connectors: [kafka]}}")
    monkeypatch.setenv("MILLRACE_PIPELINES", str(tmp_path))
    monkeypatch.setitem(CONNECTORS, "kafka", replace(CONNECTORS["kafka"], folder=tmp_path))
    assert cli.main(["doctor"]) == 1
    assert "→ Run ./millrace setup kafka." in capsys.readouterr().out


def test_pipeline_that_does_not_run_and_has_no_spec_is_two_problems(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run.launch(0, 4, 1)
    assert cli.main(["doctor", "--json"]) == 1
    found = _findings(capsys)
    assert found["stack"]["level"] == Level.WARNING and "delays" in found["stack"]["sentence"]
    assert found["delays"]["level"] == Level.PROBLEM and "does not run" in found["delays"]["sentence"]
    monkeypatch.setattr("millrace.pipelines.catalog.BUILT_IN", Path("/nowhere"))
    assert cli.main(["doctor", "--json"]) == 1
    assert "spec is missing" in _findings(capsys)["delays"]["sentence"]


def test_unreadable_lake_is_one_problem_among_others(home: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.launch(0, 4, 1)
    for file in (home / "lake" / "control" / "deployments" / "_delta_log").glob("*.json"):
        file.write_text("no json")
    assert cli.main(["doctor"]) == 1
    assert "deployments" in (told := capsys.readouterr().out) and "java" in told


def test_circuit_and_old_evaluation_are_warnings(home: Path, run: Run) -> None:
    run.launch(0, 4, 1)
    run.evaluate(10, 20, None, "Stay.")
    run_dir, tables = home / "run" / "drivers", ControlTables(run.lake)
    (status,) = pipeline_statuses(tables, run_dir)
    assert pipelines.circuit(status, run_dir).level is Level.OK
    content, now = fingerprint(status.wanted.apps["delays"]), datetime.now(UTC)
    history = FailureHistory().failed(content, 1, "ValueError: x", now).failed(content, 1, "ValueError: x", now)
    failure_history.save(run_dir / "delays" / "delays", history)
    found = pipelines.circuit(status, run_dir)
    assert found.level is Level.WARNING and "failed 2 times" in found.sentence and "ValueError: x" in found.sentence
    assert pipelines.evaluated(status, run.spec, run.lake, at(15)).level is Level.OK
    late = pipelines.evaluated(status, run.spec, run.lake, at(15) + timedelta(hours=1))
    assert late.level is Level.WARNING and "resume delays" in late.remedy


def test_own_airflow_is_not_told_to_start_a_stack(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run.launch(0, 4, 1)
    run.evaluate(10, 20, None, "Stay.")
    monkeypatch.setattr("millrace.places.IN_CHECKOUT", False)
    cli.main(["status"])
    assert "Airflow does not belong to this home." in capsys.readouterr().out
    cli.main(["doctor", "--json"])
    assert (told := _findings(capsys)["stack"])["level"] == Level.OK and "millrace up" not in told["remedy"]
    (status,) = pipeline_statuses(ControlTables(run.lake), home / "run" / "drivers")
    late = pipelines.evaluated(status, run.spec, run.lake, at(15) + timedelta(hours=1))
    assert "unpause the DAG adapt_delays" in late.remedy
