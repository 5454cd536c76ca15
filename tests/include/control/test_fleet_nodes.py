"""Which nodes of a fleet get no stream, from what they reported and how their changes ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from millrace.control.fleet_nodes import RETRY, down_nodes
from millrace.control.fleet_rows import HEARTBEAT
from millrace.control.fleet_streams import fleet_counts
from millrace.control.launch import launch
from millrace.control.loop import ControlLoop
from millrace.control.messages import explain_change
from millrace.control.proposals import Proposals
from millrace.lake.control_tables import ControlTables
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.model.decision import RESTART, Action, Outcome, Reconfiguration
from millrace.model.deployment import Change
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import BatchMetrics
from millrace.optimizers.conformance.builders import app_signals, signals
from millrace.optimizers.registry import Role, create
from millrace.reporting.tracker import MlflowTracker
from tests.include.control.world import Clock, MemoryPlant, PassingGate

PATIENCE = timedelta(seconds=60)


class Seen(MemoryPlant):
    """Has measured something."""

    def __init__(self) -> None:
        """Need no lake."""

    def observe(self, since: Cursor) -> Signals:
        return signals(app_signals(2, 10.0, None))


@pytest.fixture
def tables(tmp_path: Path) -> ControlTables:
    lake = Lake(tmp_path / "lake")
    lake.create()
    return ControlTables(lake)


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    (tmp_path / "ingest.py").touch()
    streams, script = {"list": ["a", "b"]}, str(tmp_path / "ingest.py")
    fleet = {"script": script, "checkpoints": "/c", "streams": streams, "nodes": {"min": 1, "max": 3, "start": 2}}
    limits = {"ready_deadline_s": PATIENCE.total_seconds()}
    return PipelineSpec.model_validate({"name": "ingest", "fleet": {**fleet, "node": {"capacity": 100}}, **limits})


def test_node_is_down_if_it_is_needed_and_silent_for_longer_than_it_may_take_to_start(
    spec: PipelineSpec, tables: ControlTables
) -> None:
    launch(spec, tables)
    made = tables.deployments.committed_at("ingest", 1)
    assert made is not None
    assert down_nodes(spec, tables, (), made + PATIENCE) == ()
    late = made + 2 * PATIENCE
    assert down_nodes(spec, tables, (), late) == ("node0", "node1"), "node2 has no streams"
    seen = BatchMetrics("ingest", "node0", "a", late - PATIENCE / 2, 1, 0, 1, 2, 10)
    tables.lake.append("telemetry/batches", [batch_row(seen)])
    assert down_nodes(spec, tables, (), late) == ("node1",)
    current = tables.deployments.latest("ingest")
    assert current is not None
    tables.deployments.commit(replace(current, ingest={"a": 0, "b": 2}), current.version)
    moved = tables.deployments.committed_at("ingest", 2)
    assert moved is not None and moved < late
    assert down_nodes(spec, tables, (), moved + PATIENCE / 2) == (), "node2 may still start"


def test_node_whose_reports_are_not_due_yet_is_not_down(spec: PipelineSpec, tables: ControlTables) -> None:
    """Drivers write their reports three times per ``period_s``."""
    launch(spec, tables)
    made = tables.deployments.committed_at("ingest", 1)
    assert made is not None
    late = made + 100 * PATIENCE
    for node, ago in (("node0", PATIENCE / 10), ("node1", 5 * PATIENCE)):
        seen = BatchMetrics("ingest", node, HEARTBEAT, late - ago, 1, 0, 1, 2, 0)
        tables.lake.append("telemetry/batches", [batch_row(seen)])
    assert down_nodes(spec, tables, (), late) == ("node1",)
    rare = spec.model_copy(update={"period_s": 10 * PATIENCE.total_seconds()})
    assert down_nodes(rare, tables, (), late) == ()


def test_streams_leave_a_node_that_has_died_though_no_stream_reports(spec: PipelineSpec, tables: ControlTables) -> None:
    first = launch(spec, tables)
    current = tables.deployments.commit(replace(first, ingest={"a": 0, "b": 0}), first.version)
    made = tables.deployments.committed_at("ingest", current.version)
    assert made is not None
    seen = [
        BatchMetrics(
            "ingest", "node0", stream, made + timedelta(seconds=5 * n), 1, 0, n, 2, 10,
            durations_ms={"triggerExecution": 500}, source_end=50 * n,
        )
        for n in range(12)
        for stream in "ab"
    ]  # fmt: skip
    beats = [
        BatchMetrics("ingest", "node1", HEARTBEAT, made + timedelta(seconds=10 * n), 1, 0, n, 2, 0) for n in range(25)
    ]
    tables.lake.append("telemetry/batches", [batch_row(row) for row in (*seen, *beats)])
    planned = {"until": (made + timedelta(seconds=60)).isoformat()}
    tables.memories.record("ingest", "drfm", "decision", made, planned)
    now = made + timedelta(seconds=245)
    counts, down = fleet_counts(spec, tables, None, now), down_nodes(spec, tables, (), now)
    assert down == ("node0",) and counts is not None and counts.rows[-2:] == (None, None)
    optimizer = create("drfm", dict(spec.admission_options or {}), Role.ADMISSION)
    looked = replace(signals(app_signals(2, 10.0, None)), streams=replace(counts, down=down))
    plan = optimizer.propose(looked, current, {})[0].admission
    assert plan is not None and (plan.rescued, set(plan.after)) == (2, {1})


def test_node_whose_start_failed_is_left_alone_for_a_while(spec: PipelineSpec, tables: ControlTables) -> None:
    launch(spec, tables)
    now = tables.deployments.committed_at("ingest", 1)
    assert now is not None
    failed = Reconfiguration("ingest", "node2", None, RESTART, None, 1, 1, now, now, None, Outcome.FAILED)
    begun = replace(failed, started=now + PATIENCE, ended=None, outcome=Outcome.OPEN)
    assert down_nodes(spec, tables, (begun, failed), now + PATIENCE / 2) == ("node2",)
    assert down_nodes(spec, tables, (replace(failed, outcome=Outcome.STOPPED), failed), now + PATIENCE / 2) == ()
    assert "node2" not in down_nodes(spec, tables, (failed,), now + 2 * RETRY)


def test_fleet_is_evaluated_while_a_node_cannot_start(spec: PipelineSpec, tables: ControlTables) -> None:
    launch(spec, tables)
    now = tables.deployments.committed_at("ingest", 1)
    assert now is not None
    clock = Clock(now)
    loop = ControlLoop(spec, tables, PassingGate(clock), Seen(), {}, MlflowTracker(None), clock)
    failed = Reconfiguration("ingest", "node1", None, RESTART, None, 1, 1, now, now, None, Outcome.CIRCUIT_OPEN, "full")
    tables.reconfigurations.record(failed)
    assert loop.observe().hold is None, "streams of node1 go to node0"
    tables.reconfigurations.record(replace(failed, app="node0"))
    hold = loop.observe().hold
    assert hold is not None and hold.reason == "circuit_open"


def test_nodes_that_the_deployment_does_not_have_are_down(spec: PipelineSpec, tables: ControlTables) -> None:
    current = launch(spec, tables)
    fewer = {name: app for name, app in current.apps.items() if name != "node2"}
    tables.deployments.commit(replace(current, apps=fewer), current.version)
    now = tables.deployments.committed_at("ingest", 2)
    assert now is not None and down_nodes(spec, tables, (), now) == ("node2",)


def test_moves_of_a_fleet_are_told_as_moves_between_nodes(spec: PipelineSpec, tables: ControlTables) -> None:
    current = launch(spec, tables)
    moved = (Change("node1", "ingest", 0, 1, stream="a"), Change("node0", "ingest", 1, -1, stream="b"))
    proposals = Proposals(current.with_changes(moved), changes=moved)
    assert explain_change(Action.APPLY, proposals, None, None).startswith("1 stream to other nodes, 1 stream removed")
    one = Proposals(current, changes=(Change("delays", "ingest", 0, 1, stream="a"),))
    assert explain_change(Action.APPLY, one, None, None).startswith("delays: 1 stream to other ingest tables")
