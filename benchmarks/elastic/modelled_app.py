"""A stream on a modelled app: a run takes seconds instead of minutes, and every seed is another run.

The deciding parts are real: telemetry in a lake, its collection, the control loop, the tuner, and the agent's plans for
more arrival. Only the quality gate passes everything. Spark is modelled: the duration of batches, and the times at
which executors come and go. :class:`Costs` were measured on two cores.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.elastic.measure import Cores
from benchmarks.elastic.methods import LIVE, fixed, spec_for
from benchmarks.elastic.streams import Stream
from millrace.control.evaluation import GateResult
from millrace.control.loop import ControlLoop
from millrace.control.spark_plant import SparkPlant
from millrace.lake.control_tables import ControlTables
from millrace.lake.row_codec import batch_row
from millrace.lake.store import Lake
from millrace.model.decision import LIVE as LIVE_TIER
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import Conflict, NotReady, Settled
from millrace.model.protocols import Cursor
from millrace.model.telemetry import RUNNING, BatchMetrics, OperatorBatch
from millrace.optimizers.registry import all_of
from millrace.reporting.tracker import MlflowTracker
from millrace.runtime.agent.contingencies import Contingencies
from millrace.runtime.arrival_watch import ArrivalWatch
from millrace.runtime.telemetry.running_batch import has_risen, is_overdue

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE_S = 20.0
"""Seconds that the app runs before its stream begins."""
STEP_S, FOLLOW_S = 0.1, 0.5
"""Time between two states of the model, and between two looks of the agent and of the controller."""
MARK_S, IDLE_S = 5.0, 10.0
"""Time between two markers of a running batch, and of a source without rows."""
PERIOD_S = 6.0
MAPS, PARTITIONS = 24, 8
"""Tasks of the stage with look-ups, and of the one with state."""


@dataclass(frozen=True)
class Costs:
    """Costs of batches and changes on a machine.

    Attributes:
        fixed_s: Fixed cost of a batch.
        wait_s: Time of a row's look-up, during which a slot is busy.
        processor_s: Processor time of a row, which all slots share.
        start_s: Time until a new executor is ready.
        cold_s: Additional time of each of the first two batches with new executors.
        leave_s: Time until an executor that is no longer needed is gone.
        noise: Standard deviation of the logarithm of the fixed cost.
    """

    fixed_s: float = 3.1
    wait_s: float = 0.061
    processor_s: float = 0.0025
    start_s: float = 4.0
    cold_s: float = 1.5
    leave_s: float = 5.0
    noise: float = 0.1

    def row_s(self, slots: int) -> float:
        """Return the time that a row adds to a batch."""
        return self.wait_s / slots + self.processor_s


@dataclass(frozen=True)
class ModelledRun:
    """What happened; times in seconds since the stream began.

    Attributes:
        held: Executors.
        batch_s: Ends of the batches, shape (B,).
        batch_rows: Rows processed up to each.
        changes: Changes of slots.
    """

    held: tuple[Cores, ...]
    batch_s: np.ndarray
    batch_rows: np.ndarray
    changes: int


@dataclass
class ModelledApp:
    """The app, its agent and its controller.

    Attributes:
        stream: The arrivals.
        folder: Folder of its lake.
        seed: Seed of the noise.
        slots: Fixed slots; None if Millrace decides.
        costs: Costs of batches and changes.
    """

    stream: Stream
    folder: Path
    seed: int
    slots: int | None = None
    costs: Costs = Costs()
    _now_s: float = field(default=-BEFORE_S, init=False)

    def __post_init__(self) -> None:
        self._live = self.slots is None
        method = LIVE if self.slots is None else fixed("fixed", self.slots)
        spec = spec_for(str(self.folder), method, self.stream.wait_ms, PERIOD_S)
        self._tables = ControlTables(Lake(self.folder / "lake"))
        self._deployed = self._running = self._tables.deployments.commit(spec.first_deployment(), None)
        self._app, self._noise = spec.app, random.Random(self.seed)  # noqa: S311 - noise, no secret
        self._arrived = np.concatenate([[0], np.cumsum(self.stream.counts)])
        self._taken, self._batch, self._cold = 0, 0, 0
        self._paid = [(self._now_s, self._present)]
        self._due_s: float | None = None  # when the newest version is carried out
        self._ends: list[tuple[float, int]] = []
        self._changes = 0
        self._marked, self._rate, self._took_s = (self._now_s, 0), 0.0, 0.0  # as reported last
        self._watch = ArrivalWatch()
        self._agent = Contingencies(
            self._app, self._watch, self._tables.decisions, self._tables.deployments, self._clock, lambda: self._now_s
        )
        plant = SparkPlant(spec, self._tables, self, self._clock)
        gate = _Passing(self._clock)
        self._loop = ControlLoop(spec, self._tables, gate, plant, all_of(spec), MlflowTracker(None), self._clock)
        self._fresh, self._evaluate_s = False, self._now_s
        self._record(None, "T2", self._clock())

    def run(self) -> ModelledRun:
        """Run the stream to its end."""
        total, length = int(self._arrived[-1]), len(self.stream.counts)
        while self._taken < total or self._now_s < length:
            if self._waiting or not self._batch:
                self._run_batch()
            else:
                self._rest()
        ends_s = [begin_s for begin_s, _ in self._paid[1:]]
        held = [Cores(s, e, n) for (s, n), e in zip(self._paid, [*ends_s, self._now_s], strict=True)]
        times, rows = np.array(self._ends, dtype=float).T
        return ModelledRun(tuple(held), times, rows, self._changes)

    def reconcile(self) -> tuple[Reconfiguration, ...]:
        """Do nothing: the agent carries out every change."""
        return ()

    def _clock(self) -> datetime:
        """Return the present (UTC)."""
        return BEGIN + timedelta(seconds=self._now_s)

    @property
    def _present(self) -> int:
        return self._running.apps[self._app].slots

    @property
    def _end(self) -> int:
        return int(self._arrived[int(np.clip(self._now_s, 0, len(self.stream.counts)))])

    @property
    def _waiting(self) -> int:
        return self._end - self._taken

    def _run_batch(self) -> None:
        rows, began_s, mark_s = self._waiting, self._now_s, self._now_s + MARK_S
        self._watch.runs(self._app, began_s)
        fixed_s = self.costs.fixed_s * self._noise.lognormvariate(0.0, self.costs.noise)
        left_s, self._cold = fixed_s + (self.costs.cold_s if self._cold else 0.0), max(0, self._cold - 1)
        left = float(rows)
        while left > 0 or left_s > 0:
            self._step()
            if left > 0:
                left -= STEP_S / self.costs.row_s(self._present)
            else:
                left_s -= STEP_S
            if self._now_s >= mark_s:
                mark_s += MARK_S
                self._mark(self._now_s - began_s)
        self._watch.runs(self._app, None)
        self._took_s = self._now_s - began_s
        self._rate = (self._end - self._marked[1]) / max(self._now_s - self._marked[0], STEP_S)
        self._taken += rows
        self._ends.append((self._now_s, self._taken))
        self._batch += 1
        self._report({"triggerExecution": round(1000 * (self._now_s - began_s))}, rows)
        self._carry_out(between_batches=True)

    def _mark(self, ran_s: float) -> None:
        """Report the running batch if the telemetry of a driver would."""
        rate = (self._end - self._marked[1]) / (self._now_s - self._marked[0])
        risen = has_risen(rate, self._rate)
        if risen or is_overdue(ran_s, max(self._took_s, MARK_S)):
            self._rate = rate if risen else self._rate
            self._report({RUNNING: round(1000 * ran_s)})

    def _rest(self) -> None:
        mark_s = self._now_s + IDLE_S
        while not self._waiting and self._now_s < len(self.stream.counts):
            self._step()
            self._carry_out(between_batches=True)
            if self._now_s >= mark_s:
                mark_s += IDLE_S
                self._report({})

    def _step(self) -> None:
        self._now_s = round(self._now_s + STEP_S, 3)
        if not self._live or self._now_s % FOLLOW_S >= STEP_S / 2:
            return
        self._watch.reached(self._app, self._end, self._now_s)
        self._follow()
        self._carry_out()
        if self._fresh and self._now_s >= self._evaluate_s:
            self._fresh, self._evaluate_s = False, self._now_s + PERIOD_S
            self._evaluate()

    def _follow(self) -> None:
        """Follow the newest version: request executors at once, or let some go after the batch."""
        newest = self._tables.deployments.latest(self._deployed.pipeline) or self._deployed
        if self._agent.step(newest):
            newest = self._tables.deployments.latest(self._deployed.pipeline) or newest
        if newest.version == self._deployed.version:
            return
        wanted = newest.apps[self._app].slots
        self._deployed, self._began = newest, self._clock()
        self._changes += wanted != self._present
        up = wanted > self._present
        self._due_s = self._now_s + (self.costs.start_s * self._noise.uniform(0.8, 1.3) if up else 0.0)
        if up:
            self._paid.append((self._now_s, wanted))

    def _carry_out(self, *, between_batches: bool = False) -> None:
        if self._due_s is None or self._now_s < self._due_s:
            return
        before, wanted = self._present, self._deployed.apps[self._app].slots
        if wanted < before:
            if not between_batches:
                return
            self._paid.append((self._now_s + self.costs.leave_s, wanted))
            self._paid.sort()
        elif wanted > before:
            self._cold = 2
        former, self._running, self._due_s = self._running, self._deployed, None
        if wanted != before:
            self._record(former, LIVE_TIER, self._began)

    def _record(self, former: Deployment | None, tier: str, began: datetime) -> None:
        before = None if former is None else former.version
        of = (self._running.pipeline, self._app, self._running.decision_id, tier, before, self._running.version, 1)
        self._tables.reconfigurations.record(Reconfiguration(*of, began, self._clock(), 0.0, Outcome.READY))

    def _report(self, durations_ms: dict[str, int], rows: int = 0) -> None:
        self._marked = self._now_s, self._end
        if not self._live:
            return
        self._fresh = True
        row = BatchMetrics(
            pipeline=self._running.pipeline,
            app=self._app,
            query=self._app,
            time=self._clock(),
            generation=1,
            epoch=0,
            batch_id=self._batch - 1,
            slots=self._present,
            rows_in=rows,
            durations_ms=durations_ms,
            backlog_rows=self._waiting,
            source_end=self._end,
            host_cpu_other=0.1,
            operators=self._operators(rows) if "triggerExecution" in durations_ms else (),
        )
        self._tables.lake.append("telemetry/batches", [batch_row(row)])

    def _operators(self, rows: int) -> tuple[OperatorBatch, ...]:
        """Return what the stages of a batch report: a few more slots add to the fixed time of their tasks."""
        p, more = self._present, self._present > 2
        look_ups_s = 0.4 + (0.061 if more else 0.0575) * rows * self._noise.lognormvariate(0.0, 0.02)
        sums_s, state_s = (2.1 + 0.0017 * rows, 2.1 + 0.0072 * rows) if more else (1.0, 1.2)
        return (
            OperatorBatch("0.MapInPandas", "MapInPandas", MAPS, p, rows, rows, look_ups_s),
            OperatorBatch("1.Sum", "ObjectHashAggregate", MAPS, p, rows, rows, sums_s),
            OperatorBatch("2.Save", "StateStoreSave", PARTITIONS, min(p, PARTITIONS), rows, rows, state_s),
        )

    def _evaluate(self) -> None:
        try:
            due = self._loop.commit(self._loop.decide(self._loop.observe()))
            if due is not None:
                self._loop.apply(due)
        except (NotReady, Settled, Conflict):
            return


@dataclass(frozen=True)
class _Passing:
    clock: Callable[[], datetime]

    def check(self, since: Cursor, now: datetime) -> GateResult:
        """Return that all telemetry is sound."""
        del since, now
        return GateResult(True, read_to=Cursor(10**6, self.clock()))
