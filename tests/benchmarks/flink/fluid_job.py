"""A tiny pipelined plant to drive Flink's autoscaler: a source and two operators, fluid, without noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.objective import Bounds
from millrace.model.protocols import Optimizer
from millrace.model.signals import AppSignals, Edge, OperatorSignals, Signals

PERIOD_S = 30.0
PER_SLOT = {"map": 100.0, "sink": 250.0}
SELECTIVITY = 1.5
START = datetime(2026, 1, 1, tzinfo=UTC)


def deployed(parallelism: dict[str, int]) -> Deployment:
    app = AppDeployment("job.py", (), 1, 512, 100, parallelism=parallelism)
    return Deployment("test", 1, True, {"job": app})


@dataclass
class FluidJob:
    """Operators process p times a fixed rate. The slowest throttles the source, and unread rows wait."""

    rate: float
    parallelism: dict[str, int]
    downtime_s: float = 10.0
    unit: float = 1.0
    backlog: float = 0.0
    looks: int = 0
    down_s: float = 0.0
    scaled: int = 0

    def capacity(self, operator: str) -> float:
        return self.parallelism[operator] * PER_SLOT[operator] * self.unit

    def suffices(self) -> bool:
        return self.capacity("map") >= self.rate and self.capacity("sink") >= self.rate * SELECTIVITY

    def period(self) -> Signals:
        up_s = PERIOD_S - self.down_s
        self.down_s = 0.0
        arrived = self.rate * PERIOD_S
        most = min(self.capacity("map"), self.capacity("sink") / SELECTIVITY) * up_s
        read = min(self.backlog + arrived, most)
        self.backlog += arrived - read
        self.looks += 1
        rows = read / PERIOD_S
        until = START + timedelta(seconds=self.looks * PERIOD_S)
        operators = (
            replace(
                _measured("source", rows, rows, None, 1), arrival_rows_per_s=self.rate, backlog_rows=int(self.backlog)
            ),
            _measured("map", rows, rows * SELECTIVITY, self.capacity("map"), self.parallelism["map"]),
            _measured("sink", rows * SELECTIVITY, 0.0, self.capacity("sink"), self.parallelism["sink"]),
        )
        edges = (Edge("source", "map", rows), Edge("map", "sink", rows * SELECTIVITY))
        app = AppSignals(
            "job", 1, None, False, self.rate, rows, int(self.backlog), None, 1, 1, None, None, None, None,
            operators=operators, edges=edges,
        )  # fmt: skip
        return Signals("test", until - timedelta(seconds=PERIOD_S), until, self.looks, 1, (app,), bounds=Bounds(1, 40))

    def look(self, tuner: Optimizer, memory: Memory) -> tuple[Proposal, Memory]:
        proposal, memory = tuner.propose(self.period(), deployed(self.parallelism), memory)
        if proposal.changes:
            self.parallelism = self.parallelism | {c.operator or "": c.value for c in proposal.changes}
            self.down_s = self.downtime_s
            self.scaled += 1
        return proposal, memory

    def run(self, tuner: Optimizer, looks: int, memory: Memory | None = None) -> Memory:
        memory = memory or {}
        for _ in range(looks):
            _, memory = self.look(tuner, memory)
        return memory


def _measured(name: str, rows_in: float, rows_out: float, ability: float | None, p: int) -> OperatorSignals:
    return OperatorSignals(
        name,
        name,
        p,
        rows_in,
        None,
        ability,
        rows_out_per_s=rows_out,
        busy_ratio=rows_in / ability if ability else 0.1,
        backpressured_ratio=0.0,
    )
