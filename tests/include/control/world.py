"""A small world for the control loop's tests: real tables, a plant in memory, a simple optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from millrace.control.evaluation import GateResult
from millrace.control.loop import ControlLoop
from millrace.control.quality import QualityGate
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.row_codec import app_row, batch_row
from millrace.lake.store import Lake
from millrace.model.decision import Memory, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import Change, Deployment
from millrace.model.errors import NotReady
from millrace.model.objective import Bounds, Objective
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Capacity, Signals
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import AppMetrics, BatchMetrics, OperatorBatch
from millrace.reporting.tracker import MlflowTracker

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
NAME = "delays"


def spec(**changes: Any) -> PipelineSpec:
    local = {"submit": {"master": "local"}}  # a change of slots is a restart here, and guards hold it
    return PipelineSpec.model_validate({"name": NAME, "script": "delays.py", "mode": "auto", **local, **changes})


def batch(number: int, time: datetime, **changes: Any) -> BatchMetrics:
    plain: dict[str, Any] = {
        "pipeline": NAME,
        "app": NAME,
        "query": "q",
        "time": time,
        "generation": 1,
        "epoch": 0,
        "batch_id": number,
        "slots": 2,
        "rows_in": 100,
        "durations_ms": {"triggerExecution": 900, "addBatch": 700},
        "backlog_rows": 0,
        "source_end": 100 * (number + 1),
        "host_cpu_other": 0.1,
        "operators": (OperatorBatch("0", "Project", 2, 2, 100, 100, 1.2),),
    }
    return BatchMetrics(**{**plain, **changes})


def write(lake: Lake, *rows: Mapping[str, Any]) -> None:
    lake.append("telemetry/batches", list(rows))


def good_rows(first: int, last: int, now: datetime) -> list[dict[str, Any]]:
    """Batches ``first``..``last``, one a second, the last one a second ago."""
    return [batch_row(batch(n, now - timedelta(seconds=1 + last - n))) for n in range(first, last + 1)]


def write_app(lake: Lake, time: datetime, **changes: Any) -> None:
    lake.append("telemetry/apps", [app_row(AppMetrics(NAME, NAME, time, 1, 0.5, 10**8, 60.0)) | changes])


@dataclass
class Clock:
    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class MemoryPlant:
    """Sees the lake's newest version and a set arrival rate; applying records a Reconfiguration in memory."""

    lake: Lake
    clock: Clock
    arrival: float = 800.0
    per_slot: float = 240.0
    applied: list[int] = field(default_factory=list)

    def observe(self, since: Cursor) -> Signals:
        version = self.lake.version("telemetry/batches")
        if version <= since.telemetry_version:
            raise NotReady("nothing new")
        current = DeploymentStore(self.lake).latest(NAME)
        assert current is not None
        slots = current.apps[NAME].slots
        capacity = Capacity(slots, 0.4, self.per_slot * slots, 5.0, 20)
        app = AppSignals(NAME, slots, slots, False, self.arrival, 400.0, 1200, 20.0, 10, 8, 0.9, 0.5, 0.8, capacity)
        return Signals(
            NAME, since.until or self.clock.now - timedelta(seconds=60), self.clock.now, version, current.version,
            (app,), (), Objective(), Bounds(1, 8),
        )  # fmt: skip

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        if target.version in self.applied:
            return ()
        self.applied.append(target.version)
        now = self.clock.now
        return (
            Reconfiguration(
                NAME,
                NAME,
                target.decision_id,
                "T2",
                target.version - 1,
                target.version,
                2,
                now,
                now,
                5.0,
                Outcome.READY,
            ),
        )


@dataclass
class PassingGate:
    """Finds all telemetry sound and has read up to here: for tests without telemetry to judge."""

    clock: Clock

    def check(self, since: Cursor, now: datetime) -> GateResult:
        return GateResult(True, read_to=Cursor(10**6, self.clock.now))


class Proportional:
    """Wants just enough slots for the arrival, and counts its evaluations."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.remembered: list[Memory] = []

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        app = signals.apps[0]
        self.remembered.append(memory)
        remembered = {"looks": memory.get("looks", 0) + 1}
        assert app.capacity is not None and app.arrival_rows_per_s is not None
        each = app.capacity.rows_per_s / app.slots
        wanted = max(1, min(8, round(app.arrival_rows_per_s / each + 0.5)))
        if wanted == app.slots:
            return Proposal(self.name, (), "fits", "The slots fit the load"), remembered
        levels = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
        return Proposal(
            self.name,
            (Change(app.app, "slots", app.slots, wanted),),
            "under_provisioned" if wanted > app.slots else "over_provisioned",
            f"{wanted} slots are just enough",
            {"throughput_rows_per_s": each * wanted},
            {
                "parallelism": levels,
                "mean": tuple(each * p for p in levels),
                "low": tuple(0.9 * each * p for p in levels),
                "high": tuple(1.1 * each * p for p in levels),
            },
            {"parallelism": (1.0, 2.0, 4.0), "throughput": (each, 2 * each, 3.9 * each)},
        ), remembered


@dataclass
class World:
    lake: Lake
    clock: Clock
    plant: MemoryPlant
    loop: ControlLoop

    @property
    def tables(self) -> ControlTables:
        return self.loop.tables

    def run(self, slots: int = 2) -> None:
        """Launch with this number of slots, and report good telemetry."""
        first = self.loop.spec.first_deployment()
        app = replace(first.apps[NAME], slots=slots)
        DeploymentStore(self.lake).commit(replace(first, apps={NAME: app}), None)
        self.report(0, 30)

    def report(self, first: int, last: int) -> None:
        write(self.lake, *good_rows(first, last, self.clock.now))
        write_app(self.lake, self.clock.now - timedelta(seconds=1))


def world(home: Path, tracker: MlflowTracker | None = None, **changes: Any) -> World:
    lake, clock = Lake(home / "lake"), Clock()
    plant = MemoryPlant(lake, clock)
    asked = spec(**changes)
    tuner = Proportional(asked.tuner.name)
    tables = ControlTables(lake)
    gate, optimizers = QualityGate(asked, tables), {tuner.name: tuner}
    loop = ControlLoop(asked, tables, gate, plant, optimizers, tracker or MlflowTracker(None), clock)
    return World(lake, clock, plant, loop)
