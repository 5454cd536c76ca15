"""One job in one evaluation: everything that the decision needs, computed on demand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.observed_levels import Level
from millrace_rivals.carried_rates import Rates, carried_rates
from millrace_rivals.conttune.history import levels_by_operator
from millrace_rivals.conttune.options import ContTuneOptions
from millrace_rivals.conttune.state import JobMemory, JobState, job_state

DRAINS = 0.05
"""Share of the processed rows that must come from the backlog before a job counts as working it off."""


@dataclass(frozen=True)
class JobEvaluation:
    """One job in one evaluation.

    Attributes:
        signals: The period.
        job: The job, free of problems (:mod:`millrace.optimizers.conttune.base_tuner`), every p within the bounds.
        memory: Its memory, this evaluation's flow ratios included.
        options: ContTune's.
    """

    signals: Signals
    job: Job
    memory: JobMemory
    options: ContTuneOptions

    @property
    def bounds(self) -> Bounds:
        """Allowed levels."""
        return self.signals.bounds

    @cached_property
    def state(self) -> JobState:
        """The job's state by the paper's rule, which needs no model."""
        return job_state(self.job.app.backpressured_ratio, self.job.app.slot_busy_ratio, self.options)

    @cached_property
    def rates(self) -> Rates:
        """Lambda of every operator: the observed rate, or the true arrival rate carried through the DAG.

        Deviation:
            While a backlog shrinks, the observed rate is above the arrival rate. The paper's jobs have almost no
            backlog left when Small follows Big; here the share that comes from the backlog is subtracted.
        """
        if self.options.known_arrival_rate:
            return carried_rates(self.job, {edge: ratio.mean for edge, ratio in self.memory.ratios.items()})
        arriving = 1.0 - self._from_backlog
        return {o.id: None if o.rate is None else o.rate * arriving for o in self.job.operators}

    @property
    def _from_backlog(self) -> float:
        growth, rate = self.job.app.backlog_growth_rows_per_s, self.job.app.processed_rows_per_s
        if growth is None or not rate or not growth < -DRAINS * rate:
            return 0.0
        return min(1.0, -growth / rate)

    def required(self, operator: Operator) -> float | None:
        """Return the rows per second that an operator must be able to process; None if unknown."""
        rate = self.rates[operator.id]
        return None if rate is None or not math.isfinite(rate) else rate * (1 + self.options.headroom)

    @property
    def required_by_name(self) -> Mapping[str, float]:
        """Rows per second that operators must be able to process, for those with a known rate."""
        return {o.name: rate for o in self.job.sizable if (rate := self.required(o)) is not None}

    @cached_property
    def levels(self) -> Mapping[str, tuple[Level, ...]]:
        """H^t of every operator by name: its levels by rising p."""
        return levels_by_operator(self.signals.observations, self.job.sizable, self.options.top_k, self.signals.until)

    def ability(self, operator: Operator) -> float | None:
        """Return PA of the level that is set; None if it was not observed."""
        levels = self.levels[operator.name]
        return next((level.ability for level in levels if level.parallelism == operator.now), None)

    @property
    def p_now(self) -> Mapping[str, int]:
        """Present level of every operator by name."""
        return {operator.name: operator.now or 1 for operator in self.job.sizable}

    @property
    def highest_known(self) -> int:
        """The paper's p_max: the highest level in all H^t of the job, of its Big phase, or currently set."""
        observed = (level.parallelism for levels in self.levels.values() for level in levels)
        return max(self.memory.p_max, *self.p_now.values(), *observed)

    @property
    def p_max(self) -> int:
        """End of the search (Eq. 2 and 5): the highest known level if the Big phase raises it, else the bound."""
        return min(self.highest_known, self.bounds.max_slots) if self.options.uses_big else self.bounds.max_slots
