"""What every tuner does alike in an evaluation: refuse bad telemetry, keep to the bounds, remember each app.

Missing is not zero, and impossible figures decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from include.model.decision import Memory, Proposal
from include.model.deployment import Deployment
from include.model.signals import AppSignals, OperatorSignals, Signals
from optimizers.conttune.job import Job, build_job, whole_app
from optimizers.conttune.messages import Reason, message
from optimizers.conttune.sizing import Sizing, clamp, proposal, size_operator
from optimizers.memory import mapping, numbers, whole

AppMemory = Mapping[str, Any]
"""What is remembered of one app, a JSON value; anything may stand in it."""

Sizings = tuple[Sequence[Sizing], AppMemory]
"""What is wanted for a job, and what to remember of it."""

Figures = Iterator[tuple[str, float, bool, str]]
"""Name of a figure, its value, whether it is possible, and what is allowed."""

ROUNDING = 1e-9
"""A ratio may be above 1 by this much."""
LEAST_ABILITY, LARGEST = 1e-9, 1e15
"""Rows a second beyond which a figure is no measurement: no computation with them overflows or divides by nothing."""


def propose(
    name: str,
    tune: Callable[[Signals, Job, AppMemory], Sizings],
    signals: Signals,
    current: Deployment,
    memory: Memory,
) -> tuple[Proposal, Mapping[str, Any]]:
    """Return a tuner's proposal for all apps, and its new memory; an app that was not measured stays remembered.

    Args:
        name: The tuner's registry name.
        tune: How it decides on one job that nothing stands in the way of.
        signals: The period.
        current: The Deployment that runs.
        memory: What the tuner returned last.
    """
    apps = {app: mapping(of_app) for app, of_app in mapping(memory.get("apps")).items()}
    sizings: list[Sizing] = []
    for app in signals.apps:
        stored = apps.setdefault(app.app, {})
        problem = _problem(signals, app, current)
        if problem is not None:
            reason, details = problem
            sentence = message(reason, {"app": app.app, **details})
            sizings.append(Sizing(whole_app(app), app.slots, reason.value, sentence))
            continue
        job = build_job(app, current)
        outside = [o for o in job.sizable if clamp(o.now or 0, signals.bounds) != o.now]
        if outside:
            bounds = signals.bounds
            sizings += [size_operator(o, clamp(o.now or 0, bounds), Reason.OUT_OF_BOUNDS, bounds) for o in outside]
        else:
            of_job, apps[app.app] = tune(signals, job, stored)
            sizings += of_job
    return proposal(name, sizings), {"apps": apps}


def is_possible(ability: float) -> bool:
    """Say whether a processing ability, rows a second, can have been measured."""
    return LEAST_ABILITY <= ability <= LARGEST


@dataclass(frozen=True)
class LastStep:
    """A tuner's last own step: what it leaves alone as long as the load is what the step was made for.

    Attributes:
        levels: p that it set, by operator.
        rates: Rows a second that it was made for, by operator.
    """

    levels: Mapping[str, int]
    rates: Mapping[str, float]

    def holds(self, levels: Mapping[str, int], rates: Mapping[str, float], change: float) -> bool:
        """Say whether a job still has the levels of the step, and the load that it was made for.

        Args:
            levels: Present p by operator.
            rates: Present load by operator, rows a second; one that is unknown has not changed.
            change: Relative change of a rate that makes it another load, >= 0.
        """
        if any(self.levels.get(name) != p for name, p in levels.items()):
            return False
        pairs = [(rate, self.rates[name]) for name, rate in rates.items() if name in self.rates]
        return all(abs(now - then) <= change * max(now, then) for now, then in pairs)

    @classmethod
    def read(cls, stored: object) -> Self | None:
        """Return a stored step; None if there is none."""
        step = mapping(stored)
        levels = {name: p for name, v in mapping(step.get("levels")).items() if (p := whole(v)) > 0}
        return cls(levels, numbers(step.get("rates"), 0.0)) if levels else None

    def to_json(self) -> Mapping[str, Any]:
        """Return the step as a JSON value."""
        return {"levels": dict(self.levels), "rates": dict(self.rates)}


def _problem(signals: Signals, app: AppSignals, current: Deployment) -> tuple[Reason, Mapping[str, str]] | None:
    """Return what stands in the way of any decision on an app, with the details of its message; None if nothing."""
    if app.app not in current.apps:
        return Reason.NO_APP, {}
    if not current.running:
        return Reason.STOPPED, {}
    sized = current.apps[app.app].parallelism
    for name, value, possible, allowed in _app_figures(app, with_operators=bool(sized)):
        if not possible:
            return Reason.BAD_SIGNALS, {"name": name, "value": f"{value:g}", "allowed": allowed}
    if signals.settling or app.slots != current.apps[app.app].slots:
        return Reason.SETTLING, {}
    vanished = sorted(set(sized) - {o.operator for o in app.operators})
    return (Reason.OPERATOR_VANISHED, {"name": ", ".join(vanished)}) if vanished else None


def _app_figures(app: AppSignals, *, with_operators: bool) -> Figures:
    capacity = app.capacity
    yield from _rates(
        arrival_rows_per_s=app.arrival_rows_per_s,
        arrival_recent_rows_per_s=app.arrival_recent_rows_per_s,
        processed_rows_per_s=app.processed_rows_per_s,
        backlog_rows=app.backlog_rows,
        restart_lag_rows=app.restart_lag_rows,
        fixed_s=capacity.fixed_s if capacity else None,
        rows_per_s_error=capacity.rows_per_s_error if capacity else None,
    )
    yield from _ratios(backpressured_ratio=app.backpressured_ratio, slot_busy_ratio=app.slot_busy_ratio)
    yield from _levels(parallelism=app.parallelism)
    if capacity is not None:
        yield from _abilities(rows_per_s=capacity.rows_per_s)
        yield from _levels(**{"capacity.parallelism": capacity.parallelism})
    if with_operators:
        for operator in app.operators:
            for name, value, possible, allowed in _operator_figures(operator):
                yield f"{operator.operator}.{name}", value, possible, allowed
        for edge in app.edges:
            yield from _rates(**{f"{edge.producer}>{edge.consumer}.rows_per_s": edge.rows_per_s})


def _operator_figures(operator: OperatorSignals) -> Figures:
    yield from _rates(
        rows_in_per_s=operator.rows_in_per_s,
        rows_out_per_s=operator.rows_out_per_s,
        output_ability=operator.output_ability,
        processing_ability_error=operator.processing_ability_error,
        arrival_rows_per_s=operator.arrival_rows_per_s,
        arrival_recent_rows_per_s=operator.arrival_recent_rows_per_s,
        backlog_rows=operator.backlog_rows,
    )
    yield from _ratios(backpressured_ratio=operator.backpressured_ratio, busy_ratio=operator.busy_ratio)
    yield from _levels(parallelism=operator.parallelism)
    yield from _abilities(processing_ability=operator.processing_ability)


def _rates(**figures: float | None) -> Figures:
    return _between(0, LARGEST, f"0 to {LARGEST:g}", figures)


def _ratios(**figures: float | None) -> Figures:
    return _between(0, 1 + ROUNDING, "0 to 1", figures)


def _abilities(**figures: float | None) -> Figures:
    return _between(LEAST_ABILITY, LARGEST, f"{LEAST_ABILITY:g} to {LARGEST:g}", figures)


def _levels(**figures: int | None) -> Figures:
    return _between(1, float("inf"), ">= 1", figures)


def _between(low: float, high: float, allowed: str, figures: Mapping[str, float | None]) -> Figures:
    for name, value in figures.items():
        if value is not None:
            yield name, value, low <= value <= high, allowed
