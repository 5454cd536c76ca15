"""The runner's drivers end with it if a container's end would kill them, and run again with the next runner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.store import Lake
from millrace.model.decision import Outcome
from millrace.pipelines.catalog import find as find_spec
from millrace.run_folder.discovery import find
from millrace.run_folder.driver_records import DriverRecord, DriverState, all_of
from tests.airflow_home import ROOT
from tests.jobs.driving import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def home(millrace_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MILLRACE_RUNNER", raising=False)
    DeploymentStore(Lake(millrace_home / "lake")).commit(find_spec("tiny").first_deployment(), None)
    return millrace_home


def newest(home: Path) -> DriverRecord | None:
    return next(iter(all_of(home / "run" / "drivers", "tiny", "tiny")), None)


def serves(home: Path, generation: int) -> Callable[[], bool]:
    def check() -> bool:
        record = newest(home)
        return record is not None and record.generation == generation and record.ready_at is not None

    return check


@contextmanager
def runner(*options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A runner as the container starts it. When the block ends, it is asked to end as the container would."""
    process = subprocess.Popen(
        [sys.executable, "-m", "millrace.local.cli", "runner", *options], cwd=ROOT, env=os.environ
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()


def test_drivers_stop_with_the_runner_and_run_again_with_the_next(home: Path) -> None:
    with runner("--stop-drivers"):
        until(serves(home, 1), "the first driver")
    assert find(home / "run" / "drivers", "tiny") == ()
    record = newest(home)
    assert record is not None and record.state is DriverState.STOPPED
    with runner("--stop-drivers"):
        until(serves(home, 2), "the next driver")
    outcomes = [change.outcome for change in ReconfigurationStore(Lake(home / "lake")).recent("tiny")]
    assert Outcome.FAILED not in outcomes
