"""A recorded run: the live loop over a small micro-batch app, with every table that a replay reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from millrace.control.evaluation import Request
from millrace.control.loop import ControlLoop
from millrace.control.new_observations import known_observations
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.store import Lake
from millrace.model.decision import Decision, Memory, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import Change, Deployment
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor, Optimizer
from millrace.model.signals import AppSignals, Capacity, Signals
from millrace.model.spec import PipelineSpec
from millrace.reporting.tracker import MlflowTracker
from tests.include.control.world import NAME, NOON, Clock, PassingGate

PERIOD_S, DOWNTIME_S, TAKES_S = 60.0, 6.0, 14.0
FIXED_S = 0.5
DAY = (300, 320, 650, 700, 690, 1200, 1250, 1240, 1230, 600, 580, 590, 300, 290, 300)


def throughput(p: int) -> float:
    """The throughput of p slots, rows per second."""
    return 240.0 * p**0.85


def spec_of(tuner: str = "steady", **changes: Any) -> PipelineSpec:
    plain: dict[str, Any] = {"name": NAME, "script": "delays.py", "mode": "auto", "period_s": PERIOD_S}
    plain |= {"tuner": {"name": tuner}, "slots": {"min": 1, "max": 8, "start": 2}}
    return PipelineSpec.model_validate({**plain, "submit": {"master": "local"}, **changes})


class Steady:
    """Sizes for the arrival rate with some room, once it has wanted to for several evaluations in a row.

    It uses everything that a tuner may use: signals, observations, deployment and memory.
    """

    def __init__(self, name: str = "steady", patience: int = 1, room: float = 0.8) -> None:
        self.name, self.patience, self.room = name, patience, room

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        app, now = signals.apps[0], current.apps[NAME].slots
        if signals.settling or app.capacity is None or app.arrival_rows_per_s is None:
            return Proposal(self.name, (), "settling", "Not settled"), memory
        known = {o.parallelism: o.throughput for o in signals.observations}
        known[app.capacity.parallelism] = app.capacity.rows_per_s
        need = app.arrival_rows_per_s + (app.backlog_rows or 0) / 600

        def expected(p: int) -> float:
            near = min(known, key=lambda q: (abs(q - p), q))
            return known[near] * (p / near) ** 0.9

        wanted = next((p for p in range(1, 9) if self.room * expected(p) >= need), 8)
        seen = int(memory.get("looks", 0)) + 1
        insists = int(memory.get("insists", 0)) + 1 if wanted != now else 0
        told = f"evaluation {seen}, {len(signals.observations)} points, {app.backlog_rows} rows wait: {wanted} slots"
        if wanted == now or insists < self.patience:
            return Proposal(self.name, (), "fits", told), {"looks": seen, "insists": insists}
        return Proposal(
            self.name,
            (Change(NAME, "slots", now, wanted),),
            "under_provisioned" if wanted > now else "over_provisioned",
            told,
            {"throughput_rows_per_s": expected(wanted)},
        ), {"looks": seen, "insists": 0}


@dataclass
class App:
    """A micro-batch app that matches the replay's model of an app exactly."""

    spec: PipelineSpec
    lake: Lake
    clock: Clock
    arrivals: Sequence[float]
    slots: int = 2
    version: int = 1
    fails: frozenset[int] = frozenset()
    able: Callable[[int], float] = throughput
    backlog: float = 0.0
    evaluation: int = 0
    down_s: float = 0.0
    executor_deaths: int = 0

    def observe(self, since: Cursor) -> Signals:
        if self.evaluation >= len(self.arrivals):
            raise NotReady("the day is over")
        arrival = float(self.arrivals[self.evaluation])
        self.evaluation += 1
        rate, before = self.able(self.slots), self.backlog
        usual = arrival * FIXED_S / max(0.05, 1 - arrival / rate)
        left = before + arrival * PERIOD_S - rate * (PERIOD_S - self.down_s)
        self.backlog = max(left, usual if arrival < rate else 0.0)
        growth, self.down_s = (self.backlog - before) / PERIOD_S, 0.0
        now = self.clock.now
        app = AppSignals(
            app=NAME, slots=self.slots, parallelism=self.slots, source_splits=False, arrival_rows_per_s=arrival,
            processed_rows_per_s=arrival - growth, backlog_rows=round(self.backlog), backlog_growth_rows_per_s=growth,
            batches=20, healthy_batches=18, busy_ratio=1.0, backpressured_ratio=float(arrival > rate),
            slot_busy_ratio=min(1.0, (arrival - growth) / rate), restart_lag_rows=0,
            capacity=Capacity(self.slots, FIXED_S, rate, 0.01 * rate, 18), executor_deaths=self.executor_deaths,
        )  # fmt: skip
        return Signals(
            NAME, now - timedelta(seconds=PERIOD_S), now, self.evaluation, self.version, (app,),
            known_observations(ControlTables(self.lake), NAME),
            self.spec.objective_contract(), self.spec.bounds_contract(),
        )  # fmt: skip

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        slots, start = target.apps[NAME].slots, self.clock.now
        outcome, error = (Outcome.ROLLED_BACK, "no memory") if slots in self.fails else (Outcome.READY, None)
        change = Reconfiguration(
            NAME, NAME, target.decision_id, "T2", self.version, target.version, target.version, start,
            start + timedelta(seconds=TAKES_S), DOWNTIME_S, outcome, error,
        )  # fmt: skip
        ReconfigurationStore(self.lake).record(change)
        if outcome is Outcome.READY:
            self.slots, self.version, self.down_s = slots, target.version, DOWNTIME_S
            return (change,)
        old = DeploymentStore(self.lake).get(NAME, self.version)
        assert old is not None
        back = replace(old, author="reconciler", decision_id=None, reason="back to what ran")
        self.version = DeploymentStore(self.lake).commit(back, target.version).version
        again = replace(
            change, decision_id=None, from_version=target.version, to_version=self.version, outcome=Outcome.READY,
            started=start + timedelta(seconds=TAKES_S), ended=start + timedelta(seconds=2 * TAKES_S), error=None,
        )  # fmt: skip
        ReconfigurationStore(self.lake).record(again)
        return (change, again)


