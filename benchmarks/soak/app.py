"""An endless app on an injected clock: its agent is real, its executors and batches are simulated by counting."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from millrace.lake.control_tables import ControlTables
from millrace.lake.row_codec import app_row, batch_row
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import AppMetrics, BatchMetrics, OperatorBatch
from millrace.runtime.agent.agent import ExecutorAgent
from millrace.runtime.agent.allocation import Allocation, Executor, Lifetime
from millrace.runtime.agent.placement import Partition, StatePlacement

BATCH_S, BATCHES_A_COMMIT = 5.0, 4
FIXED_S = 0.4
MEAN_ROWS_PER_S, SWING = 900.0, 0.7
DAY_S = 86_400.0
PARTITIONS = 8
LISTED = 100
"""Ended executors that Spark lists (``spark.ui.retainedDeadExecutors``)."""


def arrivals(seconds: float) -> float:
    """Return the arrival rate at a time of the day, rows per second, lowest at midnight."""
    return MEAN_ROWS_PER_S * (1 - SWING * math.cos(2 * math.pi * seconds / DAY_S))


def ability(slots: int) -> float:
    """Return the throughput of some slots, rows per second."""
    return 400.0 * math.pow(slots, 0.9)


class CountedExecutors(Allocation):
    """Executors that start when requested and disappear when released."""

    def __init__(self, first: int, clock: Any) -> None:
        self._clock, self._lives = clock, dict[str, Lifetime]()
        self.request(first)

    def take_over(self) -> None:
        """Do nothing: there is no predecessor."""

    def request(self, total: int) -> bool:
        """Start missing executors."""
        for number in range(len(self._lives), len(self._lives) + total - len(self.registered())):
            self._lives[str(number)] = Lifetime(Executor(str(number), "host"), 1, self._clock(), None, None)
        return True

    def registered(self) -> tuple[Executor, ...]:
        """Return the running executors."""
        return tuple(life.executor for life in self._lives.values() if life.ended is None)

    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Return the newest lifetimes."""
        return tuple(self._lives.values())[-LISTED:]

    def let_go(self, executor: Executor) -> None:
        """End an executor."""
        self._lives[executor.id] = replace(self._lives[executor.id], ended=self._clock(), reason="let go")

    kill = let_go


class CountedState(StatePlacement):
    """State partitions that are exactly as placed."""

    def __init__(self, app: EndlessApp) -> None:
        self._app, self._on = app, dict[Partition, str]()
        self._all = tuple(Partition("q", "file:/state", "run", 0, n, ("default",)) for n in range(PARTITIONS))

    def partitions(self, query: Any) -> tuple[Partition, ...]:
        """Return all partitions."""
        return self._all

    def batches(self, queries: Any) -> dict[str, int]:
        """Return the last batch."""
        return {"run": self._app.batch}

    def executor_of(self, partition: Partition) -> str | None:
        """Return the executor of a partition."""
        return self._on.get(partition)

    def name(self, partition: Partition, executor: Executor) -> None:
        """Move a partition."""
        self._on[partition] = executor.id


class IdleQuery:
    """The query as the agent sees it, between two batches."""

    isActive, runId = True, "run"  # noqa: N815 - Spark's names

    @property
    def _jsq(self) -> IdleQuery:
        return self

    def status(self) -> IdleQuery:
        """Return an object that reports whether it is busy."""
        return self

    def isTriggerActive(self) -> bool:  # noqa: N802 - Spark's name
        """Return False: it is never busy."""
        return False


@dataclass
class EndlessApp:
    """The app.

    Attributes:
        spec: Its pipeline.
        tables: Receives its telemetry and changes.
        now: The present (UTC).
        batch: Number of the last batch.
        backlog: Rows that wait.
        arrived: Total rows that have arrived.
        slots: Its slots.
        version: The Deployment that it has carried out.
    """

    spec: PipelineSpec
    tables: ControlTables
    now: datetime
    batch: int = 0
    backlog: float = 0.0
    arrived: float = 0.0
    slots: int = 0
    version: int = 0
    agent: ExecutorAgent = field(init=False)

    def __post_init__(self) -> None:
        """Launch it."""
        first = self.tables.deployments.commit(self.spec.first_deployment(), None)
        content = first.apps[self.spec.app]
        self.slots, self.version = content.slots, first.version
        executors, state = CountedExecutors(content.executors, lambda: self.now), CountedState(self)
        self.agent = ExecutorAgent(
            self.spec.app, first.version, content, self._newest, executors, state, [IdleQuery()], self._carried_out,
            lambda _lifetime, _number: None, lambda executors, _running: {executor.id for executor in executors},
        )  # fmt: skip
        self._record(first, None)

    def run_minute(self) -> None:
        """Let a minute pass."""
        for _ in range(round(60 / BATCH_S / BATCHES_A_COMMIT)):
            rows = [self._run_batch() for _ in range(BATCHES_A_COMMIT)]
            name = self.spec.name
            self.tables.lake.append("telemetry/batches", rows, {f"{name}/q/0": self.batch})
            used = app_row(AppMetrics(name, self.spec.app, self.now, 1, 0.6, 650_000_000, float(self.batch)))
            self.tables.lake.append("telemetry/apps", [used], {f"{name}/apps/1": self.batch})

    def reconcile(self) -> tuple[Reconfiguration, ...]:
        """Let the agent carry out the newest version."""
        before, newest = self.version, self._newest()
        if newest is None or newest.version == before:
            return ()
        while self.version != newest.version:
            self.agent.step()
        return (self._record(newest, before),)

    def _run_batch(self) -> dict[str, Any]:
        self.agent.step()
        self.now += timedelta(seconds=BATCH_S)
        midnight = self.now.replace(hour=0, minute=0, second=0, microsecond=0)
        new = arrivals((self.now - midnight).total_seconds()) * BATCH_S
        self.arrived, self.backlog, self.batch = self.arrived + new, self.backlog + new, self.batch + 1
        rows = min(self.backlog, ability(self.slots) * (BATCH_S - FIXED_S))
        self.backlog -= rows
        took_s = FIXED_S + rows / ability(self.slots)
        work = OperatorBatch("0.MapInPandas", "MapInPandas", self.slots, self.slots, round(rows), round(rows), took_s)
        return batch_row(
            BatchMetrics(
                self.spec.name, self.spec.app, "q", self.now, 1, 0, self.batch, self.slots, round(rows), round(rows),
                {"triggerExecution": round(1000 * took_s), "addBatch": round(1000 * (took_s - 0.1))},
                round(self.backlog), round(self.arrived), None, None, 0.1, (work,),
            )
        )  # fmt: skip

    def _newest(self) -> Deployment | None:
        return self.tables.deployments.latest(self.spec.name)

    def _carried_out(self, version: int, slots: int) -> None:
        self.version, self.slots = version, slots

    def _record(self, to: Deployment, before: int | None) -> Reconfiguration:
        change = Reconfiguration(
            self.spec.name, self.spec.app, to.decision_id, "T2" if before is None else "T1", before, to.version, 1,
            self.now, self.now + timedelta(seconds=1), 0.0, Outcome.READY,
        )  # fmt: skip
        self.tables.reconfigurations.record(change)
        return change
