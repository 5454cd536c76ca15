"""What an evaluation adds to the tuner's training data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from millrace.control.app_queries import query_operator
from millrace.lake.control_tables import ControlTables
from millrace.lake.observations import KEEP_PER_LEVEL, newest_of_each
from millrace.model.signals import AppSignals, Observation, QuerySignals, Signals


def new_observations(signals: Signals) -> tuple[Observation, ...]:
    """Return the throughput that an evaluation measured: one point per app, or per query if the app has several.

    A point is new only if healthy batches at its p ran in the period: an idle night repeats nothing, and a settling
    app is not representative yet. Nor is it new if the app, one of several, has not reported since it was measured. The
    p is the one that really ran, whatever the slots.
    """
    points: list[Observation | None] = []
    for app in signals.settled:
        measured: list[tuple[str, AppSignals | QuerySignals]]
        measured = [(query_operator(app.app, query.query), query) for query in app.queries] or [(app.app, app)]
        points += [_point(operator, of, signals.measured_until(app)) for operator, of in measured]
    known = {(o.operator, o.parallelism, o.time) for o in signals.observations}
    return tuple(p for p in points if p is not None and (p.operator, p.parallelism, p.time) not in known)


def remembered(
    known: Sequence[Observation], signals: Signals, per_level: int = KEEP_PER_LEVEL
) -> tuple[Observation, ...]:
    """Return the points for the next evaluation, as the store would return them: the newest of each (operator, p).

    Args:
        known: Points that this evaluation was given, oldest first.
        signals: Signals of this evaluation.
        per_level: Points to keep of each (operator, p), >= 1.
    """
    put_together = {app.app for app in signals.apps if app.queries}
    measured = (o for o in known if o.operator not in put_together)
    return newest_of_each((*measured, *new_observations(signals)), per_level)


def known_observations(tables: ControlTables, pipeline: str) -> tuple[Observation, ...]:
    """Return the newest points of every (operator, p), oldest first, as ``control/observations`` has them.

    The last evaluation recorded the points that it was given and its own, so reading it is enough.
    """
    last = tables.decisions.last_measured(pipeline)
    if last is None or last.signals is None:
        return tables.observations.recent(pipeline)
    return remembered(last.signals.observations, last.signals)


def _point(operator: str, app: AppSignals | QuerySignals, time: datetime) -> Observation | None:
    if app.capacity is None or app.healthy_batches == 0:
        return None
    return Observation(
        operator=operator,
        parallelism=app.capacity.parallelism,
        throughput=app.capacity.rows_per_s,
        noise=app.capacity.rows_per_s_error,
        batches=app.capacity.batches,
        time=time,
    )
