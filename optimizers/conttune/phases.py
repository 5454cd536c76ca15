"""The two phases of a tuning ([ContTune], Section 4.2) on one operator: Big lifts it, Small finds its least level."""

from __future__ import annotations

from optimizers.conttune import acquisition
from optimizers.conttune.big import lift
from optimizers.conttune.cbo import Suggestion, suggest, within_gap
from optimizers.conttune.linear import linear
from optimizers.conttune.look import Look
from optimizers.conttune.state import State


def big(look: Look) -> tuple[int, int]:
    """Return the level that the Big phase sets, and the new p_max, both within the bounds."""
    levels, p_max = lift({look.operator: look.now}, look.highest_known)
    allowed = look.bounds.max_slots
    return min(levels[look.operator], allowed), min(p_max, allowed)


def small(look: Look) -> Suggestion:
    """Return what the Small phase suggests; needs an observed level.

    Where no level is feasible the paper says nothing: p_lin is taken, and if the app then is under-provisioned, the
    next look is in the Big phase again.

    Deviation:
        ``unstick``: an over-provisioned level that has been observed is its own nearest, at distance 0, so Algorithm 2
        would stay on it for ever; p_lin leads down. Likewise p_lin leads up where p_acq keeps an under-provisioned one.
    """
    options = look.options
    p_lin = _linear(look)
    if options.small == "linear":
        return Suggestion(p_lin, "lin")
    p_acq = _acquire(look)
    if options.monotone:
        p_lin = within_gap(p_lin, p_acq, look.observed_levels, options.alpha, look.p_max)
    chosen = suggest(p_acq, p_lin, look.observed_levels, options.alpha)
    return Suggestion(p_lin, "lin") if options.unstick and _stuck(look, chosen.parallelism, p_lin) else chosen


def _stuck(look: Look, chosen: int, p_lin: int) -> bool:
    if look.state is State.OVER:
        return chosen >= look.now > p_lin
    return look.state is State.UNDER and chosen <= look.now < p_lin


def _linear(look: Look) -> int:
    base = look.base
    return linear(base.parallelism, base.ability, look.demand.required_at(look.effective), look.options.exponent)


def _acquire(look: Look) -> int | None:
    curve, n = look.curve, look.p_max
    required = look.demand.required(curve.parallelism[:n])
    if look.options.acquisition == "safe":
        return acquisition.safe(curve.mean[:n], required)
    return acquisition.cei(curve.mean[:n], curve.std[:n], required, look.observed_levels)
