"""Turn the levels that a tuner chooses for a job's operators into one Proposal: bounds, decisionThr, messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from millrace.model.arrival import arrival_phrase
from millrace.model.contingency import Contingency
from millrace.model.decision import Proposal
from millrace.model.objective import Bounds
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.messages import ENOUGH, Reason, count, message, number, percent

Columns = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Sizing:
    """The wanted size of one operator, as a Proposal has it.

    Attributes:
        operator: An operator that can be sized.
        target: Wanted p; the present p if nothing changes.
        reason: Reason code in snake case.
        sentence: The reason as a sentence.
        predicted: Effect of the target by name with unit; empty without a model.
        curve: The model's curve, columns of equal length; empty without a model.
        training: Points that the model was fitted to.
        contingencies: Plan for more arrival before the next evaluation.
        need: Rows per second that it has to process; None if unknown.
        curve_at: Returns the throughput at a p, rows per second; None without a model.
    """

    operator: Operator
    target: int
    reason: str
    sentence: str
    predicted: Mapping[str, float] = field(default_factory=dict)
    curve: Columns = field(default_factory=dict)
    training: Columns = field(default_factory=dict)
    contingencies: tuple[Contingency, ...] = ()
    need: float | None = None
    curve_at: Callable[[int], float] | None = None

    def throughput(self, parallelism: int) -> float:
        """Return the throughput at a p, rows per second: the model's, or in proportion to what is predicted."""
        if self.curve_at is not None:
            return self.curve_at(parallelism)
        return self.predicted.get("throughput_rows_per_s", 0.0) * parallelism / max(1, self.target)

    @property
    def changes(self) -> bool:
        """True if the operator gets another p."""
        return self.target != self.operator.now


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
    reason: Reason | None = None
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
    otherwise: Reason = Reason.WELL_PROVISIONED,
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
        return [hold_job(job, Reason.BELOW_DECISION_THRESHOLD, bounds, choices, threshold=percent(decision_thr))]
    if any(c.target > c.now for c in choices):
        return [hold_job(job, Reason.AT_MAXIMUM, bounds, choices)]
    with_reasons = [_sizing(c, c.now, bounds) for c in choices if c.reason is not None]
    return with_reasons or [hold_job(job, otherwise, bounds, choices)]


def hold_job(job: Job, reason: Reason, bounds: Bounds, choices: Sequence[Choice] = (), **details: str) -> Sizing:
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


def size_operator(operator: Operator, target: int, reason: Reason, bounds: Bounds) -> Sizing:
    """Return a sizing without a model, from the figures of this evaluation."""
    return _sizing(Choice(operator, target, operator.rate, operator.ability, reason=reason), target, bounds)


def utilisation(rate: float | None, ability: float | None) -> float | None:
    """Return rate / ability; None if it is unknown."""
    if rate is None or ability is None or ability <= 0:
        return None
    ratio = rate / ability
    return ratio if math.isfinite(ratio) else None


def proposal(optimizer: str, sizings: Sequence[Sizing]) -> Proposal:
    """Return all sizings as one proposal, with the model of the first operator that changes, otherwise of the first.

    With several operators or apps, predictions are named ``name/operator`` or ``name/app``.

    Args:
        optimizer: The tuner's registry name.
        sizings: One per operator, in any order.
    """
    if not sizings:
        return Proposal(optimizer, (), "no_signals", "No app was measured. No decision.")
    changing = [s for s in sizings if s.changes]
    shown = changing or list(sizings)
    lead = shown[0]
    alone = len(shown) == 1 and lead.operator.id is None
    sentence = lead.sentence if alone else " ".join(map(_with_name, shown))
    several = len({s.operator.app for s in shown}) > 1
    return Proposal(
        optimizer=optimizer,
        changes=tuple(s.operator.change(s.target) for s in changing),
        reason_code=lead.reason,
        sentence=sentence,
        predicted={
            f"{name}/{s.operator.id or s.operator.app}" if several or s.operator.id is not None else name: value
            for s in shown
            for name, value in s.predicted.items()
        },
        curve=lead.curve,
        training=lead.training,
        contingencies=tuple(line for s in sizings for line in s.contingencies),
    )


def _with_name(sizing: Sizing) -> str:
    name = sizing.operator.id or sizing.operator.app
    return sizing.sentence if sizing.sentence.startswith(name) else f"{name}: {sizing.sentence}"


def _sizing(choice: Choice, target: int, bounds: Bounds) -> Sizing:
    expected = choice.ability if target == choice.now else choice.expected
    predicted = {
        "throughput_rows_per_s": expected,
        "utilisation_ratio": utilisation(choice.rate, expected),
    }
    reason = choice.reason or _plain_reason(target, choice.now)
    details = {
        "app": choice.operator.name,
        "now": count(choice.now, "slot"),
        "then": count(target, "slot"),
        "low": str(bounds.min_slots),
        "high": str(bounds.max_slots),
        "min_key": bounds.min_key,
        "max_key": bounds.max_key,
        "arrives": arrival_phrase(choice.operator.arrival_basis, number(choice.rate), choice.operator.span_s),
        "ability_now": number(choice.ability),
        "utilisation_now": percent(utilisation(choice.rate, choice.ability)),
        "verdict": ENOUGH,
        "ability": number(expected),
        "utilisation": percent(predicted["utilisation_ratio"]),
        "pays": "",
        **choice.details,
    }
    return Sizing(
        choice.operator,
        target,
        reason.value,
        message(reason, details),
        {name: value for name, value in predicted.items() if value is not None and math.isfinite(value)},
        choice.curve if target != choice.now else {},
        choice.training if target != choice.now else {},
        need=choice.rate,
    )


def _plain_reason(target: int, now: int) -> Reason:
    if target == now:
        return Reason.WELL_PROVISIONED
    return Reason.UNDER_PROVISIONED if target > now else Reason.OVER_PROVISIONED
