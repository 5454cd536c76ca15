"""The command fleet: nodes, streams, the plan and the moves."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.control.launch import launch
from millrace.drivers import failure_history
from millrace.drivers.failure_history import FailureHistory, fingerprint
from millrace.fleet.streams import Phase
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.local.cli import __main__ as cli
from millrace.local.cli.fleet import MOST_FAILURES, MOST_STREAMS
from millrace.local.cli.status import pipeline_statuses
from millrace.local.doctor import pipelines
from millrace.local.doctor.finding import Level
from millrace.model.decision import Action
from millrace.pipelines.catalog import find
from millrace.run_folder.driver_records import DriverState
from tests.include.reporting.fleets import at, decided, drive, planned

SPEC = """\
name: ingest
fleet:
  script: ingest.py
  checkpoints: {folder}/checkpoints
  streams: {{list: [orders, users, "clicks [eu]"]}}
  nodes: {{min: 1, max: 3, start: 2}}
admission: {{capacity: 1000}}
"""


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlTables:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MILLRACE_PIPELINES", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "150")
    (tmp_path / "ingest.py").write_text("def stream(spark, name, options): ...\n")
    (tmp_path / "ingest.yaml").write_text(SPEC.format(folder=tmp_path))
    (tmp_path / "plain.py").touch()
    (tmp_path / "plain.yaml").write_text("{name: plain, script: plain.py}")
    return ControlTables(Lake(tmp_path / "home" / "lake"))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "home" / "run" / "drivers"


def show(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = cli.main(["fleet", "ingest", *options])
    return code, capsys.readouterr().out


def words(text: str) -> list[str]:
    """Lines with single spaces between words."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_nodes_and_streams_are_shown_with_their_state(
    tables: ControlTables, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(capsys) == (0, "ingest was never launched. Launch it: ./millrace trigger ingest\n")
    assert show(capsys, "--json") == (0, "null\n")
    launch(find("ingest"), tables)
    drive(run_dir, "node0", at(Phase.RUNNING, "clicks [eu]", "users"))
    code, text = show(capsys)
    lines = words(text)
    assert code == 0
    assert {"node0 running 2", "node1 starting 1", "node2 not needed now"} <= set(lines)
    assert {"node0 clicks [eu] running", "node0 users running", "node1 orders waits for its node"} <= set(lines)


