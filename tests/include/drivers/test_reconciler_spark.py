"""The reconciler with real drivers on a real stream: no row is lost or duplicated, whatever is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from millrace.drivers.reconciler import Reconciler
from millrace.environment.spark_env import submit_options
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.source_tables import SourceTable, query
from millrace.lake.store import Lake
from millrace.model.decision import Outcome
from millrace.model.deployment import Deployment
from millrace.model.master import LOCAL
from millrace.model.spec import PipelineSpec
from millrace.model.spec_sections import Submit
from millrace.run_folder import rescale_record
from millrace.run_folder.discovery import LiveDriver, find, python_driver
from millrace.run_folder.driver_records import DriverState
from millrace.run_folder.rescale_record import copy_of
from tests.jobs.driving import SCRIPTS, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
KILLED = Path(__file__).with_name("killed_spark_reconciler.py")
NAME = "windows"
START = datetime(2013, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("x", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
ROWS, EVERY_S = 20, 0.3
STATE = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = {"spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider"}


class Feed(threading.Thread):
    """Appends numbered rows, one second of event time per commit, until stopped."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._table = SourceTable(path, SCHEMA, "numbers")
        self._ended = threading.Event()
        self._commits = 0
        self.append(0)

    def append(self, later_s: int) -> None:
        first, time_ = self._commits * ROWS, START + timedelta(seconds=self._commits + later_s)
        rows = pa.table({"x": list(range(first, first + ROWS)), "time": [time_] * ROWS}, schema=SCHEMA)
        self._table.append(rows, 2, "feed", self._commits)
        self._commits += 1

    def run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.append(0)

    def end(self) -> None:
        """Stop, and close every window that holds a numbered row."""
        self._ended.set()
        self.join()
        self.append(3600)


