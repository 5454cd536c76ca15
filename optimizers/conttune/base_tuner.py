"""Base of all tuners: refuse bad telemetry, keep to the bounds, remember each app.

Missing figures are not zero, and impossible figures are never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from millrace.model.decision import Memory, Proposal
from millrace.model.deployment import Deployment
from millrace.model.signals import AppSignals, Signals
from millrace.optimizers.api import Options
from millrace.optimizers.conttune.app_chain import in_chain
from millrace.optimizers.conttune.figures import impossible_figure
from millrace.optimizers.conttune.job_graph import Job, build_job, whole_app
from millrace.optimizers.conttune.messages import Reason, format_number, message
from millrace.optimizers.conttune.ratios import ratios_to_json, read_ratios
from millrace.optimizers.conttune.shared_slots import within_budget
from millrace.optimizers.conttune.sizing import Sizing, hold_job, proposal, size_operator
from millrace.optimizers.conttune.together import planned_together, scaled_together
from millrace.optimizers.memory import mapping

AppMemory = Mapping[str, Any]
"""Memory of one app, a JSON value; it may contain anything."""

Sizings = tuple[Sequence[Sizing], AppMemory]
"""Proposed levels of a job's operators, and what to remember of the job."""

OptionsT = TypeVar("OptionsT", bound=Options)


class BaseTuner(Generic[OptionsT]):
    """Base of all tuners: a subclass defines its name, its options and, in :meth:`tune`, how it decides on one job.

    Args:
        options: How it decides; by default its own defaults.
    """

    name: ClassVar[str]
    scales_together: ClassVar[bool] = False
    """Whether apps that would soon have to be scaled up follow one that is (:mod:`.together`)."""
    Options: type[OptionsT]

    def __init__(self, options: OptionsT | None = None) -> None:
        self.options = options or self.Options()

    def tune(self, signals: Signals, job: Job, memory: AppMemory) -> Sizings:
        """Return the levels for a job that can be decided on, and what to remember of it."""
        raise NotImplementedError

    def tune_early(self, signals: Signals, job: Job, memory: AppMemory) -> Sizings:
        """Return higher levels for a job that has not settled; none if it can wait.

        Args:
            signals: The period's.
            job: The job at the levels that are set, with only its arrival; other measurements are left out.
            memory: Its memory.
        """
        return (), memory

    def uses_first_batches(self, memory: AppMemory) -> bool:
        """Return whether the first batches at new slots, behind a backlog, are enough for an early decision."""
        return False

    def propose(self, signals: Signals, current: Deployment, memory: Memory) -> tuple[Proposal, Memory]:
        """Propose a p for each operator with reasons; keep the memory of apps that were not measured."""
        if signals.fixed:
            signals = replace(signals, apps=tuple(app for app in signals.apps if app.app not in signals.fixed))
            if not signals.apps:
                return Proposal(self.name, (), "fixed", ""), memory
        before = {app: mapping(of_app) for app, of_app in mapping(memory.get("apps")).items()}
        apps, sizings = dict(before), list[Sizing]()
        each, ratios = in_chain(signals, read_ratios(memory.get("edges")))
        for of_app in each:
            name = of_app.apps[0].app
            of_job, apps[name] = self._size(of_app, current, before.get(name, {}))
            sizings += of_job
        if self.scales_together:
            size = partial(self._sizings, current, before)
            sizings = list(planned_together(scaled_together(sizings, each, size), each, ratios, size))
        learned = {"apps": apps, "edges": ratios_to_json(ratios)} if ratios else {"apps": apps}
        return proposal(self.name, within_budget(sizings, signals, current)), learned

    def _sizings(self, current: Deployment, before: Mapping[str, AppMemory], signals: Signals) -> Sequence[Sizing]:
        return self._size(signals, current, before.get(signals.apps[0].app, {}))[0]

    def _size(self, signals: Signals, current: Deployment, before: AppMemory) -> Sizings:
        """Return the levels of one app's operators, and what to remember of it."""
        (app,) = signals.apps
        problem = _problem(signals, app, current)
        if problem is not None:
            reason, details = problem
            sentence = message(reason, {"app": app.app, **details})
            hold, after = [Sizing(whole_app(app), app.slots, reason.value, sentence)], before
            settling = reason in (Reason.SETTLING, Reason.FIRST_BATCH)
            first = settling and self.uses_first_batches(before) and _has_first_batches(app, current)
            if settling and (first or _is_live(app, current)):
                early, after = self.tune_early(signals, _unmeasured(app, current, signals.period_s, first), before)
                return early or hold, after
            return hold, after
        job, bounds = build_job(app, current, signals.period_s), signals.bounds
        outside = [o for o in job.sizable if bounds.level(o.requested) != o.requested]
        if outside:
            return [size_operator(o, bounds.level(o.requested), Reason.OUT_OF_BOUNDS, bounds) for o in outside], before
        of_job, after = self.tune(signals, job, before)
        if any(s.operator.request and s.target > (s.operator.now or 0) for s in of_job):
            return [hold_job(job, Reason.NO_ROOM, bounds)], before
        return of_job, after


