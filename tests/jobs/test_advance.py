"""Real drivers: a slow batch reports progress, a frozen driver reports nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from millrace.run_folder.driver_records import DriverRecord
from tests.jobs.driving import Driving

pytestmark = pytest.mark.spark


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., Driving]]:
    drivers: list[Driving] = []

    def start(where: str, **options: object) -> Driving:
        drivers.append(Driving(tmp_path, "slow.py", where, str(tmp_path), **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.process.kill()
        driver.process.wait()


def _advances(driver: Driving, times: int) -> None:
    """Wait until the driver has reported progress this many times."""
    for _ in range(times):
        last = driver.record()
        assert last is not None and last.advanced_s is not None
        before = last.advanced_s
        driver.until(lambda r, before=before: r.advanced_s > before, "its work goes on")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["task", "sink"])
def test_driver_with_a_slow_first_batch_reports_progress(drive, tmp_path: Path, where: str) -> None:
    driver = drive(where)
    driver.until(lambda _: (tmp_path / "begun").exists(), "the first batch")
    _advances(driver, 4)
    assert driver.record().ready_at is None
    (tmp_path / "done").touch()
    driver.until(lambda r: r.ready_at is not None, "ready")
    _advances(driver, 2)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["python", "jvm"])
def test_driver_when_frozen_then_reports_nothing(drive, tmp_path: Path, victim: str) -> None:
    (tmp_path / "done").touch()
    driver = drive("task")
    ready: DriverRecord = driver.until(lambda r: r.ready_at is not None, "ready")
    process = psutil.Process(ready.pid)
    frozen = process if victim == "python" else process.parent()
    frozen.send_signal(signal.SIGSTOP)
    try:
        # a write that was in progress may still finish
        driver.until(lambda r: time.monotonic() - r.advanced_s > 10, "silence")
    finally:
        frozen.send_signal(signal.SIGCONT)
    _advances(driver, 2)
