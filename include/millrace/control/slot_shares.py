"""Slots that a pipeline may take of the quota that all pipelines share: weighted max-min fairness by priority.

First come, first served would leave everything to the pipeline that grew first. Each pipeline computes the same shares
from the newest Decisions of all and keeps to its own; those above their share shrink at their next evaluation. The
quota itself is checked when a version is committed, so the shares need no coordination.
"""

from __future__ import annotations

from dataclasses import replace

from millrace.control.fair_shares import fair_shares
from millrace.lake.control_tables import ControlTables
from millrace.model.decision import SLOTS_WANTED, Decision
from millrace.model.deployment import Deployment
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec

QUOTA = "guards.max_total_slots"


def with_budget(signals: Signals, spec: PipelineSpec, tables: ControlTables) -> Signals:
    """Return signals with the slots that the pipeline may take, by its own budget and by the quota of all.

    Args:
        signals: The pipeline's.
        spec: The pipeline.
        tables: Its control tables.
    """
    share, own = share_of(spec, tables), None if spec.budget is None else spec.budget.slots
    if share is not None and (own is None or share < own):
        return replace(signals, budget=share, budget_key=QUOTA, priority=spec.priority)
    return replace(signals, budget=own, priority=spec.priority)


def share_of(spec: PipelineSpec, tables: ControlTables) -> int | None:
    """Return the most slots that a pipeline may take; None without a quota.

    Its own need counts as all slots that its bounds allow: the share is what it may have if it wants that much.

    Args:
        spec: The pipeline.
        tables: Its control tables.
    """
    quota = spec.guards.max_total_slots
    if quota is None:
        return None
    bounds = spec.bounds_by_app().values()
    needs = {spec.name: sum(allowed.max_slots for allowed in bounds)}
    lows, weights = {spec.name: sum(allowed.min_slots for allowed in bounds)}, {spec.name: spec.priority}
    for other in tables.deployments.slots_in_use().others(spec.name):
        if other.slots:
            last = tables.decisions.last_measured(other.pipeline)
            needs[other.pipeline], lows[other.pipeline], weights[other.pipeline] = _claim(other, last)
    if sum(lows.values()) > quota:
        return lows[spec.name]
    return fair_shares(needs, weights, quota, lows)[spec.name]


def _claim(current: Deployment, last: Decision | None) -> tuple[int, int, float]:
    """Return the slots that another pipeline wants, the fewest that it can have, and its weight.

    One that nothing is known of keeps its slots.
    """
    if last is None or last.signals is None:
        return current.slots, current.slots, 1.0
    wanted = {name: last.predicted_of(name, SLOTS_WANTED) or app.slots for name, app in current.apps.items()}
    least = sum(last.signals.bounds_of(name).min_slots for name in current.apps)
    need = round(sum(wanted.values()))
    return need, min(least, need), last.signals.priority
