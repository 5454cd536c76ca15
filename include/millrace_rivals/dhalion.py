"""Dhalion's rules: symptoms, a diagnosis, an action, and a blacklist of actions that failed.

    under-provisioned   an operator backpressures its upstream, and nothing holds it up itself: the backpressure starts
                        there. With the share b of time that its input was held up, p' = ceil(p (1 + b / (1 - b))): time
                        held up over time that ran, as in its paper.
    over-provisioned    nothing in the job is held up, and an operator is idle for much of the time: p' = p (1 - share).

Assumptions, because [ContTune]'s text only names the rules:
    - Several operators that start backpressure in one evaluation, on different branches, are scaled in one
      reconfiguration, and so are all idle ones. Of the consumers of a held-up producer, the busiest starts it.
    - b is the largest backpressured share among the operators upstream; an app as one operator has its own. It is
      capped: one step multiplies p by at most ``scale_up_max``.
    - "Pending packets near zero", its sign of over-provisioning, is a busy ratio below ``idle_thr``.
    - A step is judged in the first evaluation with its levels. A step up failed if the operator still starts
      backpressure and takes in no more rows. A step down failed if backpressure now starts there. A failed step up is
      not repeated, and no step down to the failed level or below is made, until the operator's rate differs by
      ``RATE_CHANGE`` from its former one (is lower by it, after a step down).

Reference:
    Floratou et al., "Dhalion: self-regulating stream processing in Heron", PVLDB 10(12), 2017; the rival of [ContTune],
    Section 8.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.optimizers.api import Options
from millrace.optimizers.conttune.base_tuner import AppMemory, BaseTuner, Sizings
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.messages import percent
from millrace.optimizers.memory import mapping, number, whole
from millrace_rivals.messages import RivalReason
from millrace_rivals.sizing import Choice, size_job

LEAST_SHARE = 1e-9
"""Least share of time that an operator's input ran: it keeps the factor of a step up finite."""
RATE_CHANGE = 0.1
"""Relative change of an operator's rate after which a failed step may be tried again."""
MORE_ROWS = 0.02
"""Relative growth of an operator's rate that shows that a step up had an effect."""


class DhalionOptions(Options):
    """How Dhalion decides.

    Attributes:
        backpressure_thr: Share of time held up that counts as backpressure, (0, 1].
        scale_up_max: Largest factor of one step up, > 1.
        idle_thr: Busy ratio below which an operator counts as over-provisioned, [0, 1).
        scale_down: Share of p that a step down removes, (0, 1).
    """

    backpressure_thr: float = Field(0.1, gt=0, le=1)
    scale_up_max: float = Field(4.0, gt=1)
    idle_thr: float = Field(0.6, ge=0, lt=1)
    scale_down: float = Field(0.3, gt=0, lt=1)


class Dhalion(BaseTuner[DhalionOptions]):
    """Sizes jobs by Dhalion's rules."""

    name = "dhalion"
    Options = DhalionOptions

    def tune(self, signals: Signals, job: Job, memory: AppMemory) -> Sizings:
        """Decide on one job."""
        threshold = self.options.backpressure_thr
        pressed = held_up(job, threshold)
        steps, failed = _read(memory.get("made")), _read(memory.get("failed"))
        steps, failed = judge(job, pressed, steps, failed)
        calm = not pressed and _is_calm(job, threshold)
        step = signals.bounds.step
        choices = [self._choose(o, pressed.get(o.name), calm, failed.get(o.name), step) for o in job.sizable]
        choices = [_with_expected(choice, signals.bounds) for choice in choices]
        for choice in choices:
            target = signals.bounds.level(choice.target)
            if target != choice.now:
                steps[choice.operator.name] = Attempt(choice.now, target, choice.operator.rate)
        return size_job(job, choices, signals.bounds), {"made": _to_json(steps), "failed": _to_json(failed)}

    def _choose(
        self, operator: Operator, pressed: float | None, calm: bool, failed: Attempt | None, step: int
    ) -> Choice:
        if pressed is not None:
            return self._up(operator, pressed, failed)
        if calm and self._is_idle(operator):
            return self._down(operator, failed, step)
        return _stay(operator)

    def _up(self, operator: Operator, pressed: float, failed: Attempt | None) -> Choice:
        if failed is not None and failed.after > failed.before:
            return _stay(operator, RivalReason.STEP_FAILED_BEFORE)
        factor = min(1 / max(1 - pressed, LEAST_SHARE), self.options.scale_up_max)
        target = math.ceil((operator.now or 1) * factor)
        return _step(operator, target, RivalReason.BACKPRESSURE_STARTS_HERE, {"pressed": percent(pressed)})

    def _down(self, operator: Operator, failed: Attempt | None, step: int) -> Choice:
        now = operator.now or 1
        target = max(1, min(now - step, math.floor(now * (1 - self.options.scale_down))))
        if failed is not None and failed.before > failed.after >= target:
            return _stay(operator, RivalReason.STEP_FAILED_BEFORE)
        if target == now:
            return _stay(operator)
        return _step(operator, target, RivalReason.IDLE_WITHOUT_BACKPRESSURE, {"busy": percent(operator.busy_ratio)})

    def _is_idle(self, operator: Operator) -> bool:
        """Return whether an operator has too little to do; with a missing figure it counts as busy."""
        if operator.rate is None or operator.ability is None or operator.busy_ratio is None:
            return False
        return operator.busy_ratio < self.options.idle_thr


