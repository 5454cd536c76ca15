"""A case for tuners: job, workload, execution, and disturbances."""

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
from millrace.model.objective import Bounds, Objective

PIPELINED, MICRO_BATCH = "pipelined", "micro_batch"
EXECUTIONS = (PIPELINED, MICRO_BATCH)

PAPERS = Bounds(1, 90)
"""45 task managers of 2 slots ([ContTune], Section 8.1)."""
PLAIN = Objective(target_utilisation=1.0, max_lag_s=3600.0, catch_up_s=math.inf, max_reconfigurations_per_hour=1000)
"""The paper's objective: PA(p) >= lambda and no more, so nothing is added for waiting rows."""
PLANNED = Objective(target_utilisation=0.8, max_lag_s=120.0, catch_up_s=math.inf, max_reconfigurations_per_hour=1000)
"""A micro-batch app's objective: at full utilisation its batches would grow without end. No batch may take over 60 s,
because a row waits for two."""


@dataclass(frozen=True)
class MicroBatch:
    """Parameters of micro-batches only.

    Attributes:
        fixed_s: Range of o(1), the cost of a batch without rows, seconds; a run draws from it.
        fixed_growth: Relative growth of o for every further slot, >= 0.
        slots: Range of the slots that the app takes at the peak rate and the target utilisation; a run draws from it.
        batch_rows_limit: Most rows of a batch; None if it takes all waiting rows.
        source_splits: Most tasks of a batch; None if there are always as many as slots.
        stop_s: How long a restart waits for the running batch; a longer batch is aborted and repeated.
        live_s: Time from a change of slots to its executors, while batches continue; None if it is a restart.
        cold_ratio: Ratio of the first batch's duration on new executors to that on warm ones, >= 1.
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
        workload: The arrivals.
        execution: ``pipelined``: operators have their own slots and one p each. ``micro_batch``: the stages of a batch
            take turns on the app's slots, and the app has one p.
        noise: Noise of measured processing ability.
        drift: Changes of true processing ability.
        families: How the operators' curves are drawn.
        curves: Fixed curves by operator; the level at which they meet the peak rate is still drawn.
        reach: Share of the peak rate that an operator meets at that level, by operator; 1 by default.
        period_s: Seconds between two evaluations, > 0.
        downtime_s: Downtime of a restart, >= 0.
        bounds: Allowed p, of each operator or of the app.
        objective: The tuners' objective.
        reference: Objective for the least sufficient p, which tuners are compared with; None for ``objective``.
        start_p: Initial p, of all units or by unit.
        micro_batch: Parameters of that execution.
        drain_is_backpressure: True if a source that drains backlog counts as backpressured although all arrivals pass,
            as an engine reports it. By default only arrivals that do not pass count.
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
        """Reject cases that cannot be simulated."""
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
        """The units that can be sized: the operators but the sources, or the app as a whole."""
        return (self.shape.name,) if self.execution == MICRO_BATCH else self.shape.sizable

    @property
    def measure(self) -> Objective:
        """The objective for the least sufficient p."""
        return self.reference or self.objective

    @property
    def sizes_by(self) -> str:
        """The field of a Deployment that sets p."""
        return SLOTS if self.execution == MICRO_BATCH else PARALLELISM

    @property
    def start(self) -> tuple[int, ...]:
        """Initial level p of each unit, within the bounds."""
        low, given = self.bounds.min_slots, self.start_p
        wanted = [given if isinstance(given, int) else given.get(unit, low) for unit in self.units]
        return tuple(map(self.bounds.level, wanted))
