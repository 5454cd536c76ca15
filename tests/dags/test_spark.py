"""DAGs that start Spark: a pipeline's whole life, and its profile."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from millrace.lake.commit_follower import CommitFollower
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.run_folder.discovery import find
from tests.dags.runs import run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("airflow_db")]
PATIENCE_S = 600.0


@pytest.fixture
def lake(millrace_home: Path) -> Iterator[Lake]:
    yield Lake(millrace_home / "lake")
    for driver in find(millrace_home / "run" / "drivers", "tiny"):
        for process in driver.processes:
            process.signal(signal.SIGKILL)


def slots_running(home: Path) -> list[int]:
    return [driver.arguments.slots for driver in find(home / "run" / "drivers", "tiny")]


def test_pipeline_launched_resized_stopped_leaves_no_driver(lake: Lake, millrace_home: Path) -> None:
    assert run("launch_tiny")[0] == "success"
    assert slots_running(millrace_home) == [2]
    assert run("launch_tiny")[0] == "success"
    assert slots_running(millrace_home) == [2], "a second launch starts nothing"

    commits = CommitFollower(lake.log("telemetry/batches"), "tiny")
    deadline = time.monotonic() + PATIENCE_S
    commits.advance()
    while not commits.advance():
        assert time.monotonic() < deadline, "its telemetry is never seen as a commit of this pipeline"
        time.sleep(0.2)

    state, tasks = run("adapt_tiny", {"slots": 3})
    assert (state, tasks["apply"], tasks["ask"]) == ("success", "success", "skipped")
    assert slots_running(millrace_home) == [3]
    newest = DeploymentStore(lake).latest("tiny")
    assert newest is not None
    assert (newest.version, newest.author) == (2, "dag_test")
    assert run("reconcile")[0] == "success"
    assert slots_running(millrace_home) == [3]

    assert run("launch_tiny", {"running": False})[0] == "success"
    assert slots_running(millrace_home) == []


def test_profile_counts_streams(lake: Lake, millrace_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # spark-submit is found in the place that set-up uses, not on the test's PATH
    monkeypatch.setenv("PATH", os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if ".venv" not in p))
    noon = datetime(2013, 1, 1, 12, tzinfo=UTC)
    rows = {"time": [noon] * 6, "plane": ["n1", "n2"] * 3, "origin": ["JFK", "JFK", "LGA"] * 2}
    write_deltalake(str(millrace_home / "data" / "source"), pa.table(rows))
    assert run("profile_tiny") == ("success", {"profile": "success"})
    measured = lake.rows("select stream, sum(rows) as n from streams group by stream", "telemetry/streams")
    assert sum(row["n"] for row in measured) == 6
    assert len(measured) == 2
