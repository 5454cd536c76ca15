"""Slots that a pipeline may take of the quota that all pipelines share: weighted max-min fairness by priority.

First come, first served would leave everything to the pipeline that grew first. Each pipeline computes the same shares
from the newest Decisions of all and keeps to its own; those above their share shrink at their next evaluation. The
quota itself is checked when a version is committed, so the shares need no coordination.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from millrace.control.fair_shares import Claim, fair_shares
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import SLOTS_WANTED, Action, Decision, predicted_of
from millrace.model.deployment import INGEST, NOWHERE, SLOTS, Deployment
from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec

QUOTA = "guards.max_total_slots"


def with_budget(signals: Signals, spec: PipelineSpec, tables: ControlTables, now: datetime) -> Signals:
    """Return signals with the slots that the pipeline may take, by its own budget and by the quota of all.

    Args:
        signals: The pipeline's.
        spec: The pipeline.
        tables: Its control tables.
        now: The present (UTC).
    """
    share, own = share_of(spec, tables, now), None if spec.budget is None else spec.budget.slots
    if share is not None and (own is None or share < own):
        return replace(signals, budget=share, budget_key=QUOTA, priority=spec.priority)
    return replace(signals, budget=own, priority=spec.priority)


def share_of(spec: PipelineSpec, tables: ControlTables, now: datetime) -> int | None:
    """Return the most slots that a pipeline may take; None without a quota.

    Its own need counts as all slots that its bounds allow: the share is what it may have if it wants that much.

    Args:
        spec: The pipeline.
        tables: Its control tables.
        now: The present (UTC).
    """
    quota = spec.guards.max_total_slots
    if quota is None:
        return None
    by_app, standby = spec.bounds_by_app(now), frozenset[str]() if spec.fleet is None else spec.fleet.standby
    bounds, most = list(by_app.values()), sum(allowed.max_slots for allowed in by_app.values())
    least = sum(allowed.min_slots for name, allowed in by_app.items() if name not in standby)
    claims = {spec.name: Claim(most, spec.priority, least, _step(bounds))}
    for other in tables.deployments.slots_in_use().others(spec.name):
        if other.slots:
            claims[other.pipeline] = _claim(other, tables.decisions.last_measured(other.pipeline))
    if sum(claim.low for claim in claims.values()) > quota:
        return claims[spec.name].low
    return fair_shares(claims, quota)[spec.name]


def _claim(current: Deployment, last: Decision | None) -> Claim:
    """Return what another pipeline may get. One that nothing is known of keeps its slots."""
    if last is None or last.signals is None:
        return Claim(current.slots, low=current.slots)
    running = [name for name in current.apps if current.wanted(name)]
    needed = {*running, *_entered(last)} & current.apps.keys()
    wanted = {name: max(current.apps[name].slots, *_wished(last, name)) for name in needed}
    step = _step(map(last.signals.bounds_of, needed))
    need = math.ceil(sum(wanted.values()) / step) * step
    own = last.signals.budget if last.signals.budget_key != QUOTA else None
    if own is not None:  # more than its own budget it can never take
        need = min(need, max(current.slots, own) // step * step)
    least = sum(last.signals.bounds_of(name).min_slots for name in running)
    return Claim(need, last.signals.priority, min(least, need), step)


def _entered(last: Decision) -> Iterator[str]:
    """Yield the apps at which a Decision lets streams enter: nodes of a fleet, which may have to start."""
    changes = (change for proposal in last.proposals for change in proposal.changes)
    if last.action is not Action.ADVISE:
        yield from (change.app for change in changes if change.field == INGEST and change.value != NOWHERE)


def _wished(last: Decision, app: str) -> Iterable[float]:
    """Return the slots that a Decision's optimizers wanted for an app, whether it got them or not; at least a 0.

    What a person would have to carry out does not count.
    """
    yield 0.0
    asked = [c.value for p in last.proposals for c in p.changes if c.app == app and c.field == SLOTS]
    if asked and last.action is Action.ADVISE:
        return
    yield from map(float, asked)
    yield from (predicted_of(p.predicted, app, SLOTS_WANTED) or 0.0 for p in last.proposals)


def _step(bounds: Iterable[Bounds]) -> int:
    """Return the step in which the slots of all apps together come."""
    return math.gcd(*(allowed.step for allowed in bounds)) or 1
