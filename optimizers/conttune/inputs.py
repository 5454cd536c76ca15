"""What keeps a look from deciding: missing is not zero, and impossible figures decide nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from include.model.deployment import Deployment
from include.model.signals import AppSignals, OperatorSignals, Signals
from optimizers.conttune.reasons import Reason

Problem = tuple[Reason, Mapping[str, str]]
"""A reason to hold, and the words of its sentence beside ``app``."""

Figures = Iterator[tuple[str, float, bool, str]]
"""Name of a figure, its value, whether it is possible, and what is allowed."""

ROUNDING = 1e-9
"""A ratio may be above 1 by this much."""
LEAST_ABILITY, LARGEST = 1e-9, 1e15
"""Rows a second beyond which a figure is no measurement: no computation with them overflows or divides by nothing."""

ABILITIES = f"{LEAST_ABILITY:g} to {LARGEST:g}"


def problem(signals: Signals, app: AppSignals, current: Deployment) -> Problem | None:
    """Return what stands in the way of any decision on an app, whoever decides; None if nothing does."""
    if app.app not in current.apps:
        return Reason.NO_APP, {}
    if not current.running:
        return Reason.STOPPED, {}
    sized = current.apps[app.app].parallelism
    for name, value, ok, allowed in _figures(app, operators=bool(sized)):
        if not ok:
            return Reason.BAD_SIGNALS, {"name": name, "value": f"{value:g}", "allowed": allowed}
    if signals.settling or app.slots != current.apps[app.app].slots:
        return Reason.SETTLING, {}
    vanished = sorted(set(sized) - {o.operator for o in app.operators})
    return (Reason.OPERATOR_VANISHED, {"name": ", ".join(vanished)}) if vanished else None


def _figures(app: AppSignals, *, operators: bool) -> Figures:
    capacity = app.capacity
    yield from _least(
        arrival_rows_per_s=app.arrival_rows_per_s,
        arrival_recent_rows_per_s=app.arrival_recent_rows_per_s,
        processed_rows_per_s=app.processed_rows_per_s,
        backlog_rows=app.backlog_rows,
        restart_lag_rows=app.restart_lag_rows,
        fixed_s=capacity.fixed_s if capacity else None,
        rows_per_s_error=capacity.rows_per_s_error if capacity else None,
    )
    yield from _ratios(backpressured_ratio=app.backpressured_ratio, slot_busy_ratio=app.slot_busy_ratio)
    if app.parallelism is not None:
        yield "parallelism", app.parallelism, app.parallelism >= 1, ">= 1"
    if capacity is not None:
        yield "rows_per_s", capacity.rows_per_s, possible(capacity.rows_per_s), ABILITIES
        yield "capacity.parallelism", capacity.parallelism, capacity.parallelism >= 1, ">= 1"
    if operators:
        for operator in app.operators:
            for name, value, ok, allowed in _of(operator):
                yield f"{operator.operator}.{name}", value, ok, allowed
        for edge in app.edges:
            for name, value, ok, allowed in _least(rows_per_s=edge.rows_per_s):
                yield f"{edge.producer}>{edge.consumer}.{name}", value, ok, allowed


def _of(operator: OperatorSignals) -> Figures:
    yield from _least(
        rows_in_per_s=operator.rows_in_per_s,
        rows_out_per_s=operator.rows_out_per_s,
        output_ability=operator.output_ability,
        processing_ability_error=operator.processing_ability_error,
        arrival_rows_per_s=operator.arrival_rows_per_s,
        arrival_recent_rows_per_s=operator.arrival_recent_rows_per_s,
        backlog_rows=operator.backlog_rows,
    )
    yield from _ratios(backpressured_ratio=operator.backpressured_ratio, busy_ratio=operator.busy_ratio)
    if operator.parallelism is not None:
        yield "parallelism", operator.parallelism, operator.parallelism >= 1, ">= 1"
    if operator.processing_ability is not None:
        ability = operator.processing_ability
        yield "processing_ability", ability, possible(ability), ABILITIES


def _least(**figures: float | None) -> Figures:
    for name, value in figures.items():
        if value is not None:
            yield name, value, 0 <= value <= LARGEST, f"0 to {LARGEST:g}"


def _ratios(**figures: float | None) -> Figures:
    for name, value in figures.items():
        if value is not None:
            yield name, value, 0 <= value <= 1 + ROUNDING, "0 to 1"


def possible(ability: float) -> bool:
    """Say whether a processing ability, rows a second, can have been measured."""
    return LEAST_ABILITY <= ability <= LARGEST