def _stay(operator: Operator, reason: RivalReason | None = None) -> Choice:
    return Choice(operator, operator.now or 1, operator.rate, operator.ability, reason=reason)


def _step(operator: Operator, target: int, reason: RivalReason, details: Mapping[str, str]) -> Choice:
    return Choice(operator, target, operator.rate, operator.ability, reason=reason, details=details)


def _with_expected(choice: Choice, bounds: Bounds) -> Choice:
    """Return the choice with the throughput of its level by linear scaling."""
    if choice.ability is None:
        return choice
    return replace(choice, expected=choice.ability * bounds.level(choice.target) / (choice.now or 1))


def held_up(job: Job, threshold: float) -> Mapping[str, float]:
    """Return the operators at which backpressure starts, with the share of time that their input is held up.

    Args:
        job: The job. Its operators' ``backpressured_ratio`` is the share of time in which their consumers kept them
            from working; for an app as one operator, the share in which it did not keep up.
        threshold: Least share that counts.
    """
    starts: dict[str, float] = {}
    for operator in job.sizable:
        own = operator.backpressured_ratio or 0.0
        if operator.id is None:
            if own >= threshold:
                starts[operator.name] = own
        elif own < threshold:
            feeding = (job.by_id[edge.producer] for edge in job.into[operator.id])
            pressed = [p.backpressured_ratio or 0.0 for p in feeding if _busiest(job, operator, p)]
            if max(pressed, default=0.0) >= threshold:
                starts[operator.name] = max(pressed)
    return starts


def _busiest(job: Job, operator: Operator, producer: Operator) -> bool:
    consumers = (job.by_id[edge.consumer] for edge in job.edges if edge.producer == producer.id)
    return (operator.busy_ratio or 0.0) >= max(consumer.busy_ratio or 0.0 for consumer in consumers)


def _is_calm(job: Job, threshold: float) -> bool:
    """Return whether nothing in the job is held up, according to the known figures."""
    ratios = [job.app.backpressured_ratio, *(o.backpressured_ratio for o in job.operators)]
    known = [ratio for ratio in ratios if ratio is not None]
    return bool(known) and max(known) < threshold


@dataclass(frozen=True)
class Attempt:
    """A step of one operator: from which p to which, at which input rate (rows per second; None if unknown)."""

    before: int
    after: int
    rate: float | None


Attempts = Mapping[str, Attempt]


def judge(
    job: Job, pressed: Mapping[str, float], steps: Attempts, failed: Attempts
) -> tuple[dict[str, Attempt], dict[str, Attempt]]:
    """Return the steps still to be judged, and the failed ones that still bar others."""
    waiting, bars = dict(steps), dict(failed)
    for operator in job.sizable:
        name, rate = operator.name, operator.rate
        if name in bars and _is_forgotten(bars[name], rate):
            del bars[name]
        step = waiting.get(name)
        if step is None or step.before == operator.now:  # none, or not applied yet
            continue
        del waiting[name]
        useless = step.after < step.before or not _brought_more(step, rate)
        if step.after == operator.now and name in pressed and useless:
            bars[name] = step
    return waiting, bars


def _brought_more(step: Attempt, rate: float | None) -> bool:
    return rate is None or step.rate is None or rate > step.rate * (1 + MORE_ROWS)


def _is_forgotten(step: Attempt, rate: float | None) -> bool:
    if rate is None or step.rate is None:
        return False
    lower = rate < step.rate * (1 - RATE_CHANGE)
    return lower or (step.after > step.before and rate > step.rate * (1 + RATE_CHANGE))


def _read(stored: object) -> dict[str, Attempt]:
    """Return stored steps by operator."""
    attempts = {}
    for name, value in mapping(stored).items():
        step = mapping(value)
        before, after = whole(step.get("before")), whole(step.get("after"))
        if before and after:
            attempts[name] = Attempt(before, after, number(step.get("rate"), 0.0))
    return attempts


def _to_json(attempts: Attempts) -> Mapping[str, Any]:
    """Return steps as a JSON value."""
    return {n: {"before": a.before, "after": a.after, "rate": a.rate} for n, a in sorted(attempts.items())}
