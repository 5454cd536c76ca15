"""One operator in one evaluation: everything that sizing needs, computed on demand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from scipy.special import stdtrit

from millrace.model.objective import Bounds
from millrace.model.signals import Observation
from millrace.optimizers.conttune import waves
from millrace.optimizers.conttune.bursts import Bursts
from millrace.optimizers.conttune.demand import Demand
from millrace.optimizers.conttune.job_graph import Operator
from millrace.optimizers.conttune.observed_levels import Level, find_ceiling, nearest, observed_levels, training_columns
from millrace.optimizers.conttune.options import FlowOptions
from millrace.optimizers.conttune.sizing import Columns
from millrace.optimizers.conttune.state import OperatorState
from millrace.optimizers.conttune.surrogate import Curve, Surrogate, draw_curve, fit

ESCALATION = 0.5
"""Share by which the room grows with each consecutive own step that was too small."""


@dataclass(frozen=True)
class OperatorContext:
    """One operator in one evaluation.

    Attributes:
        operator: The operator; one that can be sized.
        bounds: Allowed p.
        demand: Demand that it is sized for.
        room: Demand that it is sized for over its present demand, >= 1.
        variance: Relative variance of the demand.
        observations: Its own, oldest first, this evaluation's included, as they would be measured today. Each one
            counts for the effective slots of its p (:mod:`millrace.optimizers.conttune.waves`).
        state: Its memory, the present fixed cost included.
        time: Time of the evaluation (UTC).
        options: Flow's.
        bursts: Bursts that repeat; None if there are none.
        operators: Operators of the job that can be sized, >= 1: all of them together have to be large enough.
    """

    operator: Operator
    bounds: Bounds
    demand: Demand
    room: float
    variance: float
    observations: Sequence[Observation]
    state: OperatorState
    time: datetime
    options: FlowOptions
    operators: int
    bursts: Bursts | None = None

    @property
    def now(self) -> int:
        """The p that is set."""
        return self.operator.now or 1

    @property
    def ran(self) -> int:
        """The p that really runs: with fewer tasks than slots, some slots are idle."""
        ran = self.operator.ran
        return min(ran, self.now) if self.options.source_splits and ran is not None else self.now

    @property
    def effective(self) -> int:
        """The fewest slots that do the same as that p."""
        return waves.effective(self.ran, self.operator.tasks)

    @cached_property
    def here(self) -> Level | None:
        """The observed level of the p that runs."""
        own = [o for o in self.observations if o.parallelism == self.effective]
        return observed_levels(own, self.options.top_k)[0] if own else None

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """All observed levels by rising p."""
        return observed_levels(self.observations, self.options.top_k)

    @property
    def is_known(self) -> bool:
        """True if any level was observed."""
        return bool(self.observations)

    @cached_property
    def training(self) -> Columns:
        """The points to fit the surrogate on."""
        return training_columns(self.levels)

    @cached_property
    def surrogate(self) -> Surrogate:
        """The fitted model; needs an observed level."""
        return fit(self.training, self.options)

    @cached_property
    def curve(self) -> Curve:
        """The model over all levels that matter; needs an observed level."""
        highest = max(self.bounds.max_slots, self.now)
        return draw_curve(self.surrogate, self.levels, highest, self._deviations, self.variance)

    @property
    def _deviations(self) -> float:
        """Standard deviations below the mean at which a level must still be enough; more after failures.

        The tails are Student's t: one or two levels say little about all others.
        """
        certainty = (1 - self.options.risk) ** (1 / self.operators)
        deviations = float(stdtrit(len(self.levels) + 1, certainty))
        return deviations * (1 + ESCALATION * self.state.failures)

    @cached_property
    def ability_now(self) -> float:
        """PA of the level that runs, rows per second: as observed there, otherwise the model's."""
        return self.here.ability if self.here is not None else self.curve.at(self.effective)

    def effective_at(self, slots: int) -> tuple[int, float]:
        """Return the fewest slots that do the same as these, and their PA, rows per second."""
        effective = waves.effective(slots, self.operator.tasks)
        return effective, self.ability_now if effective == self.effective else self.curve.at(effective)

    @property
    def error_now(self) -> float:
        """Relative error of the above."""
        if self.here is None:
            return float(self.curve.std[min(self.effective, len(self.curve.std)) - 1])
        return self.here.error / self.here.ability

    @property
    def rate(self) -> float:
        """Rows per second that it has to process now, without the room that it is sized with."""
        return self.demand.rate / self.room

    @property
    def required_now(self) -> float:
        """PA that makes the present p feasible, rows per second."""
        return self.demand.required_at(self.effective)

    @property
    def throughput_now(self) -> float:
        """Throughput of the level that runs, rows per second: PA, or less if batches are limited."""
        return self.demand.throughput(self.ability_now, self.effective)

    @property
    def load_ratio(self) -> float:
        """Required PA over the PA of the present level."""
        return self.required_now / self.ability_now

    @cached_property
    def ceiling(self) -> int | None:
        """The level beyond which more slots were measured to gain nothing; None if none is known."""
        if self.options.ineffective_thr == 0 or len(self.levels) < 2:
            return None
        return find_ceiling(self.levels, self.time, self.options, self.demand.trigger_s)

    def is_too_small(self, growing: bool) -> bool:
        """Return whether the present level is too small.

        Args:
            growing: The backlog grows: measured figures get no benefit of the doubt.
        """
        if self.demand.micro_batch:
            required = self.demand.required_at(self.effective, self.options.tolerance)
            return required / self.room > self.ability_now * self._spendable
        doubt = 0.0 if growing else 2 * math.hypot(self.error_now, math.sqrt(self.variance))
        return self.load_ratio / self.room > self._spendable * (1 + doubt)

    @property
    def _spendable(self) -> float:
        """Factor by which a load may exceed the plan before the level is too small, >= 1."""
        target = self.demand.objective.target_utilisation
        return 1 + self.options.spend * (1 - target) / target

    @cached_property
    def wanted(self) -> int:
        """The least level within the bounds that is surely enough, or the highest sensible one if none is."""
        low, high = self.bounds.min_slots, self.bounds.max_slots
        reachable = min(high, self._reach)
        if self.ceiling is not None:
            reachable = min(reachable, max(self.ceiling, low))
        least = self.curve.least(self.demand.required(self.curve.parallelism))
        least = max(high if least is None else least, low, self.state.insufficient + 1)
        return self.level(min(least, max(reachable, low)))

    def level(self, parallelism: int) -> int:
        """Return the least allowed level that does as much as p, or as the highest allowed one."""
        return waves.level(parallelism, self.operator.tasks, self.bounds)

    @property
    def _reach(self) -> int:
        """The highest level that a step may lead to: ``reach`` times the level by linear scaling."""
        base = nearest(self.levels, self.effective)
        linear = base.parallelism * self.demand.required_at(base.parallelism) / base.ability
        highest = max(linear, self.levels[-1].parallelism, self.now)
        return math.ceil(min(self.options.reach * highest, 2.0**31))

    @property
    def runs_all_tasks(self) -> bool:
        """True if more slots are allowed, but the tasks of the longest stage already run at once."""
        tasks = self.operator.tasks
        return tasks is not None and tasks <= self.now < self.bounds.max_slots

    @property
    def is_starved(self) -> bool:
        """True if fewer tasks than slots ran: more slots would find no work."""
        return self.options.source_splits and self.ran < self.now
