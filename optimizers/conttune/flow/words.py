"""What flow wants for one operator, in figures and in words."""

from __future__ import annotations

from collections.abc import Mapping

from optimizers.conttune.flow.site import Site
from optimizers.conttune.reasons import Reason, number, sentence, slots
from optimizers.conttune.sizing import Sizing


def sizing(site: Site, target: int, reason: Reason) -> Sizing:
    """Return what is wanted of an operator, with its model where a model was asked.

    Args:
        site: The operator in this look.
        target: The p it is to have.
        reason: Why.
    """
    if not site.known:  # no model: no prediction
        words = {"app": site.operator.name, **_levels(site, target)}
        return Sizing(site.operator, target, reason.value, sentence(reason, words))
    effect = predicted(site, target)
    text = sentence(reason, _words(site, target, effect))
    if target == site.now:
        return Sizing(site.operator, target, reason.value, text, effect)
    return Sizing(site.operator, target, reason.value, text, effect, site.curve.columns(), site.training)


def predicted(site: Site, target: int) -> Mapping[str, float]:
    """Return what is to be expected at a level; what cannot be told is left out.

    Reference:
        A batch that keeps up takes D = o + lambda D / PA, hence D = o / (1 - rho).
    """
    ability = site.ability_now if target == site.now else site.curve.at(target)
    effect = {"processing_ability_rows_per_s": ability}
    if ability > 0:
        rho = site.rate / ability
        effect["utilisation_ratio"] = rho
        fixed_s = site.demand.fixed_at(target)
        if fixed_s is not None and rho < 1:
            effect["batch_duration_s"] = fixed_s / (1 - rho)
    return effect


def why_up(site: Site) -> Reason:
    """Return what makes the present level too small, the gravest first."""
    load, ability, rate = site.demand, site.ability_now, site.rate
    if not load.micro_batch or rate > ability:
        return Reason.UNDER_PROVISIONED
    if rate > load.objective.target_utilisation * ability:
        return Reason.UTILISATION_ABOVE_TARGET
    if rate > load.objective.target_utilisation * site.sustained_now:
        return Reason.BATCH_LIMIT
    if rate > load.highest_utilisation(site.effective) * ability:
        return Reason.LATENCY_GOAL
    return Reason.BACKLOG_TO_DRAIN


def _words(site: Site, target: int, effect: Mapping[str, float]) -> Mapping[str, str]:
    load, options = site.demand, site.options
    return {
        "app": site.operator.name,
        **_levels(site, target),
        "rate": number(site.rate),
        "ability_now": number(site.ability_now),
        "utilisation_now": _percent(site.rate / site.ability_now),
        "ability": number(effect["processing_ability_rows_per_s"]),
        "utilisation": _percent(effect["utilisation_ratio"]) if "utilisation_ratio" in effect else "?",
        "target": _percent(load.objective.target_utilisation),
        "max_lag": number(load.objective.max_lag_s),
        "catch_up": number(load.objective.catch_up_s),
        "sustained": number(site.sustained_now),
        "batch_rows": number(load.batch_rows or 0),
        "excess": number(load.excess),
        "waiting": number(load.waiting),
        "slack": _percent(options.slack),
        "reshave": _percent(options.reshave),
        "ceiling": _level(site, site.ceiling or site.now),
        "fixed": number(load.fixed_at(site.effective) or 0.0),
    }


def _levels(site: Site, target: int) -> Mapping[str, str]:
    return {
        "now": _level(site, site.now),
        "then": _level(site, target),
        "low": str(site.bounds.min_slots),
        "high": str(site.bounds.max_slots),
        "ran": str(site.effective),
    }


def _level(site: Site, p: int) -> str:
    return slots(p) if site.operator.id is None else f"{p:,} task{'' if p == 1 else 's'}"


def _percent(ratio: float) -> str:
    return number(round(100 * ratio))
