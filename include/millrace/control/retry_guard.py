"""Keep a change that missed its prediction from being tried again until the load or the content is different."""

from __future__ import annotations

import math
from dataclasses import replace

from millrace.control.change_results import dead_drivers
from millrace.control.guard_context import GuardContext
from millrace.control.roll_back import DIED, GAIN_MISSED, HELD_FROM, HELD_TO
from millrace.model.decision import Decision
from millrace.model.deployment import PLACEMENT, SLOTS, AppDeployment, Change, Deployment


def objection(context: GuardContext, target: Deployment) -> str | None:
    """Return why content repeats a rolled-back change, or goes farther; None if it does not, or may try again."""
    for decision in context.rolled_back:
        tried = tuple(replace(c, before=c.value, value=c.before) for c in decision.changes)
        if _is_retry(tried, context.current, target) and not _is_another(decision, tried, context, target):
            return _told(decision, tried)
    return None


def _is_retry(tried: tuple[Change, ...], current: Deployment, target: Deployment) -> bool:
    steps = [step for step in tried if step.field != PLACEMENT]
    if not steps:  # a placement: on other executors it is a different one
        steps = [*tried] if target.slots == current.slots else []
    moved = any(current.value(step) != target.value(step) for step in steps)
    return moved and all(_as_far(step, current.value(step), target.value(step)) for step in steps)


def _as_far(step: Change, now: float | None, then: float | None) -> bool:
    if now is None or then is None or step.field == PLACEMENT:
        return then == step.value
    return now < step.value <= then if step.value > step.before else then <= step.value < now


def _is_another(decision: Decision, tried: tuple[Change, ...], context: GuardContext, target: Deployment) -> bool:
    """Return whether content, load or purpose differ from when the change was rolled back."""
    name = tried[0].app
    wanted = decision.target.apps.get(name) if decision.target else None
    content = target.apps.get(name)
    if wanted is None or content is None or _rest(wanted, tried) != _rest(content, tried):
        return True
    app = context.signals.app(name) if context.signals else None
    arrival = app.arrival_rows_per_s if app else None
    low, high = decision.predicted.get(HELD_FROM), decision.predicted.get(HELD_TO)
    if arrival is not None and low is not None and high is not None and not low <= arrival <= high:
        return True
    if decision.reason_code == DIED:
        return _dies_as_well(decision, context)
    return decision.reason_code == GAIN_MISSED and _was_better(decision, tried, context)


def _rest(app: AppDeployment, tried: tuple[Change, ...]) -> AppDeployment:
    """Return an app without what was tried and what the load decides."""
    for step in tried:
        if step.field != PLACEMENT and app.value(step) is not None:
            app = app.changed(step)
    return replace(app, slots=0, placement={})


def _dies_as_well(decision: Decision, context: GuardContext) -> bool:
    """Return whether drivers of the restored version died too, so the change was not the cause."""
    versions = {entry.to_version for entry in context.history if entry.decision_id == decision.decision_id}
    return bool(dead_drivers(entry for entry in context.history if entry.to_version in versions))


def _was_better(decision: Decision, tried: tuple[Change, ...], context: GuardContext) -> bool:
    """Return whether the restored slots do less than the slots that were taken away for gaining nothing."""
    step = next((step for step in tried if step.field == SLOTS), None)
    before = decision.signals.app(tried[0].app) if decision.signals else None
    now = context.signals.app(tried[0].app) if context.signals else None
    if step is None or not before or not now or before.capacity is None or now.capacity is None:
        return False
    doubt = math.hypot(before.capacity.rows_per_s_error, now.capacity.rows_per_s_error)
    # a gain within the doubt took them away; only a gain beyond it gives them back, or the two would take turns
    return now.slots == step.before and now.capacity.rows_per_s + 2 * doubt < before.capacity.rows_per_s


def _told(decision: Decision, tried: tuple[Change, ...]) -> str:
    step = next((step for step in tried if step.field != PLACEMENT), None)
    what = "this placement" if step is None else f"{step.name} {step.before:g} -> {step.value:g}"
    why = f"{tried[0].app}: {what} was rolled back at {decision.time:%H:%M} UTC"
    low, high = decision.predicted.get(HELD_FROM), decision.predicted.get(HELD_TO)
    if low is None or high is None:
        return f"{why}; it is not tried again until the app itself changes"
    return f"{why}; it is not tried again until the arrival rate leaves {low:,.0f} to {high:,.0f} rows/s"
