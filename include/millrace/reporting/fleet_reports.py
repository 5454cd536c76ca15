"""What the nodes of a fleet say about themselves: whether each runs, and the state of its streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from millrace.fleet import status
from millrace.fleet.status import StreamStatus
from millrace.model.deployment import Deployment, node_name
from millrace.model.errors import MillraceError
from millrace.reporting.app_views import NOT_NEEDED
from millrace.run_folder import driver_records
from millrace.run_folder.discovery import python_driver
from millrace.run_folder.driver_records import ENDED, DriverRecord, DriverState

ASKED_TO_END = (DriverState.STOPPED, DriverState.COMPLETED)


class NodeState(StrEnum):
    """State of a node."""

    RUNNING = "running"
    STARTING = "starting"
    STOPPING = "stopping"
    DOWN = "down"
    STANDBY = NOT_NEEDED
    STOPPED = "stopped"


@dataclass(frozen=True)
class NodeReport:
    """What is known of a node.

    Attributes:
        state: Its state.
        streams: Its streams by name, including those that it still has to stop; empty if its driver is gone.
        problem: Why its streams cannot be read; empty if they can.
    """

    state: NodeState
    streams: Mapping[str, StreamStatus]
    problem: str = ""


def nodes_of(deployed: Deployment) -> tuple[str, ...]:
    """Return the names of a fleet's nodes; a stream's node is its place in this order."""
    return tuple(name for name in map(node_name, range(len(deployed.apps))) if name in deployed.apps)


def node_reports(run_dir: Path, deployed: Deployment, *, processes_here: bool = True) -> dict[str, NodeReport]:
    """Return what is known of each node, in the order of their numbers.

    Args:
        run_dir: Folder of the drivers' records.
        deployed: The newest Deployment of a fleet.
        processes_here: Whether the drivers are processes of this machine, so that a killed one is noticed. If a runner
            owns them, their records must do.
    """
    return {node: _report(run_dir, deployed, node, processes_here) for node in nodes_of(deployed)}


def _report(run_dir: Path, deployed: Deployment, node: str, processes_here: bool) -> NodeReport:
    records = driver_records.all_of(run_dir, deployed.pipeline, node)
    live = [record for record in records if record.state not in ENDED and (not processes_here or _alive(record))]
    state = _state(deployed, node, live[0] if live else None, records[0] if records else None)
    try:
        told = status.read(run_dir, deployed.pipeline, node)
    except MillraceError as error:
        return NodeReport(state, {}, str(error))
    valid = told is not None and any(record.generation == told.generation for record in live)
    return NodeReport(state, {stream.stream: stream for stream in told.streams} if told and valid else {})


def _alive(record: DriverRecord) -> bool:
    process = python_driver(record)
    return process is not None and process.alive()


def _state(deployed: Deployment, node: str, live: DriverRecord | None, last: DriverRecord | None) -> NodeState:
    """Return a node's state.

    Args:
        deployed: The newest Deployment.
        node: Its name.
        live: Record of its newest live driver; None without one.
        last: Record of its newest driver, live or not; None if it never had one.
    """
    wanted = deployed.wanted(node) is not None
    if live is not None:
        if not wanted or live.state is DriverState.STOPPING:
            return NodeState.STOPPING
        return NodeState.RUNNING if live.state is DriverState.RUNNING else NodeState.STARTING
    if wanted:  # a driver that ended as it was asked to is started by the next reconcile
        return NodeState.STARTING if last is None or last.state in ASKED_TO_END else NodeState.DOWN
    return NodeState.STANDBY if deployed.running else NodeState.STOPPED
