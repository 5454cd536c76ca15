"""flow, the default tuner: one reconfiguration per change of load, and almost never one that is too small.

An evaluation asks three questions. Is every operator large enough for the arrival? If not, all are sized at once: the
rate at the sources gives the rate that each will have to take in (:mod:`.ratios`). If all are large enough, would
sizing free enough to be worth a reconfiguration? Otherwise nothing changes. Sizes are the least levels that are enough
at the accepted risk (:mod:`.operator_context`), so little knowledge means more room, not more steps.

Reference:
    Grown from [ContTune] Lian et al., PVLDB 2023. Deviations: its Big phase is only for sources that do not show how
    much arrives; the surrogate is a power law with a Gaussian process, taken at its lower bound instead of its mean; a
    healthy step is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from millrace.model.arrival import ArrivalBasis
from millrace.model.signals import Observation, Signals
from millrace.optimizers.conttune.arrival import ahead, at_mean, at_rate, fluctuation, rate_at_end
from millrace.optimizers.conttune.base_tuner import AppMemory, BaseTuner, Sizings
from millrace.optimizers.conttune.bursts import Bursts, find_bursts
from millrace.optimizers.conttune.contingency import plan_contingencies
from millrace.optimizers.conttune.course import Course
from millrace.optimizers.conttune.demand import build_demand
from millrace.optimizers.conttune.drift import rescale, update_drift
from millrace.optimizers.conttune.explain import explain
from millrace.optimizers.conttune.figures import LARGEST, is_possible
from millrace.optimizers.conttune.idle import is_idle
from millrace.optimizers.conttune.job_graph import Job, Operator
from millrace.optimizers.conttune.messages import Reason, count
from millrace.optimizers.conttune.operator_context import OperatorContext
from millrace.optimizers.conttune.options import FlowOptions
from millrace.optimizers.conttune.payback import Prospect
from millrace.optimizers.conttune.placement_first import with_placement
from millrace.optimizers.conttune.ratios import find_needs, learn_ratios
from millrace.optimizers.conttune.scaling_step import OF_BACKLOG, JobContext, ScalingStep, choose_step
from millrace.optimizers.conttune.sizing import Sizing, hold_job
from millrace.optimizers.conttune.state import AppState, OperatorState
from millrace.optimizers.conttune.surrogate import estimator
from millrace.optimizers.conttune.waves import effective

BEHIND = 0.002
"""Share of the arrival rate by which a backlog has to grow before a job counts as falling behind."""
REACTION = 2.0
"""Periods from a rise until a step for it is made: a burst that is over by then is not worth a step."""
RESTART_S, LIVE_CHANGE_S = 10.0, 5.0
"""Cost of a change with and without a restart until changes of the app were measured: 3 to 6 s live, on two cores."""
OVERLAP = 32
"""Latest stored observations that may already include this evaluation's own, if it is repeated."""


