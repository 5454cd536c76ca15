"""A run without Spark: the tables that a real run leaves behind, from a small simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.row_codec import batch_row
from millrace.lake.source_tables import SourceTable
from millrace.lake.store import Lake
from millrace.model.decision import Action, Decision, Outcome, Proposal, Reconfiguration
from millrace.model.deployment import Change
from millrace.model.placement import PartitionLoads
from millrace.model.signals import AppSignals, Capacity, Signals
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import BatchMetrics

BEGUN = datetime(2026, 1, 1, 8, tzinfo=UTC)
SCHEMA = pa.schema([("row_id", pa.int64())])
PER_SLOT = 50.0
FIXED_S = 1.0


def spec_of(**more: Any) -> PipelineSpec:
    given = {"name": "delays", "description": "A simulated run", "script": "/none.py", "slots": {"min": 1, "max": 8}}
    return PipelineSpec.model_validate({**given, "objective": {"max_lag_s": 15, "target_utilisation": 0.8}, **more})


def at(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


@dataclass
class Run:
    """Writes a run, event by event; all times in seconds since BEGUN."""

    spec: PipelineSpec
    lake: Lake
    source: Path
    monkeypatch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.lake.create()
        self.table = SourceTable(self.source, SCHEMA, "synthetic")
        self.arrived = self.processed = self.ticks = self.batches = self.version = self.generation = 0

    def arrive(self, time_s: float, rows: int) -> None:
        self.monkeypatch.setattr("millrace.lake.source_tables.time.time", lambda: at(time_s).timestamp())
        ids = pa.table({"row_id": range(self.arrived, self.arrived + rows)}, schema=SCHEMA)
        self.table.append(ids, 2, "feed", self.ticks)
        self.arrived, self.ticks = self.arrived + rows, self.ticks + 1

    def batch(self, end_s: float, rows: int, duration_s: float) -> None:
        self.processed += rows
        metrics = BatchMetrics(
            "delays", "delays", "q", at(end_s), self.generation, 0, self.batches, self.slots, rows,
            durations_ms={"triggerExecution": int(duration_s * 1000)}, backlog_rows=self.arrived - self.processed,
        )  # fmt: skip
        self.lake.append("telemetry/batches", [batch_row(metrics)])
        self.batches += 1

    def launch(
        self, start_s: float, ready_s: float, slots: int, evaluation: Decision | None = None, tier: str = "T2"
    ) -> None:
        store = DeploymentStore(self.lake)
        content = self.spec.first_deployment()
        app = replace(content.apps["delays"], slots=slots)
        before = self.version or None
        made = store.commit(replace(content, apps=MappingProxyType({"delays": app})), before)
        self.version, self.slots, self.generation = made.version, slots, self.generation + 1
        self._changed(before, made.version, self.generation, start_s, ready_s, Outcome.READY, evaluation, tier)

    def resize(self, start_s: float, ready_s: float, slots: int, evaluation: Decision | None = None) -> None:
        self.generation -= 1  # the same driver
        self.launch(start_s, ready_s, slots, evaluation, "T1")

    def stop(self, start_s: float, end_s: float) -> None:
        self._changed(self.version, None, None, start_s, end_s, Outcome.STOPPED, None)

    def evaluate(
        self,
        time_s: float,
        rate: float,
        wanted: int | None,
        sentence: str,
        measured: bool = True,
        partition_loads: PartitionLoads | None = None,
    ) -> Decision:
        capacity = Capacity(self.slots, FIXED_S, PER_SLOT * self.slots, 1.0, 5) if measured else None
        app = AppSignals(
            "delays", self.slots, self.slots, False, rate, rate, 0, 0.0, 5, 5, 0.7, 0.0, 0.6, capacity
        )  # fmt: skip
        signals = Signals(
            "delays", at(time_s - 12), at(time_s), self.ticks, self.version, (app,), partition_loads=partition_loads
        )
        target, changes = None, ()
        if wanted is not None:
            changes = (Change("delays", "slots", self.slots, wanted),)
            latest = DeploymentStore(self.lake).latest("delays")
            assert latest is not None
            target = latest.with_changes(changes)
        decision = Decision(
            f"{at(time_s):%Y%m%dT%H%M%S}-{int(time_s * 10):06x}", "delays", at(time_s),
            Action.APPLY if wanted else Action.HOLD, "test", sentence, signals, self.version,
            (Proposal("flow", changes, "test", sentence),), target=target,
        )  # fmt: skip
        DecisionStore(self.lake).record(decision)
        return decision

    def _changed(
        self, before: int | None, after: int | None, generation: int | None,
        start_s: float, end_s: float, outcome: Outcome, evaluation: Decision | None, tier: str = "T2",
    ) -> None:  # fmt: skip
        downtime = 5.0 if before and after else None
        ReconfigurationStore(self.lake).record(
            Reconfiguration(
                "delays",
                "delays",
                evaluation.decision_id if evaluation else None,
                tier,
                before,
                after,
                generation,
                at(start_s),
                at(end_s),
                downtime,
                outcome,
            )
        )


def simulate(run: Run, rates: list[float], period_s: int = 12) -> float:
    """Run one row count per second against a naive controller; return the end of the run in seconds."""
    run.launch(0, 4, 1)
    clock, tick = 4.0, 0
    while tick < len(rates) or run.processed < run.arrived:
        while tick < len(rates) and tick <= clock:
            if rates[tick]:
                run.arrive(tick, int(rates[tick]))
            tick += 1
        rows = run.arrived - run.processed
        duration = FIXED_S + rows / (PER_SLOT * run.slots)
        if rows:
            run.batch(clock + duration, rows, duration)
        before, clock = clock, clock + duration
        if int(before) // period_s != int(clock) // period_s and tick < len(rates):
            rate = sum(rates[max(0, tick - period_s) : tick]) / period_s
            wanted = min(8, max(1, round(rate / PER_SLOT / 0.8 + 0.5)))
            why = f"{rate:.0f} rows/s came and {run.slots} slots process {PER_SLOT * run.slots:.0f} rows/s"
            if wanted == run.slots:
                run.evaluate(clock, rate, None, f"Stay at {run.slots} slots: {why}, which is within the goal of 0.8.")
            else:
                decision = run.evaluate(clock, rate, wanted, f"{why}: {wanted} slots bring the utilisation below 0.8.")
                run.launch(clock + 0.5, clock + 7, wanted, decision)
                clock += 7
    run.stop(clock + 1, clock + 3)
    return clock + 3
