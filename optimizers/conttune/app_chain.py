"""Several apps that feed each other, sized together: what each has to take in, and how long its rows may wait.

An app is an operator of its pipeline, as ContTune sees it: its slots are the operator's parallelism, and the tables
between apps are the edges. Sizing needs no more than this: an app that others feed is sized for the rate that the heads
of the pipeline give it through the learned ratios (:mod:`.ratios`), not for what has reached it so far. So all apps
follow a rise in one decision.

Symbols:
    A_i  rows per second that arrive at app i from outside
    r_ij rows that app j receives per row that app i takes in
    n_i  need of app i, rows per second: A_i + sum_j n_j r_ji
    b_i  rows that wait at app i beyond those of a usual batch
    o_i  fixed cost of its batches, seconds
    L    the pipeline's lag goal, from a row's arrival at a head to its result in the last sink, seconds

Spark has no backpressure between apps: rows wait in the table between two of them. Once an app catches up, those that
it feeds get its waiting rows as well. So b_j r_ji counts as backlog of i, and all of it is to be gone within the
objective's ``catch_up_s``.

Each app gets the part o_i / (sum of o on the longest path through i) of L. A row waits for up to two batches per app,
2 o / (1 - rho), so these parts allow all apps of a path the same utilisation, and no path exceeds L. With fixed costs
unknown, the parts are equal.

Reference:
    [ContTune], Section 3 (the job as a DAG of operators, the rates by the ratios on the way) and Algorithm 1 (all
    operators in one reconfiguration). Deviation: its engine throttles an operator's input, Spark stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from millrace.model.arrival import ArrivalBasis
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals, Edge, Signals
from millrace.optimizers.conttune.job_graph import Job, by_producers, whole_app
from millrace.optimizers.conttune.ratios import Need, Ratios, find_needs, learn_ratios

EXTERNAL_SHARE = 0.01
"""If less than this share of an app's rows comes from outside, it is an error of counting."""


def in_chain(signals: Signals, before: Ratios) -> tuple[Sequence[Signals], Ratios]:
    """Return the signals of each app, those that feed others first, and the ratios after this evaluation.

    Args:
        signals: The pipeline's.
        before: Ratios of its edges that were learned before.

    Returns:
        One Signals per app, with its own bounds, its part of the lag goal, and, if others feed it, the rate and the
        backlog that it will get from them.
    """
    if len(signals.apps) < 2:
        return [replace(_period_of(app, signals), bounds=signals.bounds_of(app.app)) for app in signals.apps], before
    job = _job(signals, lambda app: app.arrival_rows_per_s)
    ratios, parts = learn_ratios(job, before), _parts_of_goal(job, signals)
    newest = _job(signals, lambda app: app.arrival_recent_rows_per_s)
    needs, recent = find_needs(job, ratios), find_needs(newest, ratios)
    apps, each = {app.app: app for app in signals.apps}, []
    waiting: dict[str, float] = {}
    for operator in job.operators:
        app, fed = apps[operator.app], job.into[operator.id]
        objective = replace(signals.objective, max_lag_s=parts[app.app] * signals.objective.max_lag_s)
        objective = objective.with_trigger(app.trigger_s)
        coming = sum(waiting[e.producer] * ratios[key].mean for e in fed if (key := (e.producer, app.app)) in ratios)
        if fed:
            lump, producers = sum(e.lump_rows for e in fed), [apps[e.producer] for e in fed]
            known = operator.arrival is None or app.arrival_recent_rows_per_s is not None
            lately = recent.get(app.app) if known else None
            app = _fed(app, needs.get(app.app), lately, coming, lump, producers)
        waiting[app.app] = _excess(app, objective)
        bounds = signals.bounds_of(app.app)
        own = _period_of(app, signals)
        of_app = replace(own, apps=(app,), bounds=bounds, app_bounds={}, objective=objective, settling=app.settling)
        each.append(of_app)
    return each, ratios


def _period_of(app: AppSignals, signals: Signals) -> Signals:
    """Return the signals with the period in which an app was measured."""
    return replace(signals, since=app.since or signals.since, until=signals.measured_until(app))


def _job(signals: Signals, rate: Callable[[AppSignals], float | None]) -> Job:
    """Return a pipeline as a job whose operators are its apps.

    Args:
        signals: The pipeline's.
        rate: Returns what arrives at an app, from outside and from others, rows per second; None if unknown.
    """
    into: dict[str, list[Edge]] = {app.app: [] for app in signals.apps}
    edges = tuple(e for e in signals.edges if e.producer in into and e.consumer in into)
    for edge in edges:
        into[edge.consumer].append(edge)
    apps = {app.app: app for app in signals.apps}
    operators = [
        replace(whole_app(apps[name]), id=name, arrival=_external(rate(apps[name]), into[name]))
        for name in by_producers(apps, edges)
    ]
    return Job(signals.apps[0], tuple(operators), edges)


def _external(rate: float | None, fed: Sequence[Edge]) -> float | None:
    """Return the part of a rate that comes from outside the pipeline; None if none does, or if the rate is unknown."""
    share = 1.0 - sum(edge.share for edge in fed)
    return None if rate is None or share < EXTERNAL_SHARE else rate * share


def _excess(app: AppSignals, objective: Objective) -> float:
    """Return the rows that wait beyond those that arrive during the longest batch that is planned for."""
    fixed_s = app.capacity.fixed_s if app.capacity else None
    usual = (app.arrival_rows_per_s or 0.0) * objective.planned_batch_s(fixed_s, app.trigger_s)
    return max(0.0, (app.backlog_rows or 0) - usual)


def _fed(
    app: AppSignals,
    need: Need | None,
    recent: Need | None,
    coming: float,
    lump: float,
    producers: Sequence[AppSignals],
) -> AppSignals:
    """Return an app with the rate and the backlog that its producers will give it; as measured if they are unknown.

    What one of their batches has just written is no backlog: it is the rows of the time until the next.
    """
    if need is None or any(p.arrival_basis is ArrivalBasis.AT_LEAST for p in producers):
        return app
    return replace(
        app,
        arrival_rows_per_s=need.rate,
        arrival_recent_rows_per_s=None if recent is None else recent.rate,
        arrival_basis=ArrivalBasis.FED,
        backlog_rows=None if app.backlog_rows is None else max(0, app.backlog_rows - round(lump)) + round(coming),
    )


def _parts_of_goal(job: Job, signals: Signals) -> Mapping[str, float]:
    """Return each app's part of the lag goal, 0..1; no path of apps has more than 1 in all."""
    fixed = {app.app: app.capacity.fixed_s if app.capacity else 0.0 for app in signals.apps}
    weights = fixed if all(fixed.values()) else dict.fromkeys(fixed, 1.0)
    names = [o.app for o in job.operators]
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for name in names:
        before[name] = weights[name] + max((before[e.producer] for e in job.edges if e.consumer == name), default=0.0)
    for name in reversed(names):
        after[name] = weights[name] + max((after[e.consumer] for e in job.edges if e.producer == name), default=0.0)
    return {name: weights[name] / (before[name] + after[name] - weights[name]) for name in names}