@dataclass
class Run:
    """A loop, its app and its clock."""

    loop: ControlLoop
    app: App
    clock: Clock

    @property
    def tables(self) -> ControlTables:
        return self.loop.tables

    @property
    def lake(self) -> Lake:
        return self.loop.tables.lake

    @property
    def spec(self) -> PipelineSpec:
        return self.loop.spec

    def evaluate(self, request: Request | None = None) -> Decision:
        """Run one evaluation and carry out its decision."""
        asked = request or Request()
        self.clock.wait(PERIOD_S)
        decision = self.loop.decide(self.loop.observe(asked), asked)
        self.loop.apply(decision.decision_id)
        return decision

    def day(self) -> list[Decision]:
        """Run evaluations until the arrivals end."""
        return [self.evaluate() for _ in range(len(self.app.arrivals) - self.app.evaluation)]


def launched(
    home: Path,
    optimizer: Optimizer,
    spec: PipelineSpec | None = None,
    arrivals: Sequence[float] = DAY,
    **app: Any,
) -> Run:
    """Launch the app on two slots, without the gate: there is no telemetry to judge yet."""
    spec = spec or spec_of()
    lake, clock = Lake(home / "lake"), Clock(NOON)

    DeploymentStore(lake).commit(spec.first_deployment(), None)
    plant = App(spec, lake, clock, arrivals, **app)
    optimizers: Mapping[str, Optimizer] = {spec.tuner.name: optimizer}
    loop = ControlLoop(spec, ControlTables(lake), PassingGate(clock), plant, optimizers, MlflowTracker(None), clock)
    return Run(loop, plant, clock)
