"""Users' scripts under Millrace: however they end, the driver ends properly."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from millrace.run_folder import lock
from millrace.run_folder.discovery import find
from millrace.run_folder.driver_records import DriverState, app_dir
from tests.jobs.driving import Driving, until

pytestmark = pytest.mark.spark


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., Driving]]:
    drivers: list[Driving] = []

    def start(*args: str, script: str = "endings.py", home: str = ".", **options: object) -> Driving:
        drivers.append(Driving(tmp_path / home, script, *args, str(tmp_path), **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.process.kill()
        driver.process.wait()


@pytest.mark.parametrize("ending", ["batch", "unawaited", "stops-session", "pool"])
def test_script_that_ends_by_itself_is_completed(drive, tmp_path: Path, ending: str) -> None:
    driver = drive(ending)
    assert driver.process.wait() == 0, driver.log.read_text()[-3000:]
    record = driver.record()
    assert record.state is DriverState.COMPLETED and record.error is None
    if ending == "batch":
        assert (tmp_path / "batch" / "_SUCCESS").exists() and record.ready_at is None
    else:
        assert (tmp_path / "batches").read_text() == "0\n"
        assert record.ready_at == record.last_commit_at is not None


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("import", "ModuleNotFoundError: No module named 'nowhere'"),
        ("throws", "ValueError: poison in batch 1"),
        ("loses-application", "the Spark application was stopped from outside the script, perhaps by its cluster"),
    ],
)
def test_failed_script_leaves_its_error_and_exit_code(drive, ending, error) -> None:
    driver = drive(ending)
    assert driver.process.wait() != 0
    record = driver.record()
    assert (record.state, record.error) == (DriverState.FAILED, error)
    assert "Traceback" in driver.log.read_text()
    assert (record.ready_at is None) == (ending == "import")


def test_process_that_a_script_started_ends_with_the_driver(drive, tmp_path: Path) -> None:
    driver = drive("leaves-child")
    assert driver.process.wait() == 0, driver.log.read_text()[-3000:]
    until(lambda: find(tmp_path / "run", "p") == (), "no process has the driver's command line")


def test_secret_is_in_the_drivers_environment_and_nowhere_else(drive, tmp_path: Path) -> None:
    file, planted = tmp_path.with_name(f"{tmp_path.name}-token"), "planted-9f2c"
    file.write_text(planted)
    file.chmod(0o600)
    driver = drive("runs", secrets={"TOKEN": str(file)})
    running = driver.until(lambda r: r.ready_at, "a first batch")
    processes = [psutil.Process(pid) for pid in (running.pid, driver.process.pid)]
    assert [process.environ()["TOKEN"] for process in processes] == [planted, planted]
    assert not any(planted in word for process in psutil.process_iter() for word in _words(process))
    os.kill(running.pid, signal.SIGTERM)
    assert driver.process.wait() == 0
    told = [path for path in tmp_path.rglob("*") if path.is_file() and planted.encode() in path.read_bytes()]
    assert told == []


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def test_stopped_driver_ends_between_batches_and_frees_the_app(drive, tmp_path: Path) -> None:
    driver = drive("runs")
    running = driver.until(lambda r: r.last_commit_at and r.ready_at, "a first batch")
    folder = app_dir(tmp_path / "run", "p", "a")
    assert set(lock.holders(folder)) == {running.pid, driver.process.pid}
    batches = tmp_path / "batches"
    until(lambda: (tmp_path / "begun").read_text() not in batches.read_text().split(), "the middle of a batch")
    os.kill(running.pid, signal.SIGTERM)
    assert driver.process.wait() == 0
    record = driver.record()
    assert record.state is DriverState.STOPPED and record.served_until == record.last_commit_at
    assert lock.holders(folder) == ()
    # every batch with completed work is committed: none was cut off
    commits = {int(f.name) for f in (tmp_path / "checkpoint" / "commits").iterdir() if f.name.isdigit()}
    assert commits == {int(n) for n in batches.read_text().split()}


def test_driver_stopped_in_its_warm_up_ends_without_a_query(drive, tmp_path: Path) -> None:
    holder = lock.AppLock(app_dir(tmp_path / "run", "p", "a"))
    assert holder.try_acquire()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    driver = drive("runs", env={"TMPDIR": str(scratch)})
    until(lambda: list(scratch.glob("millrace-warm-up-*")), "a warm-up")
    os.kill(driver.record().pid, signal.SIGTERM)
    assert driver.process.wait() == 0
    assert driver.record().state is DriverState.STOPPED
    assert not (tmp_path / "checkpoint").exists()
    holder.release()


def test_driver_ends_without_failure_when_its_jvm_is_killed(drive, tmp_path) -> None:
    driver = drive("runs")
    running = driver.until(lambda r: r.ready_at, "a first batch")
    driver.process.kill()
    until(lambda: lock.holders(app_dir(tmp_path / "run", "p", "a")) == (), "the app is free")
    assert driver.record().state is DriverState.RUNNING and driver.record().pid == running.pid


@pytest.mark.slow
def test_driver_of_another_home_on_the_same_checkpoint_fails_and_names_the_holder(drive, tmp_path: Path) -> None:
    first = drive("runs")
    running = first.until(lambda r: r.ready_at, "a first batch")
    checkpoint = tmp_path / "checkpoint"
    assert set(lock.holders(checkpoint, lock.CHECKPOINT)) == {running.pid, first.process.pid}
    second = drive("runs", home="other")
    assert second.process.wait() != 0
    error = second.record().error
    assert str(checkpoint) in error and f"The driver of p/a (pid {running.pid}, run folder {tmp_path / 'run'})" in error
    first.until(lambda r: r.last_commit_at > running.last_commit_at, "the first one goes on")
    os.kill(running.pid, signal.SIGKILL)
    first.process.kill()
    drive("runs", home="other").until(lambda r: r.ready_at, "a first batch of the other home")
