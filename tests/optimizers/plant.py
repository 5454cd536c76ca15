"""A small simulated micro-batch app: duration = o + rows / PA(p), and a restart that costs downtime and backlog."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.protocols import Optimizer
from include.model.signals import Bounds, Capacity, Objective, Observation, Signals
from optimizers.conformance.builders import APP, NOON, app_signals, deployment, signals


@dataclass
class App:
    """The app and its loop.

    Attributes:
        ability: PA(p), rows a second.
        rate: Arrival rate at a second, rows a second.
        fixed_s: o.
        downtime_s: Of a restart.
        noise: Relative standard deviation of a measured ability.
        period_s: Between two looks.
        splits: Tasks that a batch offers at most; None for always enough.
    """

    ability: Callable[[int], float]
    rate: Callable[[float], float]
    slots: int = 1
    fixed_s: float = 1.0
    downtime_s: float = 6.0
    noise: float = 0.0
    period_s: float = 10.0
    splits: int | None = None
    bounds: Bounds = field(default_factory=lambda: Bounds(1, 8))
    objective: Objective = field(default_factory=Objective)
    seed: int = 0

    now_s: float = 0.0
    backlog: float = 0.0
    lag_of_restart: float = 0.0
    history: list[Observation] = field(default_factory=list)
    settle: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @property
    def parallelism(self) -> int:
        return self.slots if self.splits is None else min(self.slots, self.splits)

    def look(self) -> Signals:
        """Run a period and tell what was measured."""
        start, arrived, processed, batches, behind = self.now_s, 0.0, 0.0, 0, 0
        busy_s = backlog_before = 0.0
        backlog_before = self.backlog
        pa, p = self.ability(self.parallelism), self.parallelism
        while self.now_s < start + self.period_s:
            rows = self.backlog
            duration = self.fixed_s + rows / pa
            came = self.rate(self.now_s) * duration
            arrived, processed, self.backlog = arrived + came, processed + rows, came
            self.lag_of_restart = min(self.lag_of_restart, self.backlog)
            busy_s += rows / pa
            batches += 1
            behind += duration > self.fixed_s / (1 - self.objective.target_utilisation) * 1.2
            self.now_s += duration
        took = self.now_s - start
        until = NOON + timedelta(seconds=self.now_s)
        measured = Capacity(p, self.fixed_s, pa * (1 + self._random.gauss(0, self.noise)), 0.03 * pa, batches)
        app = app_signals(
            self.slots,
            arrived / took,
            measured,
            parallelism=p,
            source_splits=p < self.slots,
            processed_rows_per_s=processed / took,
            backlog_rows=int(self.backlog),
            backlog_growth_rows_per_s=(self.backlog - backlog_before) / took,
            batches=batches,
            backpressured_ratio=behind / batches,
            slot_busy_ratio=min(1.0, busy_s / took),
            restart_lag_rows=int(self.lag_of_restart),
        )
        told = signals(app, tuple(self.history), self.bounds, self.objective, settling=self.settle, until=until)
        self.settle = False
        self.history.append(Observation(APP, p, measured.rows_per_s, measured.rows_per_s_error, batches, until))
        return told

    def restart(self, slots: int) -> None:
        """Change the slots: nothing is processed meanwhile, and the next look is still settling."""
        lag = self.rate(self.now_s) * self.downtime_s
        self.slots, self.backlog, self.lag_of_restart = slots, self.backlog + lag, self.lag_of_restart + lag
        self.now_s += self.downtime_s
        self.settle = True


@dataclass(frozen=True)
class Step:
    """One look of a story."""

    at_s: float
    slots: int
    signals: Signals
    proposal: Proposal

    @property
    def target(self) -> int:
        return self.proposal.changes[0].value if self.proposal.changes else self.slots


def run(app: App, optimizer: Optimizer, until_s: float) -> list[Step]:
    """Let an optimizer drive the app and return every look."""
    memory: Memory = {}
    told: deque[Step] = deque()
    current: Deployment = deployment(app.slots)
    while app.now_s < until_s:
        seen = app.look()
        proposal, memory = optimizer.propose(seen, current, memory)
        told.append(Step(app.now_s, app.slots, seen, proposal))
        if proposal.changes:
            current = replace(current.with_changes(proposal.changes), version=current.version + 1)
            app.restart(current.apps[APP].slots)
    return list(told)


def changes(story: list[Step]) -> list[tuple[int, int]]:
    return [(step.slots, step.target) for step in story if step.target != step.slots]
