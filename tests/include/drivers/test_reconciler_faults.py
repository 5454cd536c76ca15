"""Faults that kill a running pipeline, applied to real processes: it runs again, or says why it does not."""

from __future__ import annotations

import errno
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from millrace.model.decision import Outcome
from millrace.model.errors import MillraceError
from millrace.run_folder import generation
from millrace.run_folder.driver_records import DriverState
from tests.include.drivers.plant_of_doubles import NAME, DoublesPlant


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[DoublesPlant]:
    made = DoublesPlant(tmp_path)
    yield made
    made.close()


def test_first_batch_that_works_past_the_deadline_is_never_cut(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    done = plant.root / "done"
    plant.deploy("slow", str(done), slots=2)
    (change,) = plant.reconciler().reconcile(patience_s=0.0)
    assert (change.outcome, change.to_version) == (Outcome.OPEN, 2)
    plant.until(lambda: plant.reconciler().status()[0].state is DriverState.WAITING)
    plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 2.0})
    began = time.monotonic()
    (change,) = plant.reconciler().reconcile(patience_s=4.0)
    assert (change.outcome, change.to_version) == (Outcome.OPEN, 2)
    assert time.monotonic() - began > 3
    plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 240.0})
    assert plant.reconciler().problem() is None  # it is on its way
    assert plant.versions() == [(2, 2)]
    done.touch()
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.generation) == (Outcome.READY, 2)
    assert plant.versions() == [(2, 2)]


def test_new_content_is_not_blamed_if_the_old_one_fails_too(
    plant: DoublesPlant,
) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 1.0})
    hang = plant.root / "hang"
    plant.deploy("mute-if", str(hang), slots=2)
    # from now on no driver becomes ready
    hang.touch()
    plant.rows.unlink()
    plant.rows.mkdir()
    now = [datetime.now(UTC)]
    reconciler = plant.reconciler(clock=lambda: now[0])
    outcomes = [change.outcome for change in reconciler.reconcile()]
    assert outcomes[0] is Outcome.ROLLED_BACK and Outcome.READY not in outcomes
    plant.rows.rmdir()
    hang.unlink()
    plant.deploy("mute-if", str(hang), slots=2, author="decision")
    plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 60.0})  # a loaded machine may start it slowly
    again = plant.reconciler(clock=lambda: now[0])
    assert [change.outcome for change in again.reconcile()] == [Outcome.READY]


def test_roll_back_takes_only_the_slots_left_by_the_quota(
    plant: DoublesPlant,
) -> None:
    plant.deploy(slots=4)
    plant.reconciler().reconcile()
    plant.deploy("import-error", slots=2)
    other = replace(plant.spec.first_deployment(), pipeline="other")
    app = replace(other.apps[NAME], slots=3)
    plant.deployments.commit(replace(other, apps={"other": app}), None)
    limits = plant.spec.guards.model_copy(update={"max_total_slots": 6})
    plant.spec = plant.spec.model_copy(update={"guards": limits})
    plant.reconciler().reconcile()
    latest = plant.deployments.latest(NAME)
    assert (latest.author, latest.apps[NAME].args, latest.apps[NAME].slots) == ("reconciler", (str(plant.rows),), 3)
    assert plant.versions()[0][1] == latest.version


