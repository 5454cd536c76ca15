"""Two nodes of a fleet: streams move while they run, and neither failures nor kills lose or repeat a row."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from millrace.drivers import submit
from millrace.environment.spark_env import submit_options
from millrace.fleet import status
from millrace.fleet.names import folder_of
from millrace.fleet.status import StreamStatus
from millrace.fleet.streams import Phase
from millrace.lake.deployments import DeploymentStore
from millrace.lake.source_tables import SourceTable
from millrace.lake.store import Lake
from millrace.model.codec import to_json
from millrace.model.deployment import AppDeployment, Deployment
from millrace.run_folder import driver_records
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.driver_records import DriverState, app_dir
from millrace.run_folder.generation import allot
from millrace.run_folder.lock import CHECKPOINT, holders
from tests.include.runtime.telemetry.arriving import ids
from tests.jobs.driving import SCRIPTS, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = SCRIPTS.parents[2] / "jobs" / "fleet_node.py"
SCHEMA = pa.schema([("id", pa.int64())])
ROWS = 10
FAIR = {"conf": {"spark.scheduler.mode": "FAIR"}}


class Nodes:
    """The drivers of a fleet, and the Deployments that they follow."""

    def __init__(self, root: Path) -> None:
        self.root, self.version = root, 0
        options = to_json({"root": str(root), "t": "a"})
        given = ("--script", str(SCRIPTS / "fleet.py"), "--checkpoints", f"{root}/checkpoints", "--options", options)
        self.app = AppDeployment(str(JOB), given, 2, 1024, 2, FAIR)
        self.store = DeploymentStore(Lake(root / "lake"))
        self.drivers: dict[str, tuple[int, subprocess.Popen[bytes]]] = {}

    def deploy(self, ingest: Mapping[str, int]) -> None:
        content = Deployment("p", 1, True, {"node0": self.app, "node1": self.app}, ingest=dict(ingest))
        self.version = self.store.commit(content, self.version or None).version

    def start(self, app: str) -> None:
        run = self.root / "run"
        number = allot(app_dir(run, "p", app))
        lake, limits = str(self.root / "lake"), (60.0, 120.0, 600.0)
        given = DriverArguments("p", app, number, 1, 2, 0, run, lake, *limits, JOB, self.app.args)
        log = self.root / f"{app}-{number}.log"
        self.drivers[app] = number, submit.start(submit_options(), self.app, given, log)

    def record(self, app: str) -> driver_records.DriverRecord:
        found = driver_records.read(self.root / "run", "p", app, self.drivers[app][0])
        assert found is not None
        return found

    def end(self, app: str, number: signal.Signals) -> None:
        """Signal the driver; a kill ends both of its processes."""
        process = self.drivers[app][1]
        os.kill(self.record(app).pid, number)
        if number is signal.SIGKILL:
            process.kill()
        process.wait()

    def stream(self, app: str, name: str) -> StreamStatus | None:
        """Return what the newest driver of a node says about a stream."""
        told = status.read(self.root / "run", "p", app)
        if told is None or told.generation != self.drivers[app][0]:
            return None
        return next((stream for stream in told.streams if stream.stream == name), None)

    def until(self, app: str, name: str, phase: Phase, failures: int = 0) -> StreamStatus:
        def reached() -> bool:
            told = self.stream(app, name)
            return told is not None and told.phase is phase and told.failures >= failures

        try:
            until(reached, f"{name} is {phase} on {app}")
        except AssertionError as error:
            log = self.root / f"{app}-{self.drivers[app][0]}.log"
            raise AssertionError(f"{error}\n{self.stream(app, name)}\n{log.read_text()[-5000:]}") from None
        told = self.stream(app, name)
        assert told is not None
        return told

    def batches(self, name: str) -> list[tuple[str, float]]:
        """Return the node and the time of each batch of a stream, oldest first."""
        sql = f"select app, time from batches where query = '{name}' and batch_id >= 0 order by time"
        rows = Lake(self.root / "lake").rows(sql, "telemetry/batches")
        return [(row["app"], row["time"].timestamp()) for row in rows]

    def move(self, ingest: Mapping[str, int], name: str, target: str) -> float:
        """Deploy, and return the gap between the last batch on the old node and the first on the new one, seconds."""
        before = len(self.batches(name))
        self.deploy(ingest)
        until(lambda: any(app == target for app, _ in self.batches(name)[before:]), f"a batch of {name} on {target}")
        told = self.batches(name)
        first = next(n for n, (app, _) in enumerate(told) if n >= before and app == target)
        return told[first][1] - told[first - 1][1]


@contextmanager
def feeding(root: Path, names: str) -> Iterator[dict[str, int]]:
    """Append rows to the tables of some streams; yield the number of rows of each."""
    tables = {name: SourceTable(root / "in" / name, SCHEMA, "test") for name in names}
    fed, stop = dict.fromkeys(names, 0), threading.Event()

    def feed() -> None:
        number = 0
        while not stop.wait(0.5):
            ids = pa.table({"id": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())})
            for name, table in tables.items():
                table.append(ids, 1, "feed", number)
                fed[name] += ROWS
            number += 1

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield fed
    finally:
        stop.set()
        feeder.join()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    for _, process in made.drivers.values():
        process.kill()
        process.wait()


def test_streams_move_between_nodes_and_survive_kills_exactly(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "broken-e").touch()
    placed = {"a": 0, "b": 0, "c": 1, "d": 1, "e": 0}
    nodes.deploy(placed)
    with feeding(tmp_path, "abcdet") as fed:
        nodes.start("node0")
        nodes.start("node1")
        for name in "abcd":
            nodes.until(f"node{placed[name]}", name, Phase.RUNNING)
        failed = nodes.until("node0", "e", Phase.FAILED, failures=2)
        assert failed.error == "ValueError: e is broken" and failed.retry_at is not None

        print("gap of a move, s:", nodes.move({**placed, "b": 1, "t": 0}, "b", "node1"), flush=True)
        assert "a sink that stream a does not write to" in nodes.until("node0", "t", Phase.FAILED).error
        (tmp_path / "broken-e").unlink()
        assert nodes.until("node0", "e", Phase.RUNNING).failures == 0

        (tmp_path / "held-b").touch()
        nodes.deploy(placed)
        waiting = nodes.until("node0", "b", Phase.BLOCKED)
        assert waiting.holder.startswith("p/node1 (pid ") and waiting.failures == 0
        nodes.end("node1", signal.SIGKILL)
        (tmp_path / "held-b").unlink()
        nodes.until("node0", "b", Phase.RUNNING)
        nodes.start("node1")
        for name in "cd":
            nodes.until("node1", name, Phase.RUNNING)
    for name in "abcde":
        until(lambda name=name: len(ids(tmp_path / "out" / name)) >= fed[name], f"all rows of {name}")
        assert ids(tmp_path / "out" / name) == list(range(fed[name])), f"rows of {name} are lost or repeated"
    for app in nodes.drivers:
        nodes.end(app, signal.SIGTERM)
        assert (nodes.record(app).state, nodes.record(app).error) == (DriverState.STOPPED, None)
    assert not any(holders(tmp_path / "checkpoints" / folder_of(name), CHECKPOINT) for name in "abcde")


def test_node_without_streams_is_ready_and_stops(nodes: Nodes) -> None:
    nodes.app = replace(nodes.app, memory_mb=512)
    nodes.deploy({})
    nodes.start("node0")
    until(lambda: (nodes.root / "run" / "p" / "node0" / "generation-1.json").exists(), "a record")
    until(lambda: nodes.record("node0").ready_at, "ready")
    nodes.end("node0", signal.SIGTERM)
    assert nodes.record("node0").state is DriverState.STOPPED
