"""Random search: any p for an operator until it has the least one that is enough.

Assumptions, because [ContTune] says only that the search is bounded by ContTune's p_max and ends "once it finds the
same optimal levels of parallelism given by the above methods":
    - A live search cannot know what others would find. An operator has its optimum if p is enough and, by linear
      scaling, p - 1 would not be, with ``tolerance`` to spare: PA >= lambda and
      PA (p - 1) / p < lambda (1 + tolerance).
    - Operators are searched separately, all in one reconfiguration: an operator that has its optimum is kept. Drawing
      all of N operators again each time would take p_max^N trials, and the paper reports about as many as p_max has
      levels.
    - Trials are drawn with replacement, but never the present level. The number of draws so far, kept in Memory, is the
      seed: the same Memory gives the same trial.
"""

from __future__ import annotations

import math
import random

from pydantic import Field

from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.api import Options
from millrace.optimizers.conttune.base_tuner import AppMemory, BaseTuner, Sizings
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.messages import Reason
from millrace.optimizers.memory import whole
from millrace_rivals.carried_rates import carried_rates, measured_ratios
from millrace_rivals.messages import RivalReason
from millrace_rivals.sizing import Choice, size_job


class RandomSearchOptions(Options):
    """How random search decides.

    Attributes:
        p_max: Highest level that is tried, >= 1, within the bounds; None for the upper bound.
        tolerance: By how much the level below may seem to be enough, as a ratio, >= 0.
        seed: First part of every draw's seed, >= 1.
        known_arrival_rate: lambda is the true arrival rate; otherwise the processed rate.
    """

    p_max: int | None = Field(None, ge=1)
    tolerance: float = Field(0.1, ge=0)
    seed: int = Field(1, ge=1)
    known_arrival_rate: bool = True


class RandomSearch(BaseTuner[RandomSearchOptions]):
    """Sizes jobs by trial."""

    name = "random"
    Options = RandomSearchOptions

    def tune(self, signals: Signals, job: Job, memory: AppMemory) -> Sizings:
        """Decide on one job."""
        draws = whole(memory.get("draws"))
        observed = {operator.id: operator.rate for operator in job.operators}
        rates = carried_rates(job, measured_ratios(job)) if self.options.known_arrival_rate else observed
        choices = [self._choose(operator, rates[operator.id], signals.bounds, draws) for operator in job.sizable]
        drawn = any(choice.target != choice.now for choice in choices)
        return size_job(job, choices, signals.bounds), {"draws": draws + drawn}

    def _choose(self, operator: Operator, rate: float | None, bounds: Bounds, draws: int) -> Choice:
        now, ability = operator.now or 1, operator.ability
        if rate is None or not math.isfinite(rate):
            return Choice(operator, now, None, ability, reason=Reason.RATE_UNKNOWN)
        if ability is None:
            return Choice(operator, now, rate, None, reason=Reason.CAPACITY_UNKNOWN)
        lower = ability * (now - bounds.step) / now
        if rate <= ability and (now == bounds.min_slots or lower < rate * (1 + self.options.tolerance)):
            return Choice(operator, now, rate, ability)
        most = self.options.p_max or bounds.max_slots
        levels = [p for p in bounds.levels if p <= most] or [bounds.min_slots]
        dice = random.Random(f"{self.options.seed} {draws} {operator.name}")  # noqa: S311 - a search, no secret
        target = dice.choice(levels)
        while target == now and len(levels) > 1:
            target = dice.choice(levels)
        return Choice(operator, target, rate, ability, reason=RivalReason.RANDOM_TRIAL)
