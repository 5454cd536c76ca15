"""What a suggested level has to pass before it is proposed: bounds, the stop rules up and down, decisionThr."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optimizers.conttune.look import Look
from optimizers.conttune.reasons import Reason
from optimizers.conttune.state import State

Ruling = tuple[int, Reason | None]
"""The level that remains, and why the operator stays where it is; None if it need not."""


def worthwhile(p_now: Mapping[str, int], p_new: Mapping[str, int], decision_thr: float) -> bool:
    """Say whether a job is to be reconfigured: one operator that changes enough, either way, takes all along.

    Reference:
        [ContTune], Section 7: P' / P >= 1 + decisionThr down, P / P' >= 1 + decisionThr up.
    """
    pairs = [(p, p_new[name]) for name, p in p_now.items() if p != p_new[name]]
    return any(max(a, b) / min(a, b) >= 1 + decision_thr for a, b in pairs)


def judge(look: Look, suggested: int) -> Ruling:
    """Return the level to propose, or the present one and what keeps it."""
    wanted, why = _judge(look, suggested)
    if why is None and look.half_old and not look.notes.waited:
        return look.now, Reason.WINDOW_HALF_OLD
    return wanted, why


def _judge(look: Look, suggested: int) -> Ruling:
    wanted = min(max(suggested, look.bounds.min_slots), look.bounds.max_slots)
    starved = _starved(look)
    if starved is not None and (wanted > look.now or look.state is State.UNDER):
        return look.now, starved
    if wanted > look.now:
        wanted, why = _up(look, wanted)
    elif wanted < look.now:
        wanted, why = _down(look, wanted)
    else:
        return look.now, why_stay(look)
    if why is None and not worthwhile({look.operator: look.now}, {look.operator: wanted}, look.options.decision_thr):
        why = Reason.BELOW_DECISION_THRESHOLD
    return (wanted, None) if why is None else (look.now, why)


def why_not_lifted(look: Look, target: int) -> Reason | None:
    """Return what keeps the Big phase from setting its level; None if nothing does."""
    if look.ceiling is not None and look.now >= look.ceiling:
        return Reason.INEFFECTIVE_SCALING
    return _starved(look) or (Reason.LIFTING_EXHAUSTED if target <= look.now else None)


def _starved(look: Look) -> Reason | None:
    """Return why more slots would find no work; None if they would, or the option is off."""
    if not look.options.source_splits:
        return None
    if look.app.source_splits:
        return Reason.SOURCE_SPLITS
    return Reason.TOO_FEW_TASKS if look.effective < look.now else None


def _up(look: Look, wanted: int) -> Ruling:
    if look.options.stop_rule and look.state is State.OVER:
        return look.now, Reason.NO_SAFE_LOWER_LEVEL
    if look.ceiling is not None:
        if look.now >= look.ceiling:
            return look.now, Reason.INEFFECTIVE_SCALING
        wanted = min(wanted, look.ceiling)
    return wanted, None


def _down(look: Look, wanted: int) -> Ruling:
    if look.demand.draining(look.sustained_now):
        return look.now, Reason.DRAINING
    if look.app.capacity is None:  # the present level is not measured: no extrapolation below what is
        wanted = max(wanted, look.observed_levels[0])
        if wanted >= look.now:
            return look.now, Reason.LEVEL_NOT_PROVEN
    if not look.options.stop_rule:
        return wanted, None
    if look.slack < look.options.slack:
        return look.now, Reason.SLACK_TOO_SMALL
    safe = _safe_level(look, wanted)
    return (look.now, Reason.NO_SAFE_LOWER_LEVEL) if safe is None else (safe, None)


def _safe_level(look: Look, wanted: int) -> int | None:
    """Return the lowest level from ``wanted`` up, below the present one, whose lower bound has hysteresis to spare."""
    levels = np.arange(wanted, look.now)
    required = look.demand.required(levels) * (1 + look.options.hysteresis)
    safe = levels[look.curve.low[levels - 1] >= required]
    return int(safe[0]) if safe.size else None


def why_stay(look: Look) -> Reason:
    """Return why an operator stays although nothing keeps it from changing."""
    if look.state is State.UNDER:
        if look.ceiling is not None and look.now >= look.ceiling:
            return Reason.INEFFECTIVE_SCALING
        return Reason.AT_MAXIMUM if look.now >= look.bounds.max_slots else Reason.NO_HIGHER_LEVEL
    if not look.demand.attainable(look.effective):
        return Reason.LATENCY_UNATTAINABLE
    return Reason.DRAINING if look.demand.draining(look.sustained_now) else Reason.WELL_PROVISIONED