def test_loads_plan_and_moves_are_shown(
    tables: ControlTables, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = launch(find("ingest"), tables)
    nodes = {"clicks [eu]": 0, "orders": 1, "users": 1}
    plan = planned(nodes, {"clicks [eu]": 100.0, "orders": 300.0, "users": 50.0}, before=first.ingest)
    assert tables.decisions.record(replace(decided(plan), time=datetime.now(UTC)))
    tables.deployments.commit(replace(first, ingest=nodes, reason="node0 was full."), 1)
    drive(run_dir, "node0", at(Phase.RUNNING, "clicks [eu]", "users"))
    drive(run_dir, "node1", (*at(Phase.RUNNING, "orders"), *at(Phase.BLOCKED, "users", holder="node0")))
    code, text = show(capsys)
    lines = words(text)
    assert code == 0
    assert "node state streams rows/s now next of full" in lines
    assert {"node0 running 2 150 100 1,000 15 %", "node1 running 1 300 350 1,000 30 %"} <= set(lines)
    assert {"node0 clicks [eu] running 100 110", "node0 users running, moves to node1 50 55"} <= set(lines)
    told = next(line for line in lines if line.startswith("Plan of"))
    assert "2 nodes; no plan needs fewer than 1. At most 35 % full" in told and "off by 15 % in total" in told
    assert any(line.endswith("version 2: users node0 -> node1. node0 was full.") for line in lines)


def test_plan_that_was_not_carried_out_is_told(tables: ControlTables, capsys: pytest.CaptureFixture[str]) -> None:
    first = launch(find("ingest"), tables)
    plan = planned({**first.ingest, "users": 1}, dict.fromkeys(first.ingest, 9.0), before=first.ingest)
    assert tables.decisions.record(replace(decided(plan, Action.ADVISE, "Move users."), time=datetime.now(UTC)))
    assert "Not carried out (advise): Move users." in show(capsys)[1]


def test_plan_of_last_week_is_not_shown(tables: ControlTables, capsys: pytest.CaptureFixture[str]) -> None:
    first = launch(find("ingest"), tables)
    old = decided(planned(first.ingest, dict.fromkeys(first.ingest, 9.0)))
    assert tables.decisions.record(replace(old, time=datetime.now(UTC) - timedelta(days=7)))
    assert "Plan of" not in show(capsys)[1]


def test_stream_that_fails_is_told_with_its_error(
    tables: ControlTables, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch(find("ingest"), tables)
    retry_at = datetime.now(UTC) + timedelta(seconds=4)
    failing = at(Phase.FAILED, "users", failures=2, error="no table users", retry_at=retry_at)
    drive(run_dir, "node0", (*at(Phase.RUNNING, "clicks [eu]"), *failing))
    code, text = show(capsys)
    assert code == 1
    assert "node0 running 2, 1 fail" in words(text) and "node0 users failed" in words(text)
    assert "Stream users failed 2 times: no table users." in text
    code, text = show(capsys, "--json")
    assert code == 1 and [s["failures"] for s in json.loads(text)["streams"] if s["stream"] == "users"] == [2]


def test_node_that_is_down_is_told(tables: ControlTables, run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch(find("ingest"), tables)
    drive(run_dir, "node0", at(Phase.RUNNING, "users", "clicks [eu]"), DriverState.FAILED)
    code, text = show(capsys)
    assert code == 1
    assert {"node0 down 2", "node0 users its node is down"} <= set(words(text))
    assert "node0 does not run" in text


def test_of_many_streams_those_that_fail_and_the_largest_are_listed(
    tables: ControlTables, tmp_path: Path, run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"s{n:03}" for n in range(200)]
    path = tmp_path / "ingest.yaml"
    path.write_text(path.read_text().replace('[orders, users, "clicks [eu]"]', str(names)))
    first = launch(find("ingest"), tables)
    came = {name: float(n) for n, name in enumerate(names)}
    assert tables.decisions.record(replace(decided(planned(first.ingest, came)), time=datetime.now(UTC)))
    wrong = [name for name in names[:30] if first.ingest[name] == 0]
    right = [name for name in names if first.ingest[name] == 0 and name not in wrong]
    drive(run_dir, "node0", (*at(Phase.RUNNING, *right), *at(Phase.FAILED, *wrong, failures=1, error="no table")))
    drive(run_dir, "node1", at(Phase.RUNNING, *(name for name in names if first.ingest[name] == 1)))
    code, text = show(capsys)
    listed = {line.split()[1] for line in text.splitlines() if line.startswith("node") and line.split()[1] in came}
    assert code == 1 and len(listed) == MOST_STREAMS and {*wrong, "s199", "s186"} <= listed
    assert "and 170 more," in text and text.count(" failed: no table.") == MOST_FAILURES and "and 5 more" in text
    code, text = show(capsys, "--all")
    listed = {line.split()[1] for line in text.splitlines() if line.startswith("node") and line.split()[1] in came}
    assert listed == set(names) and "in all" not in text
    assert len(json.loads(show(capsys, "--json")[1])["streams"]) == 200


def test_json_has_nodes_streams_plan_and_moves(tables: ControlTables, capsys: pytest.CaptureFixture[str]) -> None:
    first = launch(find("ingest"), tables)
    plan = planned(first.ingest, dict.fromkeys(first.ingest, 10.0))
    assert tables.decisions.record(replace(decided(plan), time=datetime.now(UTC)))
    tables.deployments.commit(replace(first, ingest={**first.ingest, "users": 1}), 1)
    data = json.loads(show(capsys, "--json")[1])
    assert [(n["name"], n["state"], n["load"]) for n in data["nodes"]] == [
        ("node0", "starting", 10.0), ("node1", "starting", 20.0), ("node2", "not needed now", 0.0),
    ]  # fmt: skip
    assert (data["version"], data["unit"], data["plan"]["nodes"], data["plan"]["least_nodes"]) == (2, "rows/s", 2, 1)
    assert data["moves"][0]["moves"] == [{"stream": "users", "before": "node0", "after": "node1"}]
    assert "does not run" in data["problem"] and data["problems"] == []


def test_stream_that_is_new_waits_for_a_node(
    tables: ControlTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch(find("ingest"), tables)
    path = tmp_path / "ingest.yaml"
    path.write_text(path.read_text().replace("users,", "users, returns,"))
    code, text = show(capsys)
    assert code == 0 and "returns waits for a node" in words(text)


def test_streams_that_run_are_shown_if_new_ones_cannot_be_found(
    tables: ControlTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch(find("ingest"), tables)
    path = tmp_path / "ingest.yaml"
    path.write_text(path.read_text().replace('{list: [orders, users, "clicks [eu]"]}', "{file: nowhere.yaml}"))
    code, text = show(capsys)
    assert code == 0 and "nowhere.yaml" in text and "node1 orders waits for its node" in words(text)


def test_status_and_doctor_do_not_miss_nodes_that_are_not_needed(tables: ControlTables, run_dir: Path) -> None:
    first = launch(find("ingest"), tables)
    content, now = fingerprint(first.apps["node2"]), datetime.now(UTC)
    history = FailureHistory().failed(content, 1, "ValueError: x", now).failed(content, 1, "ValueError: x", now)
    failure_history.save(run_dir / "ingest" / "node2", history)
    (status,) = pipeline_statuses(tables, run_dir)
    assert status.cells()[1] == "2, 2 slots, version 1"
    assert status.as_plain()["not_needed"] == ["node2"]
    assert status.apps[2].cells()[:2] == ["node2", "not needed now"]
    assert pipelines.circuit(status, run_dir).level is Level.OK
    tables.deployments.commit(replace(first, ingest={**first.ingest, "users": 2}), 1)
    (status,) = pipeline_statuses(tables, run_dir)
    assert status.as_plain()["not_needed"] == [] and pipelines.circuit(status, run_dir).level is Level.WARNING


def test_pipeline_that_is_no_fleet_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fleet", "plain"]) == cli.BAD_INPUT
    assert "a pipeline with a section fleet" in capsys.readouterr().err
