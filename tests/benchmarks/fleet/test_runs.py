"""When a fleet counts as running: each stream on the node of the newest version, told by a live driver."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.fleet.methods import FIXED, spec_for
from benchmarks.fleet.runs import all_run, copies_of, first_deployment
from millrace.environment.home import Home
from millrace.fleet import status
from millrace.fleet.status import NodeStatus, StreamStatus
from millrace.fleet.streams import Phase
from millrace.model.deployment import AppDeployment, Deployment
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState
from millrace.run_folder.process import ProcessId

NOW = datetime.now(UTC)
APP = AppDeployment("s.py", (), 2, 1024, 2)


@pytest.fixture
def fleet(tmp_path: Path) -> Any:
    """A fleet of two nodes at version 3; the test is the live driver of both."""
    latest = Deployment("p", 3, True, {"node0": APP, "node1": APP, "node2": APP}, ingest={"a": 0, "b": 1})
    made = SimpleNamespace(home=Home(tmp_path), latest=lambda: latest)
    for app, stream in (("node0", "a"), ("node1", "b")):
        record(made, app, 2, ProcessId.of(os.getpid()))
        tell(made, app, 2, 3, (stream, Phase.RUNNING))
    return made


def record(fleet: Any, app: str, generation: int, process: ProcessId) -> None:
    known = process.pid, process.started, DriverState.RUNNING, NOW
    ids = {"boot_id": process.boot_id, "start_ticks": process.start_ticks}
    driver_records.write(fleet.home.run / "drivers", DriverRecord("p", app, generation, 1, 2, *known, **ids))


def tell(fleet: Any, app: str, generation: int, version: int, *streams: tuple[str, Phase]) -> None:
    told = tuple(StreamStatus(name, phase, NOW) for name, phase in streams)
    status.write(fleet.home.run / "drivers", "p", app, NodeStatus(generation, version, told))


def test_streams_run_if_live_drivers_say_so(fleet: Any) -> None:
    assert all_run(fleet, ["a", "b"])
    assert not all_run(fleet, ["a", "b", "c"]), "a stream without a node does not run"


@pytest.mark.parametrize(
    ("generation", "version", "phase"),
    [(1, 3, Phase.RUNNING), (2, 2, Phase.RUNNING), (2, 3, Phase.STARTING), (2, 3, Phase.BLOCKED)],
    ids=["former driver", "former version", "starting", "waiting for the lock"],
)
def test_stream_does_not_run_until_its_node_follows(fleet: Any, generation: int, version: int, phase: Phase) -> None:
    tell(fleet, "node1", generation, version, ("b", phase))
    assert not all_run(fleet, ["a", "b"])


def test_stream_on_the_wrong_node_does_not_run(fleet: Any) -> None:
    tell(fleet, "node0", 2, 3, ("a", Phase.RUNNING), ("b", Phase.RUNNING))
    tell(fleet, "node1", 2, 3)
    assert not all_run(fleet, ["a", "b"])


def test_what_a_killed_driver_said_does_not_count(fleet: Any) -> None:
    gone = ProcessId(os.getpid(), 1.0, "another boot", 1)
    record(fleet, "node1", 2, gone)
    assert not all_run(fleet, ["a", "b"])


def test_first_version_starts_each_stream_at_its_node(tmp_path: Path) -> None:
    node = np.array([0, 1, 1])
    first = first_deployment(spec_for(tmp_path, FIXED, node, 15.0), ["x", "y", "z"], node)
    assert dict(first.ingest) == {"x": 0, "y": 1, "z": 1} and len(first.apps) == 2
    assert [copy.sink.name for copy in copies_of(tmp_path, ["x", "y"])] == ["x", "y"]
