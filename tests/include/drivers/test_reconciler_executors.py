"""A change of executors: the driver makes it while running, and the reconciler waits for its report."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from millrace.lake.reconfigurations import MOST_RECENT, ReconfigurationStore
from millrace.model.decision import Outcome
from millrace.model.deployment import ExecutorSize
from tests.include.drivers.plant_of_doubles import DoublesPlant

SIZE = ExecutorSize(1, 512)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[DoublesPlant]:
    plant = DoublesPlant(tmp_path)
    yield plant
    plant.close()


def test_change_of_executors_leaves_the_driver_running(plant: DoublesPlant) -> None:
    plant.deploy("elastic", executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy("elastic", slots=3, executor=SIZE)
    (change,) = plant.reconciler().reconcile()
    assert (change.tier, change.outcome, change.from_version, change.to_version) == ("T1", Outcome.READY, 1, 2)
    assert (change.generation, change.downtime_s) == (1, 0.0)
    assert plant.versions() == [(1, 1)]
    (record,) = plant.reconciler().status()
    assert (record.version, record.slots) == (2, 3)
    assert plant.reconciler().reconcile() == ()
    assert plant.reconciler().problem() is None


def test_change_is_on_record_however_often_another_app_has_changed(plant: DoublesPlant) -> None:
    plant.deploy("elastic", executor=SIZE)
    (first,) = plant.reconciler().reconcile()
    for number in range(MOST_RECENT):
        at = first.started + timedelta(milliseconds=number)
        ReconfigurationStore(plant.lake).record(replace(first, app="other", to_version=2, started=at))
    plant.deploy("elastic", slots=3, executor=SIZE)
    (change,) = plant.reconciler().reconcile()
    assert (change.tier, change.outcome, change.from_version, change.to_version) == ("T1", Outcome.READY, 1, 2)


def test_change_of_executors_and_script_arguments_starts_a_driver(plant: DoublesPlant) -> None:
    plant.deploy("elastic", executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy("elastic", "other", slots=3, executor=SIZE)
    (change,) = plant.reconciler().reconcile()
    assert (change.tier, change.outcome, change.generation) == ("T2", Outcome.READY, 2)
    assert plant.versions() == [(2, 2)]


def test_change_without_executors_starts_a_driver(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(slots=3)
    (change,) = plant.reconciler().reconcile()
    assert (change.tier, change.generation) == ("T2", 2)


def test_executors_that_do_not_arrive_fail_once_and_the_query_continues(plant: DoublesPlant) -> None:
    plant.deploy(executor=SIZE)  # a driver that does not follow
    plant.reconciler().reconcile()
    plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 0.5})
    plant.deploy(slots=8, executor=SIZE)
    changes = plant.reconciler().reconcile()
    assert [(c.tier, c.outcome) for c in changes] == [("T1", Outcome.FAILED)]
    assert changes[0].error is not None and "did not apply the change within 0.5 s" in changes[0].error
    assert plant.reconciler().reconcile() == ()
    assert plant.versions() == [(1, 1)]


def test_full_cluster_fails_a_change_and_reports_its_progress(plant: DoublesPlant) -> None:
    plant.deploy("elastic", "full", "3", executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy("elastic", "full", "3", slots=8, executor=SIZE)
    (change,) = plant.reconciler().reconcile()
    assert (change.tier, change.outcome) == ("T1", Outcome.FAILED)
    assert change.error == "3 of 8 slots: the cluster has no room for more executors"
    assert plant.reconciler().reconcile() == ()
    assert plant.versions() == [(1, 1)]
    plant.deploy("elastic", "full", "3", executor=SIZE)  # back to the slots of the last version that was reached
    (change,) = plant.reconciler().reconcile()
    assert (change.tier, change.outcome, change.to_version) == ("T1", Outcome.READY, 3)


def test_refusal_of_executors_is_passed_on(plant: DoublesPlant) -> None:
    plant.deploy("elastic", "full", "quota", "1", executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy("elastic", "full", "quota", "1", slots=3, executor=SIZE)
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.error) == (Outcome.FAILED, "1 of 3 slots: 1 of 3 pods exist: exceeded quota")


def test_pending_executors_are_waited_for_beyond_the_deadline(plant: DoublesPlant, tmp_path: Path) -> None:
    node = tmp_path / "a node has started"
    behaviour = ("elastic", "pending", str(node))
    plant.deploy(*behaviour, executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy(*behaviour, slots=3, executor=SIZE)
    plant.until(lambda: plant.reconciler().status()[0].awaits)
    plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 0.1})
    (change,) = plant.reconciler().reconcile(patience_s=0.5)
    assert (change.tier, change.outcome) == ("T1", Outcome.OPEN)
    node.touch()
    (change,) = plant.reconciler().reconcile(patience_s=60.0)
    assert (change.outcome, change.to_version) == (Outcome.READY, 2)


def test_driver_killed_while_its_executors_are_pending_fails_the_change(plant: DoublesPlant, tmp_path: Path) -> None:
    behaviour = ("elastic", "pending", str(tmp_path / "no node will start"))
    plant.deploy(*behaviour, executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy(*behaviour, slots=3, executor=SIZE)
    (change,) = plant.reconciler().reconcile(patience_s=0.5)
    assert (change.tier, change.outcome) == ("T1", Outcome.OPEN)
    plant.kill(plant.live()[0])
    assert [c.outcome for c in plant.reconciler().reconcile()] == [Outcome.READY]
    (change,) = (c for c in plant.history() if c.tier == "T1")
    assert (change.outcome, change.downtime_s) == (Outcome.FAILED, None)
    assert change.error == "the driver ended during the change"


def test_start_that_waits_for_its_executors_is_not_a_failure(plant: DoublesPlant, tmp_path: Path) -> None:
    node = tmp_path / "a node has started"
    plant.deploy("short", str(node), executor=SIZE)
    plant.reconciler().reconcile(patience_s=0.0)
    plant.until(lambda: (found := plant.reconciler().status()) and found[0].awaits)
    plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 0.1})
    (start,) = plant.reconciler().reconcile(patience_s=0.5)
    assert (start.outcome, start.error) == (Outcome.OPEN, None)
    node.touch()
    (start,) = plant.reconciler().reconcile(patience_s=60.0)
    assert (start.outcome, start.generation) == (Outcome.READY, 1)


def test_wait_for_executors_ends_with_the_caller_and_continues_later(plant: DoublesPlant) -> None:
    plant.deploy(executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy(slots=2, executor=SIZE)
    (change,) = plant.reconciler().reconcile(patience_s=0.0)
    assert (change.tier, change.outcome) == ("T1", Outcome.OPEN)
    plant.deploy("elastic", executor=SIZE)  # the driver's content again
    outcomes = [(c.tier, c.outcome) for c in plant.reconciler().reconcile()]
    assert outcomes[-1] == ("T2", Outcome.READY)
    assert not [e for e in plant.history() if e.outcome is Outcome.OPEN]


def test_newer_version_replaces_one_that_waits_for_executors(plant: DoublesPlant) -> None:
    plant.deploy("elastic", executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy("elastic", slots=2, executor=SIZE)
    plant.deploy("elastic", slots=5, executor=SIZE)
    (change,) = plant.reconciler().reconcile()
    assert (change.to_version, change.outcome) == (3, Outcome.READY)


def test_killed_elastic_driver_starts_with_the_newest_executors(plant: DoublesPlant) -> None:
    plant.deploy("elastic", executor=SIZE)
    plant.reconciler().reconcile()
    plant.deploy("elastic", slots=3, executor=SIZE)
    plant.reconciler().reconcile()
    plant.kill(plant.live()[0])
    changes = plant.reconciler().reconcile()
    assert [(c.tier, c.outcome) for c in changes] == [("T2", Outcome.READY)]
    (driver,) = plant.live()
    assert (driver.generation, driver.arguments.version, driver.arguments.slots) == (2, 2, 3)


def _keep_secret(plant: DoublesPlant, source: str) -> None:
    submit = plant.spec.submit.model_copy(update={"secrets": {"TOKEN": source}})
    plant.spec = plant.spec.model_copy(update={"submit": submit})


def test_printed_command_starts_a_driver_of_that_version(plant: DoublesPlant) -> None:
    file = plant.root / "the token"
    file.write_text("planted-9f2c\n")
    file.chmod(0o600)
    _keep_secret(plant, str(file))
    first = plant.deploy("elastic", slots=3, executor=SIZE)
    plant.deploy("elastic", slots=1, executor=SIZE)
    (command,) = plant.reconciler().commands(first)
    assert plant.live() == () and "planted" not in command
    driver = subprocess.Popen(command, shell=True, start_new_session=True)
    try:
        plant.until(plant.live)
        (live,) = plant.live()
        assert (live.generation, live.arguments.version, live.arguments.slots) == (1, 1, 3)
        process = psutil.Process(live.processes[0].pid)
        plant.until(lambda: process.environ().get("TOKEN") == "planted-9f2c")
    finally:
        plant.kill(*plant.live())
        driver.wait()


def test_printed_command_asks_for_a_secret_that_airflow_keeps(plant: DoublesPlant) -> None:
    _keep_secret(plant, "airflow:variable/token")
    (command,) = plant.reconciler().commands(plant.deploy("elastic", executor=SIZE))
    assert command.startswith("# Set TOKEN to the value of airflow:variable/token first: ")
    ran = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert ran.returncode != 0 and "TOKEN" in ran.stderr and plant.live() == ()