class Flow(BaseTuner[FlowOptions]):
    """Sizes apps, and operators that have a p of their own."""

    name = "flow"
    scales_together = True
    Options = FlowOptions

    def model(self, training: Mapping[str, Sequence[float]]) -> Any:
        """Return the scikit-learn estimator of PA(p) for a Proposal's ``training``, as the decision used it.

        Args:
            training: Columns ``parallelism`` and ``throughput``, optionally ``noise``.
        """
        return estimator(training, self.options)

    def tune(self, signals: Signals, job: Job, memory: AppMemory) -> Sizings:
        """Decide on one job; if placement alone is enough, add no slots ([ALBIC], Algorithm 1)."""
        app, state = job.app, _read(memory, signals, job)
        if app.arrival_rows_per_s is None:
            return [hold_job(job, Reason.RATE_UNKNOWN, signals.bounds)], memory
        if self.options.catch_up and app.backlog_rows is None:
            return [hold_job(job, Reason.BACKLOG_UNKNOWN, signals.bounds)], memory
        is_new = signals.until != state.course.seen  # else another app has reported since the last evaluation
        course = state.course.with_period(app.arrival_rows_per_s, signals.since, signals.until)
        bursts = self._bursts(signals, job, course)
        if bursts is not None:
            job = at_mean(job, bursts.rate)
        rate_now = self._rate_now(signals, job, state) if bursts is None else bursts.rate
        if rate_now is not None:
            job = at_rate(job, rate_now)
            if is_new and app.arrival_basis is not ArrivalBasis.AT_LEAST:
                state = replace(state, history=state.history.with_rate(rate_now))
        rate = app.arrival_rows_per_s if rate_now is None else rate_now
        idle = state.idle + is_new if is_idle(app, signals.objective, signals.period_s) else 0
        state = replace(state.at_rate(rate), course=course, ratios=learn_ratios(job, state.ratios), idle=idle)
        growth = 0.0 if job.operators[0].id is None else (app.backlog_growth_rows_per_s or 0.0)
        behind = growth > BEHIND * rate
        contexts = self._operator_contexts(signals, job, state, behind, bursts)
        if not contexts:
            return [hold_job(job, Reason.RATE_UNKNOWN, signals.bounds)], state.to_json()
        prospect = self._prospect(signals, job, state)
        in_job = JobContext(job.app, contexts, state, rate, rate_now is None, growth, behind, self.options, prospect)
        return _carry_out(*with_placement(in_job, choose_step(in_job), signals), signals.until)

    def tune_early(self, signals: Signals, job: Job, memory: AppMemory) -> Sizings:
        """Step up if, by the model, more arrives than a new level can process: it need not fail first.

        If there is no such step, only the rates are remembered.
        """
        if job.app.arrival_basis is ArrivalBasis.AT_LEAST or job.app.arrival_rows_per_s is None:
            return (), memory
        sizings, then = self.tune(signals, job, memory)
        if any(s.changes for s in sizings) and all(s.target >= (s.operator.now or 0) for s in sizings):
            return [replace(s, sentence=f"{s.sentence} {_early(s)}") for s in sizings], then
        before, seen = _read(memory, signals, job), AppState.read(then)
        kept = replace(before, rate=seen.rate, unsettled=seen.unsettled, history=seen.history, course=seen.course)
        return (), kept.to_json()

    def uses_first_batches(self, memory: AppMemory) -> bool:
        """Return whether the last step was not an own step up, which would have been made for the same backlog."""
        return not AppState.read(memory).stepped_up

    def _rate_now(self, signals: Signals, job: Job, state: AppState) -> float | None:
        """Return the present arrival rate, rows per second; None if it is unclear and worth waiting for."""
        waited = state.unsettled is not None and signals.since >= state.unsettled
        mean = job.app.arrival_rows_per_s
        if job.app.arrival_basis is ArrivalBasis.AT_LEAST:
            return mean  # an app's own pace does not jump
        rate = rate_at_end(job, state.rate) if self.options.whole_windows else mean
        return mean if rate is None and waited else rate

    def _bursts(self, signals: Signals, job: Job, course: Course) -> Bursts | None:
        """Return the bursts that repeat, if the app is one operator whose source counts its arrival."""
        if job.operators[0].id is not None or job.app.arrival_basis is ArrivalBasis.AT_LEAST:
            return None
        return find_bursts(course, REACTION * signals.period_s + self._change_s(job))

    def _change_s(self, job: Job) -> float:
        if job.app.change_s is not None:
            return job.app.change_s
        if self.options.change_s is not None:
            return self.options.change_s
        return RESTART_S if job.app.restarts else LIVE_CHANGE_S

    def _prospect(self, signals: Signals, job: Job, state: AppState) -> Prospect:
        return Prospect(state.course, state.history, signals.period_s, self._change_s(job))

    def _operator_contexts(
        self, signals: Signals, job: Job, state: AppState, behind: bool, bursts: Bursts | None
    ) -> tuple[OperatorContext, ...]:
        """Return the operators whose need is known, each with everything that sizing needs."""
        soon, later = ahead(state.history) if self.options.proactive else (1.0, 1.0)
        room = max(later, fluctuation(state.history) if self.options.fluctuation else 1.0) / soon
        needs, observations = find_needs(job, state.ratios), _usable_by_operator(signals.observations)
        contexts = []
        for operator in job.sizable:
            if operator.id not in needs:
                continue
            need = needs[operator.id]
            of_operator = state.operators.get(operator.name, OperatorState())
            if operator.id is None:
                of_operator = of_operator.with_batches(job.app, self.options.top_k)
            short = behind or (operator.id is None and need.rate > (operator.ability or math.inf))
            stored = observations.get(operator.name, ())
            of_operator, points = self._observations_today(signals, operator, of_operator, stored, short)
            contexts.append(
                OperatorContext(
                    operator=operator,
                    bounds=signals.bounds,
                    demand=build_demand(
                        job.app,
                        operator,
                        need.rate * soon * room,
                        of_operator,
                        signals.objective,
                        catch_up=self.options.catch_up,
                        burst_rows=0.0 if bursts is None else bursts.rows,
                    ),
                    room=room,
                    variance=need.variance,
                    observations=[replace(o, parallelism=effective(o.parallelism, operator.tasks)) for o in points],
                    state=of_operator,
                    time=signals.until,
                    options=self.options,
                    operators=len(job.sizable),
                    bursts=bursts,
                )
            )
        return tuple(contexts)

    def _observations_today(
        self, signals: Signals, operator: Operator, state: OperatorState, stored: Sequence[Observation], short: bool
    ) -> tuple[OperatorState, Sequence[Observation]]:
        """Return an operator's observations as they would be measured today, this evaluation's included."""
        points = rescale(stored, state.drift.shifts)
        measured = _measured(operator, signals.until)
        if measured is None:
            return state, points
        if any(o.time == measured.time and o.parallelism == measured.parallelism for o in points[-OVERLAP:]):
            return state, points
        if self.options.drift and points:
            drift = update_drift(state.drift, points, measured, signals.since, short, self.options)
            if drift.shifts != state.drift.shifts:
                points, state = rescale(stored, drift.shifts), replace(state, insufficient=0)
            state = replace(state, drift=drift)
        return state, [*points, measured]


