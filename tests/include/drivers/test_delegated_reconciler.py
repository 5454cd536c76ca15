"""If a runner owns the drivers, all others wait for its result."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.drivers.delegated_reconciler import HEARTBEAT_FILE, DelegatedReconciler, problem, show_life, write_status
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.store import Lake
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.errors import MillraceError, NotReady
from millrace.model.spec import PipelineSpec

SPEC = PipelineSpec(name="orders", script="orders.py", ready_deadline_s=0.2, stop_deadline_s=0.1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    show_life(tmp_path)
    tables = Lake(tmp_path / "lake")
    DeploymentStore(tables).commit(SPEC.first_deployment(), None)
    return tables


def change(version: int) -> Reconfiguration:
    now = datetime.now(UTC) + timedelta(seconds=1)
    return Reconfiguration("orders", "orders", None, "T2", None, version, 1, now, now, None, Outcome.READY)


def test_delegate_waits_for_the_runner_and_returns_its_changes(lake: Lake, tmp_path: Path) -> None:
    asked = threading.Event()

    def sleep(_: float) -> None:
        asked.set()
        runner.join()

    def run() -> None:
        assert asked.wait(600)
        ReconfigurationStore(Lake(lake.location)).record(change(1))
        write_status(tmp_path, "orders", 1)

    runner = threading.Thread(target=run)
    runner.start()
    changes = DelegatedReconciler(SPEC, ControlTables(lake), tmp_path, sleep).reconcile()
    assert [c.to_version for c in changes] == [1]


def test_delegate_returns_what_the_runner_did_before_the_call(lake: Lake, tmp_path: Path) -> None:
    tables = ControlTables(lake)
    made = tables.deployments.committed_at("orders", 1)
    assert made is not None
    earlier = replace(change(1), started=made - timedelta(seconds=9), ended=made, outcome=Outcome.FAILED)
    tables.reconfigurations.record(earlier)
    live = replace(change(1), tier="T1", started=made, ended=made, outcome=Outcome.FAILED, error="no room")
    tables.reconfigurations.record(live)
    tables.reconfigurations.record(replace(change(1), started=made + timedelta(microseconds=1), generation=2))
    write_status(tmp_path, "orders", 1)
    found = DelegatedReconciler(SPEC, tables, tmp_path).reconcile()
    assert [(c.tier, c.outcome) for c in found] == [("T1", Outcome.FAILED), ("T2", Outcome.READY)], "oldest first"
    assert DelegatedReconciler(SPEC, tables, tmp_path).reconcile(wait_s=0) == ()


def test_delegate_is_not_ready_while_the_runner_has_an_older_version(lake: Lake, tmp_path: Path) -> None:
    write_status(tmp_path, "orders", 1)
    DeploymentStore(lake).commit(SPEC.first_deployment(), 1)
    with pytest.raises(NotReady):
        DelegatedReconciler(SPEC, ControlTables(lake), tmp_path).reconcile(wait_s=0)
    write_status(tmp_path, "orders", 2)
    assert DelegatedReconciler(SPEC, ControlTables(lake), tmp_path).reconcile(wait_s=0) == ()


def test_delegate_when_no_runner_is_up_then_says_so(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.drivers.delegated_reconciler.RUNNER_SLACK_S", 0.0)
    with pytest.raises(MillraceError, match="millrace runner"):
        DelegatedReconciler(SPEC, ControlTables(lake), tmp_path, lambda _: None).reconcile()


def test_delegate_when_the_runner_is_dead_then_does_not_bypass_it(lake: Lake, tmp_path: Path) -> None:
    reconciler = DelegatedReconciler(SPEC, ControlTables(lake), tmp_path)
    write_status(tmp_path, "orders", 1)
    assert reconciler.reconcile(wait_s=0) == () and reconciler.problem() is None
    os.utime(tmp_path / HEARTBEAT_FILE, (1, 1))
    dead = reconciler.problem()
    assert dead is not None and "last seen" in dead and "millrace runner" in dead
    DeploymentStore(lake).commit(SPEC.first_deployment(), 1)
    with pytest.raises(MillraceError, match="last seen"):
        reconciler.reconcile(wait_s=0)
    show_life(tmp_path)
    assert reconciler.problem() is None


def test_runner_is_missed_only_by_pipelines_that_should_run(lake: Lake, tmp_path: Path) -> None:
    os.utime(tmp_path / HEARTBEAT_FILE, (1, 1))
    latest = DeploymentStore(lake).latest("orders")
    assert latest is not None and problem(tmp_path, latest) is not None
    assert problem(tmp_path, replace(latest, running=False)) is None
    assert problem(tmp_path, replace(latest, detached=True)) is None


def test_delegate_when_the_runner_fails_then_passes_its_message_on(lake: Lake, tmp_path: Path) -> None:
    write_status(tmp_path, "orders", 1, "script: got 'x.py'; allowed: an existing file.")
    with pytest.raises(MillraceError, match="an existing file"):
        DelegatedReconciler(SPEC, ControlTables(lake), tmp_path).reconcile(wait_s=0)


def test_delegate_when_never_launched_then_does_nothing(tmp_path: Path) -> None:
    assert DelegatedReconciler(SPEC, ControlTables(Lake(tmp_path)), tmp_path).reconcile() == ()
