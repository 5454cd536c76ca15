"""DS2: all operators of a job at once, each in proportion to the rate that it will have to take in.

Symbols, in topological order:
    PA / p       processing ability of one task, rows per second of useful time
    lambda_in    rows per second that an operator receives once all before it have their new p
    factor       room for overheads that useful time does not show
    p'           ceil(lambda_in / (PA / p) (1 + factor))

Origin of lambda_in:
    ``producer``, as published: lambda_out = output ability (the true output rate) * lambda_in / PA, and a consumer
        takes in all of lambda_out of every operator upstream. Sources are never scaled; their lambda_out is the output
        ability, or the true arrival rate.
    ``consumer``, the fair form: each edge carries the rows that its consumer was seen to receive per row that its
        producer took in. This counts rows correctly that are split over several consumers, or queue on the way.

Reference:
    Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions for distributed streaming
    dataflows", OSDI 2018, as [ContTune] uses it (Sections 5.2 and 8.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field

from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.api import Options
from millrace.optimizers.conttune.base_tuner import AppMemory, BaseTuner, Sizings
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.messages import Reason
from millrace_rivals.carried_rates import Rates, carried_rates, measured_ratios
from millrace_rivals.conttune.algorithms import linear
from millrace_rivals.last_step import LastStep
from millrace_rivals.messages import RivalReason
from millrace_rivals.sizing import Choice, hold_job, size_job


class Ds2Options(Options):
    """How DS2 decides.

    Attributes:
        rates: ``consumer`` (the fair form) or ``producer`` (as published).
        known_arrival_rate: A source emits its true arrival rate; otherwise its output ability, and an app as one
            operator is sized for what it processes.
        factor: Room for overheads, as a ratio, >= 0.
        decision_thr: Least relative change of an operator's p that is worth a reconfiguration of the job, >= 0; at 0
            DS2 acts in every evaluation in which its suggestion differs.
        stop_rule: After an own step none follows until the load changes or the job does not keep up: measurements that
            scatter around a limit would move it up and down. Not DS2's, but its rivals have it.
        slack: Relative change of an operator's rate that ends that rest, [0, 1).
        backpressure_thr: Backpressured ratio from which a job does not keep up, [0, 1].
    """

    rates: Literal["consumer", "producer"] = "consumer"
    known_arrival_rate: bool = True
    factor: float = Field(0.0, ge=0)
    decision_thr: float = Field(0.0, ge=0)
    stop_rule: bool = False
    slack: float = Field(0.1, ge=0, lt=1)
    backpressure_thr: float = Field(0.1, ge=0, le=1)


class Ds2(BaseTuner[Ds2Options]):
    """Sizes jobs by DS2; without the stop rule it remembers nothing."""

    name = "ds2"
    Options = Ds2Options

    def tune(self, signals: Signals, job: Job, memory: AppMemory) -> Sizings:
        """Decide on one job."""
        by_producer = self.options.rates == "producer"
        lambda_in = rates_by_producer(job, self.options) if by_producer else rates_by_consumer(job, self.options)
        rates = {o.name: rate for o in job.sizable if (rate := lambda_in[o.id]) is not None and math.isfinite(rate)}
        step = LastStep.read(memory.get("step")) if self.options.stop_rule else None
        if step is not None and self._suffices(job, step, rates):
            return [hold_job(job, RivalReason.STEP_SUFFICED, signals.bounds)], memory
        choices = [self._choose(operator, rates.get(operator.name), signals.bounds) for operator in job.sizable]
        sizings = size_job(job, choices, signals.bounds, self.options.decision_thr)
        if not self.options.stop_rule or not any(sizing.changes for sizing in sizings):
            return sizings, memory
        levels = {c.operator.name: signals.bounds.level(c.target) for c in choices}
        return sizings, {"step": LastStep(levels, rates).to_json()}

    def _suffices(self, job: Job, step: LastStep, rates: Mapping[str, float]) -> bool:
        if (job.app.backpressured_ratio or 0.0) >= self.options.backpressure_thr:
            return False
        return step.holds({o.name: o.now or 1 for o in job.sizable}, rates, self.options.slack)

    def _choose(self, operator: Operator, rate: float | None, bounds: Bounds) -> Choice:
        now, ability, at = operator.now or 1, operator.ability, operator.ability_at
        if rate is None:
            return Choice(operator, now, None, ability, reason=Reason.RATE_UNKNOWN)
        if ability is None or at is None:
            return Choice(operator, now, rate, None, reason=Reason.CAPACITY_UNKNOWN)
        target = linear(at, ability, rate * (1 + self.options.factor))
        return Choice(operator, target, rate, ability * now / at, ability * bounds.level(target) / at)


def rates_by_consumer(job: Job, options: Ds2Options) -> Rates:
    """Return lambda_in of every operator from rates counted at the receiving end."""
    if options.known_arrival_rate:
        return carried_rates(job, measured_ratios(job))
    sources = tuple(replace(o, arrival=_intake(job, o)) if _is_source(job, o) else o for o in job.operators)
    return carried_rates(replace(job, operators=sources), measured_ratios(job))


def rates_by_producer(job: Job, options: Ds2Options) -> Rates:
    """Return lambda_in of every operator from rates counted at the emitting end."""
    taken: dict[str | None, float | None] = {}
    emitted: dict[str | None, float | None] = {}
    for operator in job.operators:
        if _is_source(job, operator):
            arrives = operator.arrival if options.known_arrival_rate else None
            taken[operator.id] = operator.rate if arrives is None else arrives
            emitted[operator.id] = operator.output_throughput if arrives is None else arrives
            continue
        parts = [emitted.get(edge.producer) for edge in job.into[operator.id]]
        rate = sum(part for part in parts if part is not None)
        taken[operator.id] = rate if parts and None not in parts else None
        emitted[operator.id] = _output(operator, taken[operator.id])
    return taken


def _is_source(job: Job, operator: Operator) -> bool:
    return operator.arrival is not None or operator.id is None or not (operator.now or job.into[operator.id])


def _output(operator: Operator, rate: float | None) -> float | None:
    """Return lambda_out at an input rate."""
    if rate is None or operator.output_throughput is None or not operator.ability:
        return None
    return operator.output_throughput * (rate / operator.ability)


def _intake(job: Job, operator: Operator) -> float | None:
    """Return the unthrottled intake of a source: its rate, scaled as its output would be."""
    if operator.id is None or operator.output_throughput is None:
        return operator.rate
    emitted = next((o.rows_out_per_s for o in job.app.operators if o.operator == operator.id), None)
    if not emitted or operator.rate is None:
        return operator.output_throughput
    return operator.rate * (operator.output_throughput / emitted)
