"""Choose a job's scaling step: up if it is too small, down if that frees enough, otherwise none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.model.arrival import ArrivalBasis
from millrace.model.signals import AppSignals
from millrace.optimizers.conttune.explain import why_too_small
from millrace.optimizers.conttune.idle import EVALUATIONS, longest_wait_s
from millrace.optimizers.conttune.messages import Reason, format_number
from millrace.optimizers.conttune.operator_context import OperatorContext
from millrace.optimizers.conttune.options import FlowOptions
from millrace.optimizers.conttune.payback import PayBack, Prospect
from millrace.optimizers.conttune.state import SAME_RATE, AppState

NEWS = 0.01
"""Relative change from which the rate counts as new."""
OF_BACKLOG = frozenset({Reason.BACKLOG_TO_DRAIN, Reason.DRAINING})
"""Reasons why a level is too small for rows that wait, not for those that arrive."""
AT_MAXIMUM = {Reason.BACKLOG_TO_DRAIN: Reason.DRAINING, Reason.BATCH_LIMIT: Reason.BATCH_LIMIT_AT_MAXIMUM}
"""Reason of the hold if more would help but is not allowed, by the reason why the present level is too small."""
LIFT = 2
"""Factor of a step up if the arrival rate is unknown ([ContTune]'s Big phase)."""
STEEPEST, USUAL = 2.0, 1.25
"""Freed levels grow with this power of the load: at most (PA grows with the square root of p), and usually."""


@dataclass(frozen=True)
class JobContext:
    """A job in one evaluation.

    Attributes:
        app: The app's signals.
        operators: Operators that can be sized and whose need is known, in topological order.
        state: The app's memory from before this evaluation.
        rate: Arrival rate, rows per second.
        half_old: The rate jumped so late in the period that the present rate is not clear yet.
        growth: Growth of the backlog of a job of pipelined operators, rows per second.
        behind: The job surely falls behind.
        options: Flow's.
        prospect: When the next rise is expected, and what a change costs.
    """

    app: AppSignals
    operators: tuple[OperatorContext, ...]
    state: AppState
    rate: float
    half_old: bool
    growth: float
    behind: bool
    options: FlowOptions
    prospect: Prospect

    @property
    def is_same_rate(self) -> bool:
        """True if the rate is still that of the last step."""
        return self.state.is_stepped_for(self.rate)

    @property
    def is_new_rate(self) -> bool:
        """True if the rate differs from that of the last evaluation."""
        before = self.state.rate
        return before is None or abs(self.rate - before) > NEWS * max(self.rate, before)

    @property
    def is_lower_bound(self) -> bool:
        """True if more may arrive than was read."""
        return self.app.arrival_basis is ArrivalBasis.AT_LEAST

    def is_seen(self, context: OperatorContext) -> bool:
        """Return whether a lower bound is the true rate: no more arrived when it was known, and the level has room.

        If a source never rests, batches follow each other at any load, and all look full while they are alike.
        """
        before, ability = self.state.rate, context.ability_now
        target = context.demand.objective.target_utilisation
        return before is not None and self.rate <= (1 + SAME_RATE) * before and self.rate <= target * ability


@dataclass(frozen=True)
class ScalingStep:
    """The step to take.

    Attributes:
        reasons: Why, by operator name; all operators that the Proposal should mention.
        targets: Wanted p by operator name; operators that are left out stay.
        small: Names of the operators that are too small.
        pays: Savings and cost of the step down that is made or left out.
        least: Smallest share of p that a step down must free; None if no step was too small.
        details: Further fields of the reasons' messages.
        note: One more sentence; empty for none.
    """

    reasons: Mapping[str, Reason]
    targets: Mapping[str, int] = field(default_factory=dict)
    small: frozenset[str] = frozenset()
    pays: PayBack | None = None
    least: float | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def choose_step(job: JobContext) -> ScalingStep:
    """Return the step for a job."""
    known = [c for c in job.operators if c.is_known]
    if job.is_lower_bound:
        return _lift(job)
    if not known:
        return _give_back(job) or ScalingStep({c.operator.name: Reason.CAPACITY_UNKNOWN for c in job.operators})
    small = [c for c in known if c.is_too_small(job.growth > 0)]
    if job.behind and not small:  # one of the measurements is too good to be true
        small = [max(known, key=lambda c: c.load_ratio)]
    return _step_up(job, known, small) if small else _step_down(job, known)


def _lift(job: JobContext) -> ScalingStep:
    """Return a step towards a level that shows how much arrives; never a step down."""
    reasons: dict[str, Reason] = {}
    targets: dict[str, int] = {}
    for context in job.operators:
        name, now = context.operator.name, context.now
        if context.is_known and job.is_seen(context):
            reasons[name] = Reason.WELL_PROVISIONED
            continue
        reasons[name] = Reason.BATCHES_FULL
        if context.is_starved:
            reasons[name] = Reason.SOURCE_SPLITS if job.app.source_splits else Reason.TOO_FEW_TASKS
        elif context.is_known and context.ceiling is not None and now >= context.ceiling:
            reasons[name] = Reason.INEFFECTIVE_SCALING
        elif (higher := context.level(LIFT * now)) <= now:
            reasons[name] = Reason.ALL_TASKS_RUN if context.runs_all_tasks else Reason.BATCHES_FULL_AT_MAXIMUM
        else:
            targets[name] = higher
    return ScalingStep(reasons, targets)


def _step_up(job: JobContext, contexts: Sequence[OperatorContext], small: Sequence[OperatorContext]) -> ScalingStep:
    names = frozenset(c.operator.name for c in small)
    targets: dict[str, int] = {}
    reasons: dict[str, Reason] = {}
    for context in (*small, *(c for c in contexts if c.operator.name not in names)):  # small ones first
        name = context.operator.name
        if name not in names:
            if context.wanted > context.now or (not job.is_same_rate and _frees_enough(context)):
                targets[name] = context.wanted
                higher = context.wanted > context.now
                reasons[name] = why_too_small(context) if higher else Reason.OVER_PROVISIONED
            continue
        reasons[name], target = _higher_level(context, job.app.source_splits)
        if target != context.now:
            targets[name] = target
    if not any(name in targets for name in names):  # nothing helps the small operators: the others can wait
        return ScalingStep({name: reasons[name] for name in names}, small=names)
    falls_behind = job.behind or any(c.rate > c.ability_now for c in contexts)
    if job.half_old and not (falls_behind and job.app.arrival_recent_rows_per_s is None):
        return ScalingStep(dict.fromkeys(names, Reason.WINDOW_HALF_OLD), small=names)
    return ScalingStep(reasons, targets, small=names)


def _higher_level(context: OperatorContext, source_splits: bool) -> tuple[Reason, int]:
    """Return the new p of an operator that is too small, and why; the present one if nothing helps."""
    if context.is_starved:
        of_source = source_splits and context.operator.id is None
        return Reason.SOURCE_SPLITS if of_source else Reason.TOO_FEW_TASKS, context.now
    if context.ceiling is not None and context.now >= context.ceiling:
        # slots beyond it can be given back
        return Reason.INEFFECTIVE_SCALING, context.level(context.ceiling)
    reason = why_too_small(context)
    higher = context.level(max(context.wanted, context.now + 1 + context.state.failures))
    if higher <= context.now:
        otherwise = Reason.ALL_TASKS_RUN if context.runs_all_tasks else Reason.AT_MAXIMUM
        return AT_MAXIMUM.get(reason, otherwise), context.now
    return reason, higher


def _step_down(job: JobContext, contexts: Sequence[OperatorContext]) -> ScalingStep:
    stay = _stay(contexts, Reason.WELL_PROVISIONED)
    total = sum(c.now for c in contexts)
    least = job.options.reshave if job.is_same_rate else job.options.slack
    steepest = STEEPEST if job.is_new_rate else USUAL
    if sum(c.now * min(1.0, c.load_ratio) ** steepest for c in contexts) > (1 - least) * total:
        return stay  # such a curve would not free enough: no model needed
    if any(c.demand.is_draining(c.throughput_now) for c in contexts):
        return ScalingStep({c.operator.name: Reason.DRAINING for c in contexts})
    lower = {c.operator.name: (c.now, p) for c in contexts if (p := _lower_level(c)) < c.now}
    freed = sum(now - p for now, p in lower.values())
    if not freed:
        if all(c.level(1) >= c.now for c in contexts):
            return _stay(contexts, Reason.AT_MINIMUM)
        if not any(c.operator.ability is None for c in contexts):
            return _stay(contexts, Reason.NO_SAFE_LOWER_LEVEL)
        return _give_back(job) or _stay(contexts, Reason.LEVEL_NOT_PROVEN)
    if freed < least * total:
        unmeasured = any(c.operator.ability is None for c in contexts)
        idle = _give_back(job) if unmeasured else None
        return idle or replace(_stay(contexts, Reason.SLACK_TOO_SMALL), least=least)
    if job.half_old:
        return ScalingStep(dict.fromkeys(lower, Reason.WINDOW_HALF_OLD))
    return _pay(job, contexts, {name: p for name, (_, p) in lower.items()}, least)


def _give_back(job: JobContext) -> ScalingStep | None:
    """Return a step to half of the slots if the app has been idle for long enough; None if there is none."""
    (context, *others) = job.operators
    if others or context.operator.id is not None or job.state.idle < EVALUATIONS:
        return None
    lower = context.level(math.ceil(context.now / 2))
    if lower >= context.now:
        return None
    name, wait_s = context.operator.name, longest_wait_s(job.app, job.prospect.period_s)
    details = {
        "evaluations": str(job.state.idle),
        "longest_wait": format_number(wait_s),
        "max_lag": format_number(context.demand.objective.max_lag_s),
    }
    return ScalingStep({name: Reason.NEARLY_EMPTY}, {name: lower}, details=details)


def _pay(job: JobContext, contexts: Sequence[OperatorContext], lower: Mapping[str, int], least: float) -> ScalingStep:
    """Return the deepest step down that pays for itself; an app as a whole may go part of the way."""
    total = sum(c.now for c in contexts)
    steps = [lower]
    if len(contexts) == 1:
        (context,), (deepest,) = contexts, lower.values()
        # deepest is a level already: the level of an allowed 4 that does no more than 3 would be one that does more
        between = sorted({deepest, *(context.level(p) for p in range(deepest + 1, context.now))})
        steps = [{context.operator.name: p} for p in between if context.now - p >= least * total]
    found: list[PayBack] = []
    for step in steps:
        freed = sum(c.now - step[c.operator.name] for c in contexts if c.operator.name in step)
        sustained = min(_sustained(job, c, step[c.operator.name]) for c in contexts if c.operator.name in step)
        pays = job.prospect.pay_back(total, total - freed, sustained)
        if pays.pays:
            return ScalingStep(dict.fromkeys(step, Reason.OVER_PROVISIONED), step, pays=pays)
        found.append(pays)
    return ScalingStep(dict.fromkeys(lower, Reason.DOES_NOT_PAY), pays=found[0])


def _sustained(job: JobContext, context: OperatorContext, parallelism: int) -> float:
    """Return the job's arrival rate up to which a lower level of an operator is left alone, rows per second."""
    if context.bursts is not None:
        return math.inf  # the lower level is sized for the bursts: no rise is due with the next one
    sustained = context.demand.planned(context.curve.at(parallelism), parallelism) * (1 + job.options.tolerance)
    if context.operator.id is None:
        return sustained
    return sustained * job.rate / context.rate if context.rate > 0 else math.inf


def _lower_level(context: OperatorContext) -> int:
    if context.operator.ability is not None:
        return context.wanted
    return context.level(max(context.wanted, context.levels[0].parallelism))  # not measured now: no untried level


def _frees_enough(context: OperatorContext) -> bool:
    return context.now - context.wanted >= max(1.0, context.options.slack * context.now)


def _stay(contexts: Sequence[OperatorContext], otherwise: Reason) -> ScalingStep:
    return ScalingStep({c.operator.name: _why_stay(c, otherwise) for c in contexts})


def _why_stay(context: OperatorContext, otherwise: Reason) -> Reason:
    if not context.demand.is_attainable(context.effective):
        return Reason.LATENCY_UNATTAINABLE
    if context.demand.held_rows:
        return Reason.HELD_BY_TRIGGER
    return Reason.DRAINING if context.demand.is_draining(context.throughput_now) else otherwise
