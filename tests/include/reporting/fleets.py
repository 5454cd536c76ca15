"""Fleets for the tests: Deployments, plans, and what nodes report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from millrace.fleet import status
from millrace.fleet.status import NodeStatus, StreamStatus
from millrace.fleet.streams import Phase
from millrace.model.admission import INGEST_OPTIMIZER, AdmissionPlan
from millrace.model.decision import Action, Decision, Proposal
from millrace.model.deployment import AppDeployment, Deployment, node_name
from millrace.reporting.fleet_reports import NodeReport, NodeState
from millrace.run_folder import driver_records
from millrace.run_folder.driver_records import DriverRecord, DriverState
from millrace.run_folder.process import ProcessId

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CAPACITY = 1000.0


def deployed(ingest: Mapping[str, int], nodes: int = 3, always: int = 1, **fields: Any) -> Deployment:
    """A fleet of which the first nodes always run, and the others while a stream enters at them."""
    apps = {node_name(n): AppDeployment("node.py", (), 2, 1024, 8, standby=n >= always) for n in range(nodes)}
    return Deployment("ingest", fields.pop("version", 1), fields.pop("running", True), apps, ingest=ingest, **fields)


def planned(
    after: Mapping[str, int], came: Mapping[str, float], before: Mapping[str, int] | None = None, **fields: Any
) -> AdmissionPlan:
    """A plan for three nodes; each stream was forecast to bring a tenth more than came, and will bring as much."""
    streams, earlier = tuple(sorted(after)), after if before is None else before
    loads = [sum(came[s] for s in streams if after[s] == node) for node in range(3)]
    values: dict[str, Any] = {
        **{"method": "horizon", "since": NOW, "period_s": 30, "capacity": CAPACITY, "stream": streams},
        "nodes": tuple(map(node_name, range(3))),
        "before": tuple(earlier.get(s, -1) for s in streams),
        "after": tuple(after[s] for s in streams),
        "forecast": tuple(1.1 * came[s] for s in streams),
        "came": tuple(came[s] for s in streams),
        **{"total_forecast": (90.0, 120.0), "total_came": (100.0, 100.0), "error": 0.4, "total_error": 0.15},
        "loads": tuple((load,) * 16 for load in loads),
        **{"holds": 16, "least_nodes": 1, "optimal": False, "acts": True},
        **fields,
    }
    return AdmissionPlan(**values)


def decided(plan: AdmissionPlan, action: Action = Action.APPLY, sentence: str = "move them", **fields: Any) -> Decision:
    """The Decision on a plan."""
    proposal = Proposal(INGEST_OPTIMIZER, (), "streams_to_redirect", "redirect", admission=plan)
    return Decision("20260301T120000-1f3a9c04", "ingest", NOW, action, "r", sentence, proposals=(proposal,), **fields)


def at(phase: Phase, *streams: str, **fields: Any) -> tuple[StreamStatus, ...]:
    """Streams in a phase."""
    return tuple(StreamStatus(stream, phase, NOW, **fields) for stream in streams)


def reports(*nodes: Sequence[StreamStatus] | NodeState) -> dict[str, NodeReport]:
    """What nodes report: the streams of a running one, or the state of one without streams."""
    found = {}
    for number, node in enumerate(nodes):
        streams = () if isinstance(node, NodeState) else node
        state = node if isinstance(node, NodeState) else NodeState.RUNNING
        found[node_name(number)] = NodeReport(state, {stream.stream: stream for stream in streams})
    return found


def drive(
    run_dir: Path,
    node: str,
    streams: Sequence[StreamStatus] = (),
    state: DriverState = DriverState.RUNNING,
    *,
    generation: int = 1,
    alive: bool = True,
) -> None:
    """Write what a node's driver and its streams report; a live driver is this process."""
    process = ProcessId.of(os.getpid())
    record = DriverRecord("ingest", node, generation, 1, 2, process.pid, process.started, state, NOW)
    boot = process.boot_id if alive else "another boot"
    driver_records.write(run_dir, replace(record, boot_id=boot, start_ticks=process.start_ticks))
    status.write(run_dir, "ingest", node, NodeStatus(generation, 1, tuple(streams)))