def _read(memory: AppMemory, signals: Signals, job: Job) -> AppState:
    """Return the memory of a job, as far as what was proposed last has been carried out since."""
    levels = {o.name: o.requested for o in job.sizable}
    placed = AppState.read(memory).after_placement(job.operators[0].name, signals.deployment_version)
    return placed.after_step(levels)


def _early(sizing: Sizing) -> str:
    slots = count(sizing.operator.now or 0, "slot")
    return f"The throughput of {slots} is an estimate: it has not settled yet."


def _carry_out(job: JobContext, step: ScalingStep, until: datetime) -> Sizings:
    """Return the sizings, and what to remember of them."""
    state, by_name = job.state, {c.operator.name: c for c in job.operators}
    failed = state.stepped_up and job.is_same_rate
    operators = dict(state.operators)
    for name, context in by_name.items():
        failures = context.state.failures + failed if name in step.small else 0
        insufficient = context.state.insufficient
        if name in step.small and step.reasons[name] not in OF_BACKLOG:
            insufficient = max(insufficient, context.now)
        operators[name] = replace(context.state, failures=failures, insufficient=insufficient)
    sizings = [_sizing(by_name[name], step, reason) for name, reason in step.reasons.items()]
    state = replace(
        state,
        operators=operators,
        idle=0 if step.targets else state.idle,
        stepped_before=state.stepped,
        left={name: by_name[name].operator.requested for name in step.targets},
    )
    if job.is_lower_bound:  # a step for an unknown rate neither worked nor failed at it
        stepped = None if step.targets else state.stepped
        return sizings, replace(state, unsettled=None, stepped=stepped, stepped_up=False).to_json()
    state = replace(
        state,
        rate=state.rate if job.half_old else job.rate,
        unsettled=(state.unsettled or until) if job.half_old else None,
        stepped=job.rate if step.targets else state.stepped,
        stepped_up=any(target > by_name[name].now for name, target in step.targets.items()),
    )
    return sizings, state.to_json()


def _sizing(context: OperatorContext, step: ScalingStep, reason: Reason) -> Sizing:
    target = step.targets.get(context.operator.name, context.now)
    # until partitions are measured, moving some of them might be enough for more arrival, too
    planned = () if reason is Reason.PARTITIONS_UNKNOWN else plan_contingencies(context, target)
    at = context.curve.at if context.is_known else None
    sizing = explain(context, target, reason, step.pays, step.least, step.details)
    sentence = f"{sizing.sentence} {step.note}".rstrip()
    return replace(sizing, sentence=sentence, contingencies=planned, need=context.rate, curve_at=at)


def _measured(operator: Operator, time: datetime) -> Observation | None:
    """Return this evaluation's observation of an operator; None if it measured nothing usable."""
    ability, at, error = operator.ability, operator.ability_at, operator.ability_error
    if ability is None or at is None or at < 1 or not (math.isfinite(ability) and ability > 0):
        return None
    return Observation(operator.name, at, ability, error if math.isfinite(error) else 0.0, operator.samples, time)


def _usable_by_operator(observations: Sequence[Observation]) -> Mapping[str, list[Observation]]:
    usable: dict[str, list[Observation]] = {}
    for o in observations:
        if o.parallelism >= 1 and is_possible(o.throughput) and 0 <= o.noise <= LARGEST:
            usable.setdefault(o.operator, []).append(o)
    return usable