def test_driver_that_hangs_is_killed_and_restarted(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    (driver,) = plant.live()
    for process in driver.processes:
        process.signal(signal.SIGSTOP)
    plant.spec = plant.spec.model_copy(update={"hang_deadline_s": 2.0})
    plant.until(lambda: driver.still_s(plant.reconciler().status()[0]) > 2)
    hung, healed = plant.reconciler().reconcile()
    assert (hung.outcome, hung.generation) == (Outcome.FAILED, 1) and "hung: no progress for" in hung.error
    assert (healed.outcome, healed.generation, healed.to_version) == (Outcome.READY, 2, 1)
    assert plant.versions() == [(2, 1)] and not driver.alive()
    committed = plant.committed()
    assert committed == list(range(1, len(committed) + 1))


def test_driver_that_makes_progress_is_not_taken_for_hung(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.spec = plant.spec.model_copy(update={"hang_deadline_s": 1.5})
    before = len(plant.committed())
    plant.until(lambda: len(plant.committed()) > before + 300)
    assert plant.reconciler().reconcile() == () and plant.versions() == [(1, 1)]


@pytest.mark.parametrize("step_s", [-3600, 2, 3600])
def test_driver_is_left_alone_if_the_wall_clock_is_stepped(
    plant: DoublesPlant, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    true_start = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: true_start(process) + step_s)
    reconciler = plant.reconciler(clock=lambda: datetime.now(UTC) + timedelta(seconds=step_s))
    assert reconciler.reconcile() == ()
    assert plant.versions() == [(1, 1)] and reconciler.problem() is None


def test_driver_that_still_runs_is_not_recorded_as_stopped(
    plant: DoublesPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millrace.drivers.handover import HandOver

    plant.deploy()
    plant.reconciler().reconcile()
    plant.deploy(running=False)
    with monkeypatch.context() as unkillable:
        unkillable.setattr(HandOver, "end", lambda hand_over, drivers: None)
        assert [change.outcome for change in plant.reconciler().reconcile()] == [Outcome.OPEN]
        assert "was stopped, but its driver still runs (pid" in plant.reconciler().problem()
    assert [change.outcome for change in plant.reconciler().reconcile()] == [Outcome.STOPPED]
    assert plant.live() == () and plant.reconciler().problem() is None


def test_driver_that_serves_survives_a_lost_run_folder(plant: DoublesPlant) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    shutil.rmtree(plant.root / "run")
    plant.reconciler().reconcile()
    assert plant.versions() == [(1, 1)]
    plant.deploy(slots=2)
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.generation) == (Outcome.READY, 2)
    assert plant.versions() == [(2, 2)]
    committed = plant.committed()
    assert committed == list(range(1, len(committed) + 1))


def test_generations_continue_above_the_lakes_without_a_run_folder(
    plant: DoublesPlant,
) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.kill(plant.live()[0])
    plant.reconciler().reconcile()
    plant.kill(plant.live()[0])
    shutil.rmtree(plant.root / "run")
    # a driver has written telemetry with a generation that has no entry any more
    plant.lake.append("telemetry/batches", [], {generation.fence(NAME, NAME): 7})
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.generation) == (Outcome.READY, 8)
    assert plant.versions() == [(8, 1)]


def test_problem_says_when_a_killed_driver_is_restarted(plant: DoublesPlant) -> None:
    plant.deploy()
    reconciler = plant.reconciler()
    reconciler.reconcile()
    assert reconciler.problem() is None and reconciler.running()
    plant.kill(plant.live()[0])
    assert (
        "does not run: its driver was killed. A restart is due now." in reconciler.problem()
        and not reconciler.running()
    )
    reconciler.reconcile()
    plant.kill(plant.live()[0])
    assert reconciler.reconcile() == ()
    assert "its driver was killed. Next try at" in reconciler.problem()
    assert reconciler.status()[0].state is DriverState.FAILED


def _stale(name: str) -> Callable[[Path], bytes]:
    """Return a way to read files in which files of this name are unreadable, as on a network drive for a moment."""
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == name:
            raise OSError(errno.ESTALE, "Stale file handle")
        return read_bytes(path)

    return read


def test_driver_with_a_briefly_unreadable_record_keeps_running(
    plant: DoublesPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.deploy()
    plant.reconciler().reconcile()
    plant.spec = plant.spec.model_copy(update={"ready_deadline_s": 0.01})  # it is much older
    with monkeypatch.context() as drive:
        drive.setattr(Path, "read_bytes", _stale("generation-1.json"))
        with pytest.raises(MillraceError, match="Stale file handle"):
            plant.reconciler().reconcile()
        assert "The state of its drivers is unknown: run folder" in plant.reconciler().problem()
    assert plant.versions() == [(1, 1)] and len(plant.history()) == 1
    assert plant.reconciler().reconcile() == () and plant.reconciler().problem() is None


@pytest.mark.parametrize(
    ("behaviour", "file", "outcomes"),
    [("batch", "generation-1.json", [Outcome.FINISHED]), ("throws", "trouble.json", [])],
)
def test_ended_driver_is_not_restarted_or_counted_again_while_a_file_is_unreadable(
    plant: DoublesPlant, monkeypatch: pytest.MonkeyPatch, behaviour: str, file: str, outcomes: list[Outcome]
) -> None:
    plant.deploy(behaviour, "3")
    plant.reconciler().reconcile()
    plant.until(lambda: not plant.live())
    now = datetime.now(UTC)
    reconciler = plant.reconciler(clock=lambda: now)
    if behaviour == "throws":
        assert [change.outcome for change in reconciler.reconcile()] == [Outcome.FAILED]
    with monkeypatch.context() as drive:
        drive.setattr(Path, "read_bytes", _stale(file))
        with pytest.raises(MillraceError, match="Stale file handle"):
            reconciler.reconcile()
    assert [change.outcome for change in reconciler.reconcile()] == outcomes
    assert plant.live() == () and {change.generation for change in plant.history()} <= {None, 1}


def test_restart_that_is_noticed_late_ended_when_its_driver_was_ready(plant: DoublesPlant) -> None:
    done, late = plant.root / "done", timedelta(seconds=50)
    plant.deploy("slow", str(done))
    (change,) = plant.reconciler().reconcile(patience_s=0.0)
    assert change.outcome is Outcome.OPEN
    done.touch()
    plant.until(lambda: any(record.ready_at for record in plant.reconciler().status()))
    (change,) = plant.reconciler(clock=lambda: datetime.now(UTC) + late).reconcile()
    assert change.outcome is Outcome.READY
    assert change.ended == plant.reconciler().status()[0].ready_at
