"""Turn the levels that a published tuner chooses for a job's operators into sizings: bounds, decisionThr, messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.model.objective import Bounds
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.messages import ENOUGH, Reason, format_number, percent
from millrace.optimizers.conttune.sizing import Columns, Sizing, message_fields, predicted_effect, utilisation
from millrace_rivals.messages import AnyReason, RivalReason, message


@dataclass(frozen=True)
class Choice:
    """A tuner's choice for one operator, before bounds and decisionThr.

    Attributes:
        operator: An operator that can be sized.
        target: Wanted p; the present p if nothing changes.
        rate: Rows per second that it must process; None if unknown.
        ability: Rows per second that its present p can process; None if unknown.
        expected: Rows per second that the target should process; None if the tuner does not predict it.
        reason: Why; None for the default reason of a step up, a step down or no change.
        details: Further fields of the reason's message.
        curve: The model's curve; empty without a model.
        training: Points that the model was fitted to.
    """

    operator: Operator
    target: int
    rate: float | None = None
    ability: float | None = None
    expected: float | None = None
    reason: AnyReason | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    curve: Columns = field(default_factory=dict)
    training: Columns = field(default_factory=dict)

    @property
    def now(self) -> int:
        """The p that is set."""
        return self.operator.now or 0


def is_worthwhile(p_now: Mapping[str, int], p_new: Mapping[str, int], decision_thr: float) -> bool:
    """Return whether to reconfigure a job: all operators change if one changes enough, up or down.

    Reference:
        [ContTune], Section 7: P' / P >= 1 + decisionThr down, P / P' >= 1 + decisionThr up.
    """
    pairs = [(p, p_new[name]) for name, p in p_now.items() if p != p_new[name]]
    return any(max(a, b) / min(a, b) >= 1 + decision_thr for a, b in pairs)


def size_job(
    job: Job,
    choices: Sequence[Choice],
    bounds: Bounds,
    decision_thr: float = 0.0,
    otherwise: AnyReason = Reason.WELL_PROVISIONED,
) -> Sequence[Sizing]:
    """Return the sizings of a job: all changes if one is large enough, else a hold with its reason.

    Args:
        job: The job.
        choices: One per operator that can be sized; targets are clipped to the bounds.
        bounds: Allowed levels.
        decision_thr: Smallest relative change of one operator, >= 0.
        otherwise: Reason to stay if no operator has its own.
    """
    targets = {c.operator.name: bounds.level(c.target) for c in choices}
    changing = [c for c in choices if targets[c.operator.name] != c.now]
    if changing:
        if is_worthwhile({c.operator.name: c.now for c in choices}, targets, decision_thr):
            return [_sizing(c, targets[c.operator.name], bounds) for c in changing]
        threshold = percent(decision_thr)
        return [hold_job(job, RivalReason.BELOW_DECISION_THRESHOLD, bounds, choices, threshold=threshold)]
    if any(c.target > c.now for c in choices):
        return [hold_job(job, Reason.AT_MAXIMUM, bounds, choices)]
    with_reasons = [_sizing(c, c.now, bounds) for c in choices if c.reason is not None]
    return with_reasons or [hold_job(job, otherwise, bounds, choices)]


def hold_job(job: Job, reason: AnyReason, bounds: Bounds, choices: Sequence[Choice] = (), **details: str) -> Sizing:
    """Return the hold of a whole job, with the figures of its most utilised operator.

    Args:
        job: The job.
        reason: Why it stays.
        bounds: Allowed levels.
        choices: Known figures of its operators; by default, those of this evaluation.
        details: Further fields of the message.
    """
    shown = choices or [Choice(o, o.now or 0, o.rate, o.ability) for o in job.sizable]
    lead = max(shown, key=lambda c: utilisation(c.rate, c.ability) or 0.0)
    choice = Choice(lead.operator, lead.now, lead.rate, lead.ability, reason=reason, details=details)
    return _sizing(choice, lead.now, bounds)


def size_operator(operator: Operator, target: int, reason: AnyReason, bounds: Bounds) -> Sizing:
    """Return a sizing without a model, from the figures of this evaluation."""
    return _sizing(Choice(operator, target, operator.rate, operator.ability, reason=reason), target, bounds)


def _sizing(choice: Choice, target: int, bounds: Bounds) -> Sizing:
    changes = target != choice.now
    expected = choice.expected if changes else choice.ability
    effect = predicted_effect(choice.rate, expected)
    reason = choice.reason or _plain_reason(target, choice.now)
    details = {
        **message_fields(replace(choice.operator, rate=choice.rate, ability=choice.ability), target, bounds),
        "utilisation_now": percent(utilisation(choice.rate, choice.ability)),
        "verdict": ENOUGH,
        "ability": format_number(expected),
        "utilisation": percent(effect.get("utilisation_ratio")),
        "pays": "",
        **choice.details,
    }
    return Sizing(
        choice.operator,
        target,
        reason.value,
        message(reason, details),
        effect,
        choice.curve if changes else {},
        choice.training if changes else {},
        need=choice.rate,
    )


def _plain_reason(target: int, now: int) -> Reason:
    if target == now:
        return Reason.WELL_PROVISIONED
    return Reason.UNDER_PROVISIONED if target > now else Reason.OVER_PROVISIONED
