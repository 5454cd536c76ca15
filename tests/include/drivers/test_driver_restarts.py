"""A driver that fails is restarted after its wait, or at once if it asks for a restart; one that finished is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millrace.control.contingencies import withdraw_plan
from millrace.control.launch import attach, detach
from millrace.drivers.wake import Wake
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.contingency import Contingency, ContingencyPlan
from millrace.model.decision import Outcome
from millrace.model.deployment import BY_DECISION
from millrace.run_folder.driver_records import DriverState
from tests.include.drivers.plant_of_doubles import NAME, DoublesPlant

SCHEMA = "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 1"


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[DoublesPlant]:
    made = DoublesPlant(tmp_path)
    yield made
    made.close()


def _ended(plant: DoublesPlant) -> None:
    plant.until(lambda: not plant.live())


def test_schema_changes_restart_the_driver_at_once_and_open_no_circuit(plant: DoublesPlant) -> None:
    plant.deploy("schema-changes", "3")
    reconciler = plant.reconciler()
    assert [change.outcome for change in reconciler.reconcile()] == [Outcome.READY]
    for _ in range(3):
        _ended(plant)
        assert f"its query asked for a restart: {SCHEMA}. A restart is due now." in reconciler.problem()
        assert [change.outcome for change in reconciler.reconcile()] == [Outcome.FAILED, Outcome.READY]
    assert reconciler.problem() is None
    assert Outcome.CIRCUIT_OPEN not in {change.outcome for change in plant.history()}


def test_process_that_a_script_left_behind_hides_no_failure(plant: DoublesPlant) -> None:
    plant.deploy("leaves-child", "throws", "3")
    now = [datetime.now(UTC)]
    reconciler = plant.reconciler(clock=lambda: now[0])
    reconciler.reconcile()
    plant.until(lambda: reconciler.status()[0].state is DriverState.FAILED)
    (failed,) = reconciler.reconcile()
    assert (failed.outcome, failed.error) == (Outcome.FAILED, "ValueError: poison")
    assert reconciler.reconcile() == () and [number for number, _ in plant.versions()] == [1]
    now[0] += timedelta(seconds=10)
    assert [change.outcome for change in reconciler.reconcile()] == [Outcome.READY]
    assert [number for number, _ in plant.versions()] == [2]


def test_process_that_a_finished_script_left_behind_ends_after_the_stop_deadline(plant: DoublesPlant) -> None:
    plant.deploy("leaves-child", "batch")
    reconciler = plant.reconciler()
    reconciler.reconcile()
    plant.until(lambda: reconciler.status()[0].state is DriverState.COMPLETED)
    assert reconciler.reconcile() == () and plant.live()
    late = datetime.now(UTC) + timedelta(seconds=plant.spec.stop_deadline_s + 1)
    assert [change.outcome for change in plant.reconciler(clock=lambda: late).reconcile()] == [Outcome.FINISHED]
    assert plant.live() == ()


def test_finished_script_is_not_run_again_after_it_was_paused_detached_and_attached(plant: DoublesPlant) -> None:
    first = plant.deploy("batch")
    plant.reconciler().reconcile()
    _ended(plant)
    plan = ContingencyPlan("d", (Contingency(NAME, 2, 10.0, 1.0),))
    plant.deployments.commit(replace(first.with_plan(plan), author=BY_DECISION), 1)
    tables = ControlTables(plant.lake)
    assert withdraw_plan(tables.deployments, NAME, "ada") is not None
    detach(tables, NAME, "ada")
    assert attach(tables, NAME, "ada").version == 5
    assert [change.outcome for change in plant.reconciler().reconcile()] == [Outcome.FINISHED]
    assert plant.live() == ()


def test_start_that_fails_after_it_was_left_alone_has_one_entry(plant: DoublesPlant) -> None:
    go = plant.root / "go"
    plant.deploy("slow-import-error", str(go))
    reconciler = plant.reconciler()
    assert [change.outcome for change in reconciler.reconcile(patience_s=0)] == [Outcome.OPEN]
    go.touch()
    _ended(plant)
    assert [change.outcome for change in reconciler.reconcile()] == [Outcome.FAILED]
    (entry,) = plant.history()
    assert (entry.outcome, entry.error) == (Outcome.FAILED, "ModuleNotFoundError: No module named 'nowhere'")


def test_problem_of_a_failed_driver_is_the_same_before_and_after_it_is_recorded(plant: DoublesPlant) -> None:
    plant.deploy("throws", "3")
    reconciler = plant.reconciler()
    reconciler.reconcile()
    _ended(plant)
    log = plant.root / "log" / f"driver-{NAME}-{NAME}-1.log"
    before = reconciler.problem()
    due = reconciler.status()[0].since + timedelta(seconds=10)
    assert before.startswith("p does not run: its driver failed: ValueError: poison. Next try at ")
    assert f"{due + timedelta(microseconds=-due.microsecond % 1_000_000):%H:%M:%S} UTC" in before
    assert before.endswith(f"Log: {log}")
    assert [change.outcome for change in reconciler.reconcile()] == [Outcome.FAILED]
    assert reconciler.problem() == before


def test_wake_names_a_pipeline_when_the_wait_of_its_driver_is_over(plant: DoublesPlant) -> None:
    plant.deploy("throws", "3")
    plant.reconciler().reconcile()
    wake = Wake(plant.root / "run", Lake(plant.root / "lake"))
    _ended(plant)
    failed = plant.reconciler().status()[0]
    assert failed.state is DriverState.FAILED
    assert wake.due(failed.since + timedelta(seconds=9)) == ()
    assert wake.due(failed.since + timedelta(seconds=11)) == (NAME,)
    assert wake.due(failed.since + timedelta(seconds=12)) == (), "it was named a moment ago"


def test_wake_names_a_pipeline_at_once_when_its_driver_was_killed(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    wake, now = Wake(plant.root / "run", Lake(plant.root / "lake")), datetime.now(UTC)
    assert wake.due(now) == ()
    plant.kill(plant.live()[0])
    assert wake.due(now) == (NAME,)


def test_wake_leaves_a_stopped_pipeline_alone(plant: DoublesPlant) -> None:
    plant.deploy("throws", "3")
    plant.reconciler().reconcile()
    _ended(plant)
    plant.deploy(running=False)
    assert Wake(plant.root / "run", Lake(plant.root / "lake")).due(datetime.now(UTC) + timedelta(hours=1)) == ()