class Plant:
    """The pipeline under test in one folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.results = root, root / "results"
        args = (str(root / "source"), str(self.results), str(root / "checkpoint"))
        self.spec = PipelineSpec(
            name=NAME,
            script=str(SCRIPTS / "windows.py"),
            args=args,
            submit=Submit(master=LOCAL),
            max_parallelism=2,
            ready_deadline_s=240.0,
            stop_deadline_s=120.0,
        )
        self.deployments = DeploymentStore(Lake(root / "lake"))

    def reconciler(self) -> Reconciler:
        return Reconciler(
            self.spec, ControlTables(Lake(self.root / "lake")), self.root / "run", self.root / "log", submit_options()
        )

    def deploy(self, slots: int = 1, running: bool = True, partitions: int = 2, **conf: str) -> Deployment:
        content, latest = self.spec.first_deployment(), self.deployments.latest(NAME)
        submit = Submit(master=LOCAL, conf=conf).model_dump(mode="json")
        app = replace(content.apps[NAME], slots=slots, max_parallelism=partitions, submit=submit)
        content = replace(content, apps={NAME: app}, running=running)
        return self.deployments.commit(content, None if latest is None else latest.version)

    def live(self) -> tuple[LiveDriver, ...]:
        return find(self.root / "run", NAME)

    def logs(self) -> str:
        return "\n".join(f"{f.name}\n{f.read_text()[-2000:]}" for f in sorted((self.root / "log").glob("*")))


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    made = Plant(tmp_path)
    yield made
    for driver in made.live():
        for process in driver.processes:
            process.signal(signal.SIGKILL)


def _killed_at(plant: Plant, stage: tuple[str, str, str]) -> None:
    argv = [sys.executable, str(KILLED), str(plant.root), *stage]
    assert subprocess.run(argv).returncode == -signal.SIGKILL


@pytest.mark.platform
def test_results_after_kills_at_any_point_match_a_batch(plant: Plant) -> None:
    feed = Feed(plant.root / "source")
    feed.start()
    plant.deploy()
    (first,) = plant.reconciler().reconcile()
    assert first.outcome is Outcome.READY, plant.logs()

    # an undisturbed hand-over
    plant.deploy(slots=2)
    (change,) = plant.reconciler().reconcile()
    assert (change.outcome, change.from_version, change.to_version) == (Outcome.READY, 1, 2), plant.logs()
    assert change.downtime_s is not None and change.downtime_s > 0
    assert [d.arguments.version for d in plant.live()] == [2]

    # the driver's Python is killed, its JVM has not noticed yet: an evaluation restarts exactly one
    python = python_driver(plant.reconciler().status()[0])
    assert python is not None and python.signal(signal.SIGKILL)
    until(lambda: not python.alive(), "its Python is dead")
    (healed,) = plant.reconciler().reconcile()
    assert (healed.outcome, healed.to_version) == (Outcome.READY, 2), plant.logs()
    assert len(plant.live()) == 1

    # the reconciler is killed in the middle of a hand-over: the next one repairs the rest
    owner = "millrace.drivers.handover:HandOver"
    for slots, stage in enumerate([(owner, "await_gate", "before"), (owner, "end", "after")], start=3):
        version = plant.deploy(slots=slots).version
        _killed_at(plant, stage)
        plant.reconciler().reconcile()
        assert [d.arguments.version for d in plant.live()] == [version], plant.logs()
        assert plant.reconciler().reconcile() == ()

    feed.end()
    expected = _batch(plant)
    until(lambda: len(_stream(plant)) >= len(expected), "all windows are closed")
    plant.deploy(running=False)
    (stopped,) = plant.reconciler().reconcile()
    assert stopped.outcome is Outcome.STOPPED and plant.live() == ()
    assert _stream(plant) == expected
    history = ReconfigurationStore(Lake(plant.root / "lake")).recent(NAME)
    assert Outcome.OPEN not in [entry.outcome for entry in history]


def test_results_over_killed_state_partition_changes_match_a_batch(plant: Plant) -> None:
    feed, run = Feed(plant.root / "source"), plant.root / "run" / NAME / NAME
    feed.start()
    plant.deploy(**ROCKSDB)
    plant.reconciler().reconcile()
    until(lambda: plant.reconciler().status()[0].checkpoints, "its checkpoint is known")

    # the reconciler is killed, and its job continues
    plant.deploy(partitions=5, **ROCKSDB)
    _killed_at(plant, ("millrace.drivers.launcher:Launcher", "rescale", "after"))
    (change,) = [c for c in plant.reconciler().reconcile() if c.outcome is Outcome.READY]
    assert change.to_version == 2, plant.logs()
    until(lambda: plant.reconciler().status()[0].checkpoints, "the first batch over 5 partitions")
    assert [c.partitions for c in plant.reconciler().status()[0].checkpoints] == [5]
    copy = Path(copy_of(str(plant.root / "checkpoint")))
    assert copy.exists()
    assert plant.reconciler().reconcile() == () and not copy.exists()

    # the job is killed too: the change is rolled back
    plant.deploy(partitions=3, **ROCKSDB)
    _killed_at(plant, ("millrace.drivers.launcher:Launcher", "rescale", "after"))
    until(copy.exists, "the job copies")
    for process in rescale_record.running(run):
        process.signal(signal.SIGKILL)
    plant.reconciler().reconcile()
    until(lambda: plant.reconciler().status()[0].checkpoints, "the next batch")
    newest = plant.deployments.latest(NAME)
    assert newest is not None and newest.apps[NAME].max_parallelism == 5, plant.logs()
    assert [c.partitions for c in plant.reconciler().status()[0].checkpoints] == [5]
    assert "its state stays in 5 partitions" in newest.reason
    assert not copy.exists()

    feed.end()
    expected = _batch(plant)
    until(lambda: len(_stream(plant)) >= len(expected), "all windows are closed")
    plant.deploy(running=False)
    plant.reconciler().reconcile()
    assert _stream(plant) == expected


@pytest.mark.slow
def test_hand_over_with_an_idle_source_makes_the_successor_ready(plant: Plant) -> None:
    Feed(plant.root / "source")
    plant.deploy()
    plant.reconciler().reconcile()
    until(lambda: plant.reconciler().status()[0].last_commit_at, "the first commit")
    time.sleep(2)  # idle for longer than the time from which the hand-over's gap is measured
    plant.deploy(slots=2)
    (change,) = plant.reconciler().reconcile()
    assert change.outcome is Outcome.READY, plant.logs()
    (record,) = plant.reconciler().status()
    assert (record.version, record.state, record.last_commit_at) == (2, DriverState.RUNNING, None)


def _batch(plant: Plant) -> list[tuple[datetime, int, int]]:
    rows = query("select x, time from source", source=plant.root / "source").to_pylist()
    windows: dict[datetime, list[int]] = {}
    for row in rows:
        second = int((row["time"] - START).total_seconds())
        windows.setdefault(START + timedelta(seconds=second - second % 10), []).append(row["x"])
    closed = sorted(windows)[:-1]  # the last one only closes the others
    return [(start, len(windows[start]), sum(windows[start])) for start in closed]


def _stream(plant: Plant) -> list[tuple[datetime, int, int]]:
    rows = query('select "start", n, total from results order by "start"', results=plant.results).to_pylist()
    return [(row["start"], row["n"], row["total"]) for row in rows]
