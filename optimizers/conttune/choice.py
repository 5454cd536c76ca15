"""From the levels that a tuner chooses for a job's operators to what is proposed: bounds, decisionThr, and words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from include.model.signals import Bounds
from optimizers.conttune.job import Job, Operator
from optimizers.conttune.reasons import Reason, number, sentence, slots
from optimizers.conttune.sizing import Columns, Sizing


@dataclass(frozen=True)
class Choice:
    """What a tuner chooses for one operator.

    Attributes:
        operator: One that can be sized.
        target: The p it is to have; the present one for "stay".
        rate: Rows a second it has to process; None if unknown.
        ability: What its present p can process, rows a second; None if unknown.
        expected: What the target is expected to process, rows a second; None if the tuner does not say.
        reason: Why; None for the plain reason of a step up or down, or of none.
        words: Further words of the reason's sentence.
        curve: The model's curve; empty without a model.
        training: Points the model was fitted on.
    """

    operator: Operator
    target: int
    rate: float | None = None
    ability: float | None = None
    expected: float | None = None
    reason: Reason | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    curve: Columns = field(default_factory=dict)
    training: Columns = field(default_factory=dict)

    @property
    def now(self) -> int:
        """The p that is set."""
        return self.operator.now or 0


def clamp(p: int, bounds: Bounds) -> int:
    """Return the allowed level that is nearest to p."""
    return min(max(p, bounds.min_slots), bounds.max_slots)


def worthwhile(p_now: Mapping[str, int], p_new: Mapping[str, int], decision_thr: float) -> bool:
    """Say whether a job is to be reconfigured: one operator that changes enough, either way, takes all along.

    Reference:
        [ContTune], Section 7: P' / P >= 1 + decisionThr down, P / P' >= 1 + decisionThr up.
    """
    pairs = [(p, p_new[name]) for name, p in p_now.items() if p != p_new[name]]
    return any(max(a, b) / min(a, b) >= 1 + decision_thr for a, b in pairs)


def decided(
    job: Job,
    choices: Sequence[Choice],
    bounds: Bounds,
    decision_thr: float = 0.0,
    otherwise: Reason = Reason.WELL_PROVISIONED,
) -> Sequence[Sizing]:
    """Return what is proposed for a job: all changes if one of them is large enough, else a hold and why.

    Args:
        job: The job.
        choices: One an operator that can be sized; targets are held within the bounds.
        bounds: Allowed levels.
        decision_thr: Least relative change of one operator, >= 0.
        otherwise: Why it stays if no operator has a reason of its own.
    """
    wanted = {c.operator.name: clamp(c.target, bounds) for c in choices}
    changing = [c for c in choices if wanted[c.operator.name] != c.now]
    if changing:
        if worthwhile({c.operator.name: c.now for c in choices}, wanted, decision_thr):
            return [_sizing(c, wanted[c.operator.name], bounds) for c in changing]
        return [held(job, Reason.BELOW_DECISION_THRESHOLD, bounds, choices, threshold=percent(decision_thr))]
    if any(c.target > c.now for c in choices):
        return [held(job, Reason.AT_MAXIMUM, bounds, choices)]
    kept = [c for c in choices if c.reason is not None]
    return [_sizing(c, c.now, bounds) for c in kept] or [held(job, otherwise, bounds, choices)]


def held(job: Job, reason: Reason, bounds: Bounds, choices: Sequence[Choice] = (), **words: str) -> Sizing:
    """Return the hold of a whole job, told by its most utilised operator.

    Args:
        job: The job.
        reason: Why it stays.
        bounds: Allowed levels.
        choices: What is known of its operators; without any, what this look measured.
        words: Further words of the sentence.
    """
    known = choices or [Choice(o, o.now or 0, o.rate, o.ability) for o in job.sizable]
    lead = max(known, key=lambda c: utilisation(c.rate, c.ability) or 0.0)
    return _sizing(
        Choice(lead.operator, lead.now, lead.rate, lead.ability, reason=reason, words=words), lead.now, bounds
    )


def told(operator: Operator, target: int, reason: Reason, bounds: Bounds, **words: str) -> Sizing:
    """Return a sizing that needs no model: what this look measured, and why."""
    choice = Choice(operator, target, operator.rate, operator.ability, reason=reason, words=words)
    return _sizing(choice, target, bounds)


def utilisation(rate: float | None, ability: float | None) -> float | None:
    """Return rate / ability; None if that is no finite figure."""
    if rate is None or ability is None or ability <= 0:
        return None
    found = rate / ability
    return found if math.isfinite(found) else None


def figure(value: float | None) -> str:
    """Return a figure as people read it; ``?`` if it is not known."""
    return "?" if value is None or not math.isfinite(value) else number(value)


def percent(ratio: float | None) -> str:
    """Return a ratio in percent, without the sign; ``?`` if it is not known."""
    return "?" if ratio is None or not math.isfinite(ratio) else number(round(100 * ratio))


def _sizing(choice: Choice, target: int, bounds: Bounds) -> Sizing:
    expected = choice.ability if target == choice.now else choice.expected
    predicted = {
        "processing_ability_rows_per_s": expected,
        "utilisation_ratio": utilisation(choice.rate, expected),
    }
    reason = choice.reason or _plain(target, choice.now)
    words = {
        "app": choice.operator.name,
        "now": slots(choice.now),
        "then": slots(target),
        "low": str(bounds.min_slots),
        "high": str(bounds.max_slots),
        "rate": figure(choice.rate),
        "ability_now": figure(choice.ability),
        "utilisation_now": percent(utilisation(choice.rate, choice.ability)),
        "ability": figure(expected),
        "utilisation": percent(predicted["utilisation_ratio"]),
        **choice.words,
    }
    return Sizing(
        choice.operator,
        target,
        reason.value,
        sentence(reason, words),
        {name: value for name, value in predicted.items() if value is not None and math.isfinite(value)},
        choice.curve if target != choice.now else {},
        choice.training if target != choice.now else {},
    )


def _plain(target: int, now: int) -> Reason:
    if target == now:
        return Reason.WELL_PROVISIONED
    return Reason.UNDER_PROVISIONED if target > now else Reason.OVER_PROVISIONED
