"""Flow's proposal for one operator: predicted effect, and the message with its figures."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.model.arrival import arrival_phrase
from millrace.optimizers.conttune.context import OperatorContext
from millrace.optimizers.conttune.messages import Reason, count, message, number, percent
from millrace.optimizers.conttune.sizing import Sizing


def explain(context: OperatorContext, target: int, reason: Reason) -> Sizing:
    """Return what is wanted of an operator, with its model where it is to change."""
    levels = _level_details(context, target)
    if not context.is_known:  # no model: no prediction
        sentence = message(reason, {"app": context.operator.name, **levels})
        return Sizing(context.operator, target, reason.value, sentence)
    effect = predict(context, target)
    sentence = message(reason, {**levels, **_load_details(context, effect)})
    if target == context.now:
        return Sizing(context.operator, target, reason.value, sentence, effect)
    columns = context.curve.columns()
    return Sizing(context.operator, target, reason.value, sentence, effect, columns, context.training)


def predict(context: OperatorContext, target: int) -> Mapping[str, float]:
    """Return what is to be expected at a level; what is unknown is left out.

    Reference:
        A batch that keeps up takes D = o + lambda D / PA, so D = o / (1 - rho).
    """
    ability = context.ability_now if target == context.now else context.curve.at(target)
    effect = {"processing_ability_rows_per_s": ability}
    if ability > 0:
        rho = context.rate / ability
        effect["utilisation_ratio"] = rho
        fixed_s = context.demand.fixed_at(target)
        if fixed_s is not None and rho < 1:
            effect["batch_duration_s"] = fixed_s / (1 - rho)
    return effect


def why_too_small(context: OperatorContext) -> Reason:
    """Return what makes the present level too small, the gravest first."""
    load, ability, rate = context.demand, context.ability_now, context.rate
    if not load.micro_batch or rate > ability:
        return Reason.UNDER_PROVISIONED
    if rate > load.objective.target_utilisation * ability:
        return Reason.UTILISATION_ABOVE_TARGET
    if rate > load.objective.target_utilisation * context.sustained_now:
        return Reason.BATCH_LIMIT
    if rate > load.highest_utilisation(context.effective) * ability:
        return Reason.LATENCY_GOAL
    return Reason.BACKLOG_TO_DRAIN


def _level_details(context: OperatorContext, target: int) -> Mapping[str, str]:
    noun = "slot" if context.operator.id is None else "task"
    return {
        "now": count(context.now, noun),
        "then": count(target, noun),
        "ceiling": count(context.ceiling or context.now, noun),
        "low": str(context.bounds.min_slots),
        "high": str(context.bounds.max_slots),
        "ran": str(context.ran),
        "arrives": arrival_phrase(context.operator.arrival_basis, number(context.rate)),
    }


def _load_details(context: OperatorContext, effect: Mapping[str, float]) -> Mapping[str, str]:
    load = context.demand
    return {
        "app": context.operator.name,
        "ability_now": number(context.ability_now),
        "utilisation_now": percent(context.rate / context.ability_now),
        "ability": number(effect["processing_ability_rows_per_s"]),
        "utilisation": percent(effect.get("utilisation_ratio")),
        "target": percent(load.objective.target_utilisation),
        "max_lag": number(load.objective.max_lag_s),
        "catch_up": number(load.objective.catch_up_s),
        "sustained": number(context.sustained_now),
        "batch_rows": number(load.batch_rows or 0),
        "excess": number(load.excess),
        "waiting": number(load.waiting),
        "held": number(load.held_rows),
        "trigger": number(load.trigger_s),
        "slack": percent(context.options.slack),
        "fixed": number(load.fixed_at(context.effective) or 0.0),
    }