def _problem(signals: Signals, app: AppSignals, current: Deployment) -> tuple[Reason, Mapping[str, str]] | None:
    """Return what prevents any decision on an app, with the details of its message; None if nothing does."""
    if app.app not in current.apps:
        return Reason.NO_APP, {}
    if not current.sizeable:
        return Reason.STOPPED, {}
    sized = current.apps[app.app].parallelism
    figure = impossible_figure(app, with_operators=bool(sized))
    if figure is not None:
        return Reason.BAD_SIGNALS, figure
    settling = signals.settling or not (app.slots == current.apps[app.app].slots or _is_short(app, current))
    if app.first_batch_s is not None and (settling or app.capacity is None):
        return Reason.FIRST_BATCH, {"running": format_number(app.first_batch_s)}
    if settling:
        return Reason.SETTLING, {}
    vanished = sorted(set(sized) - {o.operator for o in app.operators})
    return (Reason.OPERATOR_VANISHED, {"name": ", ".join(vanished)}) if vanished else None


def _is_live(app: AppSignals, current: Deployment) -> bool:
    """Return whether slots change without a restart: then an unnecessary step costs no downtime."""
    deployed = current.apps[app.app]
    return deployed.executor is not None and not deployed.parallelism


def _is_short(app: AppSignals, current: Deployment) -> bool:
    """Return whether a settled app has fewer executors than it requested: its cluster has no room for more."""
    return _is_live(app, current) and app.slots < current.apps[app.app].slots


def _has_first_batches(app: AppSignals, current: Deployment) -> bool:
    """Return whether the first batches at the new slots are known: they are only if more rows wait than they take."""
    at_new = app.slots == current.apps[app.app].slots and not current.apps[app.app].parallelism
    return at_new and app.first_batches is not None and None not in (app.backlog_rows, app.restart_lag_rows)


def _unmeasured(app: AppSignals, current: Deployment, period_s: float, first: bool) -> Job:
    """Return an app that has not settled as a job: at its new level, with only its arrival measured.

    Args:
        app: The app's signals.
        current: The Deployment.
        period_s: Length of the period, seconds.
        first: Use the first batches and the backlog.
    """
    arriving = replace(
        app,
        slots=current.apps[app.app].slots,
        parallelism=app.parallelism if first else None,
        source_splits=app.source_splits and first,
        processed_rows_per_s=None,
        backlog_rows=app.backlog_rows if first else 0,
        backlog_growth_rows_per_s=None,
        restart_lag_rows=app.restart_lag_rows if first else None,
        first_batches=app.first_batches if first else None,
        capacity=None,
        slot_busy_ratio=None,
        backpressured_ratio=None,
    )
    return Job(arriving, (replace(whole_app(arriving), span_s=period_s),), ())
