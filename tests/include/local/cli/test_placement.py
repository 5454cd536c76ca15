"""The command placement: what runs where, and what would be better."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.lake.control_tables import ControlTables
from millrace.lake.row_codec import partition_run_row
from millrace.lake.store import Lake
from millrace.local.cli import __main__ as cli
from millrace.model.decision import Action, Decision, Proposal
from millrace.pipelines.catalog import find
from tests.include.control.test_partition_loads import run


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlTables:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MILLRACE_PIPELINES", str(tmp_path))
    (tmp_path / "orders.py").touch()
    attach(tmp_path, "placement: {}")
    return ControlTables(Lake(tmp_path / "home" / "lake"))


def attach(folder: Path, section: str) -> None:
    (folder / "orders.yaml").write_text(f"{{name: orders, script: orders.py, {section}}}")


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert cli.main(["placement", "orders", *options]) == 0
    return capsys.readouterr().out


def test_partitions_are_shown_by_executor_with_the_last_decision(
    tables: ControlTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "never launched" in shown(capsys)
    first = find("orders").first_deployment()
    tables.deployments.commit(replace(first, apps={"orders": replace(first.apps["orders"], slots=2)}), None)
    assert "orders: no state partition was measured recently" in shown(capsys)
    where, now, same = [0, 1, 1, None], datetime.now(UTC), {"pipeline": "orders", "app": "orders"}
    runs = [
        run(b, p, **same, time=now - timedelta(seconds=b), executor_number=at, state_bytes=1_500_000)
        for b in range(3)
        for p, at in enumerate(where)
    ]
    tables.lake.append("telemetry/partitions", [partition_run_row(r) for r in runs])
    text = shown(capsys)
    lines = [line.split() for line in text.splitlines()]
    assert lines[1] == ["q/0", "lost", "4.00", "40", "%", "1.5", "3"]
    assert lines[2] == ["q/0", "0", "1.00", "10", "%", "1.5", "0"]
    assert lines[3] == ["q/0", "1", "5.00", "50", "%", "3.0", "1", "2"]
    assert "the stateful part of a batch takes 5.0 s (3 sampled batches); 25 % of its bytes are remote" in text
    assert (
        "The best placement within the budget takes 5.0 s (gap 0 %; no placement makes it shorter than 5.0 s):" in text
    )
    assert "  partition 3 of q/0: executor lost -> 0 (4.00 s, 1.5 MB of state)" in text
    assert "albic" not in text, "it was not asked yet"
    proposal = Proposal("albic", (), "skewed_keys", "partition 3 is hot")
    decision = Decision("d1", "orders", now, Action.HOLD, "fits", "all is well", proposals=(proposal,))
    tables.decisions.record(decision)
    assert shown(capsys).splitlines()[-1] == f"albic, {now:%H:%M:%S} UTC: partition 3 is hot."
    attach(tmp_path, "mode: auto")
    assert "spread evenly by number" in shown(capsys)


def test_app_of_several_is_shown_by_its_name(
    tables: ControlTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attach(tmp_path, "apps: {clean: {}, total: {submit: {master: local}}}")
    first = find("orders").first_deployment()
    tables.deployments.commit(replace(first, apps={**first.apps, "clean": replace(first.apps["clean"], slots=2)}), None)
    assert cli.main(["placement", "orders"]) == cli.BAD_INPUT
    assert "allowed: clean, total. Name an app of orders." in capsys.readouterr().err
    assert "total of orders has no executors" in shown(capsys, "--app", "total")
    assert "clean of orders: no state partition was measured recently" in shown(capsys, "--app", "clean")
    runs = [
        run(0, p, pipeline="orders", app="clean", time=datetime.now(UTC), executor_number=0, state_bytes=1_500_000)
        for p in range(2)
    ]
    tables.lake.append("telemetry/partitions", [partition_run_row(r) for r in runs])
    text = shown(capsys, "--app", "clean")
    assert "the stateful part of a batch takes" in text and "in pipelines of one app only" in text


def test_app_without_executors_is_reported_as_such(
    tables: ControlTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attach(tmp_path, "submit: {master: local}")
    first = find("orders").first_deployment()
    tables.deployments.commit(replace(first, reason="first"), None)
    assert "all its state is in the driver" in shown(capsys)
