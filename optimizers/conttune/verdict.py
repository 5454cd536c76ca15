"""What ContTune wants for one operator, in figures and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optimizers.conttune.look import Look
from optimizers.conttune.memory import Notes
from optimizers.conttune.reasons import Reason, number, sentence, slots

Columns = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Verdict:
    """What is wanted for one operator.

    Attributes:
        operator: Its id.
        before: Present level.
        target: Wanted level; ``before`` for "stay".
        reason: Why.
        sentence: The same for a person.
        notes: What to remember of it.
        predicted: Effect of the target by name with unit.
        curve: The model's curve; empty without a model.
        training: Points the model was fitted on.
    """

    operator: str
    before: int
    target: int
    reason: Reason
    sentence: str
    notes: Notes
    predicted: Mapping[str, float] = field(default_factory=dict)
    curve: Columns = field(default_factory=dict)
    training: Columns = field(default_factory=dict)


def verdict(look: Look, target: int, reason: Reason, notes: Notes) -> Verdict:
    """Return the verdict on a look."""
    if not look.observed:  # no model: no prediction
        words = {"app": look.operator, **_levels(look, target)}
        return Verdict(look.operator, look.now, target, reason, sentence(reason, words), notes)
    effect = predicted(look, target)
    text = sentence(reason, _words(look, target))
    return Verdict(look.operator, look.now, target, reason, text, notes, effect, look.curve.columns(), look.training)


def predicted(look: Look, target: int) -> Mapping[str, float]:
    """Return what is to be expected at a level; what cannot be told is left out.

    Reference:
        A batch that keeps up takes D = o + lambda D / PA, hence D = o / (1 - rho).
    """
    ability = look.ability_now if target == look.now else look.expected(target)
    effect = {"processing_ability_rows_per_s": ability}
    if ability > 0:
        rho = look.demand.rate / ability
        effect["utilisation_ratio"] = rho
        fixed_s = look.demand.fixed_at(target)
        if fixed_s is not None and rho < 1:
            effect["batch_duration_s"] = fixed_s / (1 - rho)
    return effect


def why_up(look: Look) -> Reason:
    """Return what makes the present level too small, the gravest first."""
    load, ability = look.demand, look.ability_now
    if not load.micro_batch or load.rate > ability:
        return Reason.UNDER_PROVISIONED
    if load.rate > load.objective.target_utilisation * ability:
        return Reason.UTILISATION_ABOVE_TARGET
    if load.rate > load.objective.target_utilisation * look.sustained_now:
        return Reason.BATCH_LIMIT
    if load.rate > load.highest_utilisation(look.effective) * ability:
        return Reason.LATENCY_GOAL
    return Reason.BACKLOG_TO_DRAIN if load.catch_up else Reason.UNDER_PROVISIONED


def _words(look: Look, target: int) -> Mapping[str, str]:
    load, options = look.demand, look.options
    effect = predicted(look, target)
    ability = effect["processing_ability_rows_per_s"]
    return {
        "app": look.operator,
        **_levels(look, target),
        "rate": number(load.rate),
        "earlier": number(look.notes.rate or 0.0),
        "ability_now": number(look.ability_now),
        "utilisation_now": _percent(load.rate / look.ability_now) if look.ability_now > 0 else "?",
        "ability": number(ability),
        "utilisation": _percent(effect["utilisation_ratio"]) if "utilisation_ratio" in effect else "?",
        "target": _percent(load.objective.target_utilisation),
        "max_lag": number(load.objective.max_lag_s),
        "catch_up": number(load.objective.catch_up_s),
        "sustained": number(look.sustained_now),
        "batch_rows": number(load.batch_rows or 0),
        "excess": number(load.excess),
        "waiting": number(load.waiting),
        "slack": _percent(options.slack),
        "hysteresis": _percent(options.hysteresis),
        "threshold": _percent(options.decision_thr),
        "ceiling": slots(look.ceiling or look.now),
        "fixed": number(load.fixed_at(look.effective) or 0.0),
    }


def _levels(look: Look, target: int) -> Mapping[str, str]:
    return {
        "now": slots(look.now),
        "then": slots(target),
        "low": str(look.bounds.min_slots),
        "high": str(look.bounds.max_slots),
        "ran": str(look.effective),
    }


def _percent(ratio: float) -> str:
    return number(round(100 * ratio))
