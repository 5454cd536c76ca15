"""The state of a fleet's nodes, from the records of their drivers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.fleet.streams import Phase
from millrace.reporting.fleet_reports import NodeState, node_reports, nodes_of
from millrace.run_folder.driver_records import DriverState
from tests.include.reporting.fleets import at, deployed, drive


def test_nodes_are_in_the_order_of_their_numbers() -> None:
    fleet = deployed({}, nodes=12)
    stored = replace(fleet, apps=dict(sorted(fleet.apps.items())))
    assert list(stored.apps)[:3] == ["node0", "node1", "node10"]
    assert nodes_of(stored) == tuple(f"node{number}" for number in range(12))


@pytest.mark.parametrize(
    ("state", "alive", "node0", "node1"),
    [
        (None, True, NodeState.STARTING, NodeState.STANDBY),
        (DriverState.STARTING, True, NodeState.STARTING, NodeState.STOPPING),
        (DriverState.WAITING, True, NodeState.STARTING, NodeState.STOPPING),
        (DriverState.RUNNING, True, NodeState.RUNNING, NodeState.STOPPING),
        (DriverState.STOPPING, True, NodeState.STOPPING, NodeState.STOPPING),
        (DriverState.STOPPED, True, NodeState.STARTING, NodeState.STANDBY),
        (DriverState.FAILED, True, NodeState.DOWN, NodeState.STANDBY),
        (DriverState.RUNNING, False, NodeState.DOWN, NodeState.STANDBY),
    ],
)
def test_state_follows_the_newest_driver_and_whether_it_is_needed(
    tmp_path: Path, state: DriverState | None, alive: bool, node0: NodeState, node1: NodeState
) -> None:
    fleet = deployed({"a": 0}, nodes=2)
    for node in ("node0", "node1") if state else ():
        drive(tmp_path, node, state=state or DriverState.FAILED, alive=alive)
    found = node_reports(tmp_path, fleet)
    assert [report.state for report in found.values()] == [node0, node1]


def test_node_beyond_the_least_runs_while_a_stream_enters_at_it(tmp_path: Path) -> None:
    drive(tmp_path, "node1")
    assert node_reports(tmp_path, deployed({"a": 1}))["node1"].state is NodeState.RUNNING


def test_nodes_of_a_stopped_fleet_are_stopped(tmp_path: Path) -> None:
    drive(tmp_path, "node0", state=DriverState.STOPPED)
    found = node_reports(tmp_path, deployed({"a": 0}, running=False))
    assert {report.state for report in found.values()} == {NodeState.STOPPED}


def test_streams_of_a_driver_that_is_gone_are_not_shown(tmp_path: Path) -> None:
    fleet = deployed({"a": 0, "b": 1}, nodes=2)
    drive(tmp_path, "node0", at(Phase.RUNNING, "a"))
    drive(tmp_path, "node1", at(Phase.RUNNING, "b"), alive=False)
    assert [list(report.streams) for report in node_reports(tmp_path, fleet).values()] == [["a"], []]
    elsewhere = node_reports(tmp_path, fleet, processes_here=False)
    assert [list(report.streams) for report in elsewhere.values()] == [["a"], ["b"]], "a runner owns the drivers"
    drive(tmp_path, "node0", (), DriverState.STARTING, generation=2)
    drive(tmp_path, "node0", at(Phase.RUNNING, "a"), DriverState.STOPPED, generation=1)  # its successor reports later
    assert not node_reports(tmp_path, fleet)["node0"].streams


def test_unreadable_streams_are_a_problem_of_their_node(tmp_path: Path) -> None:
    drive(tmp_path, "node0", at(Phase.RUNNING, "a"))
    file = tmp_path / "ingest" / "node0" / "streams.json"
    file.unlink()
    file.mkdir()
    report = node_reports(tmp_path, deployed({"a": 0}))["node0"]
    assert report.state is NodeState.RUNNING and not report.streams and str(tmp_path) in report.problem
