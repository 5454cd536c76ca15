"""Describe flow's proposal for one operator: the predicted effect, and the message with its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from millrace.model import row_wait
from millrace.model.arrival import arrival_phrase
from millrace.optimizers.conttune.goal import sentence as say
from millrace.optimizers.conttune.goal import unmet_goal
from millrace.optimizers.conttune.messages import ENOUGH, NEARLY_ENOUGH, Reason, count, format_number, message, percent
from millrace.optimizers.conttune.operator_context import OperatorContext
from millrace.optimizers.conttune.payback import PayBack
from millrace.optimizers.conttune.sizing import Sizing


def explain(
    context: OperatorContext,
    target: int,
    reason: Reason,
    pays: PayBack | None = None,
    least: float | None = None,
    details: Mapping[str, str] = MappingProxyType({}),
) -> Sizing:
    """Return the sizing of an operator, with its model if it changes.

    Args:
        context: The operator.
        target: Wanted p.
        reason: Why.
        pays: Saving and cost of the step down, made or left out.
        least: Smallest share of p that a step down must free; None for the usual ``slack``.
        details: Further fields of the reason's message.
    """
    levels = _level_details(context, target)
    if not context.is_known:  # no model: no prediction
        sentence = message(reason, {"app": context.operator.name, **levels, **details})
        return Sizing(context.operator, target, reason.value, sentence)
    effect = predict(context, target)
    slack = {"slack": percent(context.options.slack if least is None else least)}
    figures = {**_load_details(context, target, effect), **_pays(context, pays), **details}
    sentence = message(reason, {**levels, **slack, **figures})
    sentence += _of_bursts(context, target, effect["throughput_rows_per_s"])
    if (unmet := unmet_goal(context)) is not None:
        sentence += f" {say(unmet, context.demand.objective.max_lag_s)}"
    if target == context.now:
        return Sizing(context.operator, target, reason.value, sentence, effect)
    columns = context.curve.columns()
    return Sizing(context.operator, target, reason.value, sentence, effect, columns, context.training)


def predict(context: OperatorContext, target: int) -> Mapping[str, float]:
    """Return the expected effect of a level, without unknown figures.

    Reference:
        A batch that keeps up takes D = o + lambda D / PA, so D = o / (1 - rho); :mod:`millrace.model.row_wait`.
    """
    ability = context.ability_now if target == context.now else context.curve.at(target)
    effect = {"throughput_rows_per_s": ability}
    if ability > 0:
        rho = context.rate / ability
        effect["utilisation_ratio"] = rho
        fixed_s = context.demand.fixed_at(target)
        trigger_s = context.demand.trigger_s
        if fixed_s is not None and math.isfinite(batch_s := row_wait.batch_s(fixed_s, rho, trigger_s)):
            effect["batch_duration_s"] = batch_s
            effect["longest_wait_s"] = row_wait.longest_wait_s(batch_s, trigger_s)
    return effect


def why_too_small(context: OperatorContext) -> Reason:
    """Return the most serious reason why the present level is too small."""
    load, ability, rate = context.demand, context.ability_now, context.rate
    if load.burst_rows and load.needs_more_for_burst(ability, context.effective):
        return Reason.BURSTS
    if not load.micro_batch or rate > ability:
        return Reason.UNDER_PROVISIONED
    target, sustainable = load.objective.target_utilisation, load.sustainable(ability, context.effective)
    if rate > sustainable:
        return Reason.BATCH_LIMIT if sustainable == context.throughput_now else Reason.LATENCY_GOAL
    if rate > target * ability:
        return Reason.UTILISATION_ABOVE_TARGET
    if rate > target * context.throughput_now:
        return Reason.BATCH_LIMIT
    return Reason.BACKLOG_TO_DRAIN


def _level_details(context: OperatorContext, target: int) -> Mapping[str, str]:
    noun = "slot" if context.operator.id is None else "task"
    return {
        "now": count(context.now, noun),
        "then": count(target, noun),
        "ceiling": count(context.ceiling or context.now, noun),
        "low": str(context.bounds.min_slots),
        "high": str(context.bounds.max_slots),
        "min_key": context.bounds.min_key,
        "max_key": context.bounds.max_key,
        "ran": str(context.ran),
        "tasks": str(context.operator.tasks),
        "arrives": _arrives(context),
    }


def _load_details(context: OperatorContext, target: int, effect: Mapping[str, float]) -> Mapping[str, str]:
    load, ability = context.demand, effect["throughput_rows_per_s"]
    sustains = load.sustainable(ability, target)
    sustains_now = load.sustainable(context.ability_now, context.effective)
    return {
        "app": context.operator.name,
        "ability_now": format_number(sustains_now),
        "utilisation_now": percent(context.rate / sustains_now),
        "verdict": ENOUGH if context.rate <= sustains_now else NEARLY_ENOUGH,
        "ability": format_number(sustains),
        "utilisation": percent(context.rate / sustains),
        "drains": _drains(load.drain_s(ability, target)),
        "drains_now": _drains(load.drain_s(context.ability_now, context.effective)),
        "target": percent(load.objective.target_utilisation),
        "max_lag": format_number(load.objective.max_lag_s),
        "catch_up": format_number(load.objective.catch_up_s),
        "batch_rows": format_number(load.batch_rows or 0),
        "waiting": format_number(load.waiting),
        "held": format_number(load.held_rows),
        "trigger": format_number(load.trigger_s),
    }


def _drains(seconds: float) -> str:
    """Say how long the backlog takes to drain."""
    return f"catch up in about {format_number(seconds)} s" if math.isfinite(seconds) else "never catch up"


def _pays(context: OperatorContext, pays: PayBack | None) -> Mapping[str, str]:
    """Say what a step down saves and costs."""
    if pays is None:
        return {"pays": "", "lower": "", "saved": "", "cost": ""}
    saved = format_number(round(pays.saved) if math.isfinite(pays.saved) else None)
    cost = format_number(round(pays.cost))
    if math.isfinite(pays.saved):
        text = f" This saves about {saved} slot-seconds until the next rise; scaling down and up again costs {cost}."
    else:
        text = f" Scaling down and up again costs {cost} slot-seconds, which it saves in {_paid_s(pays)} s."
        text += "" if context.bursts else " No rise is expected."
    noun = "slot" if context.operator.id is None else "task"
    return {"pays": text, "lower": count(context.now - pays.freed, noun), "saved": saved, "cost": cost}


def _paid_s(pays: PayBack) -> str:
    return format_number(math.ceil(pays.cost / pays.freed))


def _arrives(context: OperatorContext) -> str:
    if context.bursts is not None:
        rows, every_s = format_number(context.bursts.rows), format_number(context.bursts.every_s)
        mean = format_number(context.rate)
        return f"{rows} rows arrive at once about every {every_s} s ({mean} rows/s on average)"
    return arrival_phrase(context.operator.arrival_basis, format_number(context.rate), context.operator.span_s)


def _of_bursts(context: OperatorContext, target: int, ability: float) -> str:
    """Say whether the slots change for the bursts; empty if there are none."""
    if context.bursts is None:
        return ""
    takes = f"{count(target, 'slot')} can process one in {format_number(context.demand.burst_s(ability, target))} s"
    goal = f"goal: {format_number(context.demand.objective.max_lag_s)} s"
    what = "No change for the bursts" if target == context.now else "Sized for the bursts"
    return f" {what}: {takes} ({goal})."
