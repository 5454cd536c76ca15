"""Several pipelines on one lake, each with its own loop, to test how they affect each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.control.evaluation import EvaluationInput, GateResult, Request
from millrace.control.launch import launch
from millrace.control.loop import ControlLoop
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.model.decision import Decision, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.protocols import Cursor
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.reporting.tracker import MlflowTracker
from tests.include.control.world import Clock, PassingGate


def spec(name: str, quota: int | None = 6, **changes: Any) -> PipelineSpec:
    plain = {"name": name, "script": f"{name}.py", "slots": {"min": 1, "max": 6, "start": 1}, "mode": "auto"}
    return PipelineSpec.model_validate({**plain, "guards": {"max_total_slots": quota}, **changes})


@dataclass
class NothingRuns:
    """A plant that only records the versions that it was asked to run."""

    versions: list[int] = field(default_factory=list)

    def observe(self, since: Cursor) -> Signals:
        raise NotImplementedError

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        self.versions.append(target.version)
        return ()


@dataclass
class Tenant:
    """One pipeline as a separate process sees it: with its own handles on the lake's tables."""

    spec: PipelineSpec
    lake: Lake
    clock: Clock = field(default_factory=Clock)
    plant: NothingRuns = field(default_factory=NothingRuns)

    @property
    def tables(self) -> ControlTables:
        return ControlTables(self.lake)

    @property
    def loop(self) -> ControlLoop:
        gate = PassingGate(self.clock)
        return ControlLoop(self.spec, self.tables, gate, self.plant, {}, MlflowTracker(None), self.clock)

    def launch(self, **wish: Any) -> Deployment:
        return launch(self.spec, self.tables, **wish)

    def decide(self, slots: int) -> Decision:
        """Let a person force a number of slots: bounds and quota judge it."""
        self.clock.wait(1)
        seen = EvaluationInput(self.spec.name, None, GateResult(True), Cursor(), time=self.clock(), until=Cursor())
        return self.loop.decide(seen, Request(forced_slots=slots, requested_by="ada"))

    @property
    def slots(self) -> int:
        latest = DeploymentStore(self.lake).latest(self.spec.name)
        return latest.slots if latest else 0


def tenants(root: Path, *names: str, quota: int | None = 6, start: int = 1) -> list[Tenant]:
    """Launch some pipelines with this number of slots each."""
    made = [Tenant(spec(name, quota), Lake(root)) for name in names]
    for tenant in made:
        tenant.launch(slots=start)
    return made


def slots_in_all(lake: Lake) -> int:
    return sum(deployment.slots for deployment in DeploymentStore(lake).all_latest())
