"""A synthetic micro-batch app: back-to-back batches of a known cost, as telemetry rows, and lakes made of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from millrace.lake.deployments import DeploymentStore
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import RUNNING, BatchMetrics, OperatorBatch

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass
class App:
    """Runs batches of duration fixed_s + rows / rows_per_s, each with all the waiting rows (or ``cap`` of them)."""

    slots: int = 4
    fixed_s: float = 1.0
    rows_per_s: float = 2000.0
    tasks: int | None = None
    coverage: float = 1.0
    noise: float = 0.0
    cap: int | None = None
    generation: int = 1
    clock: datetime = START
    batch_id: int = 0
    source_end: float = 0.0
    read: float = 0.0
    host_cpu_other: float | None = 0.1
    trigger_s: float = 0.0
    due: datetime = START
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    @property
    def interval(self) -> timedelta:
        return timedelta(seconds=self.trigger_s)

    def run(self, seconds: float, rate: Callable[[float], float] | float) -> list[BatchMetrics]:
        """Run for some seconds of the app's clock at an arrival rate in rows per second."""
        end, rows = self.clock + timedelta(seconds=seconds), []
        while self.clock < end:
            rows.append(self.batch(rate))
        return rows

    def batch(self, rate: Callable[[float], float] | float) -> BatchMetrics:
        """Run the next batch as soon as its trigger is due."""
        if self.trigger_s:
            self.arrive(max(0.0, (self.due - self.clock).total_seconds()), rate)
            self.due = START + (1 + (self.clock - START) // self.interval) * self.interval
        waiting = int(self.source_end) - int(self.read)
        x = min(waiting, self.cap or waiting)
        duration = (self.fixed_s + x / self.rows_per_s) * self.rng.lognormvariate(0, self.noise)
        self.arrive(duration, rate)
        self.read = int(self.read) + x
        p = min(self.tasks or self.slots, self.slots)
        useful = x / self.rows_per_s / self.coverage * p * self.rng.lognormvariate(0, self.noise)
        operator = OperatorBatch("0.MapInPandas", "MapInPandas", self.tasks or self.slots, p, x, x, useful)
        done = BatchMetrics(
            pipeline="delays",
            app="delays",
            query="delays",
            time=self.clock,
            generation=self.generation,
            epoch=0,
            batch_id=self.batch_id,
            slots=self.slots,
            rows_in=x,
            durations_ms={"triggerExecution": max(1, round(duration * 1000))},
            backlog_rows=int(self.source_end) - int(self.read),
            source_end=int(self.source_end),
            host_cpu_other=self.host_cpu_other,
            operators=(operator,),
            trigger_s=self.trigger_s,
        )
        self.batch_id += 1
        return done

    def idle(self, seconds: float, every_s: float = 10.0) -> list[BatchMetrics]:
        """Write idle markers for some seconds in which nothing arrives."""
        markers, last = [], self.batch_id - 1
        for _ in range(int(seconds / every_s)):
            self.clock += timedelta(seconds=every_s)
            marker = replace(self.blank(last), backlog_rows=0, source_end=int(self.source_end))
            markers.append(marker)
        return markers

    def running(self, seconds: float, rate: float, every_s: float = 4.0) -> list[BatchMetrics]:
        """Write the markers of a batch that runs for some seconds and does not end."""
        markers: list[BatchMetrics] = []
        for number in range(1, 1 + int(seconds / every_s)):
            self.arrive(every_s, rate)
            backlog = int(self.source_end) - int(self.read)
            blank = replace(self.blank(self.batch_id - 1), durations_ms={RUNNING: round(1000 * number * every_s)})
            markers.append(replace(blank, backlog_rows=backlog, source_end=int(self.source_end)))
        return markers

    def blank(self, batch_id: int) -> BatchMetrics:
        return BatchMetrics(
            "delays", "delays", "delays", self.clock, self.generation, 0, batch_id, self.slots, 0, durations_ms={},
            trigger_s=self.trigger_s,
        )  # fmt: skip

    def restart(self, down_s: float, rate: Callable[[float], float] | float, slots: int, rows_per_s: float) -> None:
        """Return as the next generation after some seconds without a batch."""
        self.arrive(down_s, rate)
        self.generation, self.slots, self.rows_per_s = self.generation + 1, slots, rows_per_s

    def arrive(self, seconds: float, rate: Callable[[float], float] | float) -> None:
        at = (self.clock - START).total_seconds()
        self.source_end += seconds * (rate(at) if callable(rate) else rate)
        self.clock += timedelta(seconds=seconds)


def spec(**changes: object) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "delays", "script": "delays.py", "period_s": 20, **changes})


def lake_of(root: Path, batches: Iterable[BatchMetrics], launched: bool = True) -> Lake:
    lake = Lake(root)
    add(lake, list(batches))
    if launched:
        DeploymentStore(lake).commit(spec().first_deployment(), None)
    return lake


def add(lake: Lake, batches: Sequence[BatchMetrics]) -> None:
    if batches:
        lake.append("telemetry/batches", [batch_row(b) for b in batches])
