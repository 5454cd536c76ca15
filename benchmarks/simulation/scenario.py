"""A case for tuners: job, workload, how it is executed, and what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.simulation.ability import MIXED, Curve, Families
from benchmarks.simulation.drift import NONE, Drift
from benchmarks.simulation.noise import STANDARD, Noise
from benchmarks.simulation.shape import Shape
from benchmarks.simulation.workload import Workload
from millrace.model.deployment import PARALLELISM, SLOTS
from millrace.model.errors import MillraceError
from millrace.model.signals import Bounds, Objective

PIPELINED, MICRO_BATCH = "pipelined", "micro_batch"
EXECUTIONS = (PIPELINED, MICRO_BATCH)

PAPERS = Bounds(1, 90)
"""45 task managers of 2 slots ([ContTune], Section 8.1)."""
PLAIN = Objective(target_utilisation=1.0, max_lag_s=3600.0, catch_up_s=math.inf, max_reconfigurations_per_hour=1000)
"""The paper's: PA(p) >= lambda and no more, so nothing is added for rows that wait."""
PLANNED = Objective(target_utilisation=0.8, max_lag_s=120.0, catch_up_s=math.inf, max_reconfigurations_per_hour=1000)
"""What a micro-batch app needs: at full utilisation its batches would grow without end. No batch is to take over 60 s,
for a row waits for two."""


@dataclass(frozen=True)
class MicroBatch:
    """What only micro-batches have.

    Attributes:
        fixed_s: Range of o(1), the cost of a batch without rows, seconds; a run draws from it.
        fixed_growth: Relative growth of o for every further slot, >= 0.
        slots: Range of the slots that the app takes at the peak rate and the target utilisation; a run draws from it.
        batch_rows_limit: Most rows of a batch; None if it takes all that wait.
        source_splits: Most tasks of a batch; None if there are always as many as slots.
        stop_s: How long a restart waits for the running batch; a longer one is cut off and done again.
        live_s: From a change of slots to the executors that make it, while batches go on; None where it is a restart.
        cold_ratio: Length of the first batch on new executors, in times of what it would take on warm ones, >= 1.
    """

    fixed_s: tuple[float, float] = (0.4, 1.2)
    fixed_growth: float = 0.005
    slots: tuple[float, float] = (14.0, 28.0)
    batch_rows_limit: int | None = None
    source_splits: int | None = None
    stop_s: float = 10.0
    live_s: float | None = None
    cold_ratio: float = 1.4


@dataclass(frozen=True)
class Scenario:
    """A case.

    Attributes:
        name: Its name.
        shape: The job's DAG.
        workload: What arrives.
        execution: ``pipelined``: operators own their slots and have a p each. ``micro_batch``: the stages of a batch
            take turns on the app's slots, and the app has one p.
        noise: Of measured processing ability.
        drift: Changes of the true one.
        families: How the operators' curves are drawn.
        curves: Curves that are not drawn, by operator; the level at which they meet the peak rate is, as ever.
        reach: Share of the peak rate that an operator meets at that level, by operator; 1 where it is not named.
        period_s: Between two evaluations, > 0.
        downtime_s: What a restart costs, >= 0.
        bounds: Allowed p, of each operator or of the app.
        objective: What tuners are told to aim at.
        reference: What the least sufficient p, which they are compared with, has to meet; None for the objective.
        start_p: p at the begin, of all units or by unit.
        micro_batch: Of that execution.
        drain_is_backpressure: True if a source that drains backlog counts as backpressured although all that arrives
            passes, as an engine reports it. By default only what arrives and does not pass counts.
        from_tuning: First tuning that counts for the figures.

    Raises:
        MillraceError: If a value is out of range or unknown.
    """

    name: str
    shape: Shape
    workload: Workload
    execution: str = PIPELINED
    noise: Noise = STANDARD
    drift: Drift = NONE
    families: Families = MIXED
    curves: Mapping[str, Curve] = field(default_factory=dict)
    reach: Mapping[str, float] = field(default_factory=dict)
    period_s: float = 30.0
    downtime_s: float = 10.0
    bounds: Bounds = PAPERS
    objective: Objective = PLAIN
    reference: Objective | None = None
    start_p: int | Mapping[str, int] = 1
    micro_batch: MicroBatch = MicroBatch()
    drain_is_backpressure: bool = False
    from_tuning: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        if self.execution not in EXECUTIONS:
            raise MillraceError("scenario.execution", self.execution, ", ".join(EXECUTIONS), "Name one of them.")
        if len(self.workload.rates[0]) != len(self.shape.sources):
            raise MillraceError(
                "scenario.workload",
                f"{len(self.workload.rates[0])} rates",
                f"one for each of {', '.join(self.shape.sources)}",
                "Build the workload from the shape's unit rates.",
            )
        if not (self.period_s > 0 and self.downtime_s >= 0 and 1 <= self.bounds.min_slots <= self.bounds.max_slots):
            raise MillraceError("scenario", self.name, "period_s > 0, downtime_s >= 0, bounds from 1", "Correct it.")

    @property
    def units(self) -> tuple[str, ...]:
        """What can be sized: the operators but the sources, or the app as a whole."""
        return (self.shape.name,) if self.execution == MICRO_BATCH else self.shape.sizable

    @property
    def measure(self) -> Objective:
        """What the least sufficient p has to meet."""
        return self.reference or self.objective

    @property
    def sizes_by(self) -> str:
        """The field of a Deployment that sets p."""
        return SLOTS if self.execution == MICRO_BATCH else PARALLELISM

    @property
    def start(self) -> tuple[int, ...]:
        """Level p of each unit at the begin, within the bounds."""
        low, given = self.bounds.min_slots, self.start_p
        wanted = [given if isinstance(given, int) else given.get(unit, low) for unit in self.units]
        return tuple(map(self.bounds.level, wanted))
