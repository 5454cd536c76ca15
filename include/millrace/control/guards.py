"""The guards between a proposal and a change: a fixed order, each with a veto, all of them in the trace.

Cool-down and changes per hour apply to urgent scale-ups too. Right after a restart, the backlog that the restart itself
caused looks like urgency, and a tuner that follows it runs away.
A change that a person forces must pass only ``bounds``, ``running tasks`` and ``quota``; the trace says that the others
were not asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from millrace.control.change_results import since_s
from millrace.control.evaluation import GateResult
from millrace.control.guard_context import GuardContext
from millrace.control.retry_guard import objection
from millrace.lake.deployments import slots_elsewhere, slots_left
from millrace.model.decision import GuardOutcome, Outcome
from millrace.model.deployment import Deployment
from millrace.model.failure import in_sentence
from millrace.model.quiet_hours import quiet_span
from millrace.model.signals import AppSignals

BACK_OFF_S, LONGEST_BACK_OFF_S = 300.0, 3600.0
"""First and longest wait before content that failed is tried again, to prevent a restart storm."""

MIN_MEMORY_MB = 512

QUALITY = "data quality"
NOT_ASKED = "not asked: a person forced the change"


Guard = Callable[[GuardContext, Deployment], str | None]
"""Returns why content is vetoed; None lets it pass."""


def judge(context: GuardContext, target: Deployment) -> tuple[GuardOutcome, ...]:
    """Ask every guard about some content, in the fixed order, and return the whole trace."""
    return tuple(_ask(name, guard, context, target) for name, guard in CHAIN)


def quality_outcome(gate: GateResult, *, forced: bool = False) -> GuardOutcome:
    """Return the first entry of every trace: whether the telemetry behind a change was sound.

    It cannot veto content: on bad telemetry, the evaluation holds before any optimizer is asked.
    """
    if forced:
        return GuardOutcome(QUALITY, True, NOT_ASKED)
    return GuardOutcome(QUALITY, gate.passed, "" if gate.passed else gate.sentence)


def first_veto(trace: Sequence[GuardOutcome]) -> GuardOutcome | None:
    """Return the veto that decides: the first in the order."""
    return next((outcome for outcome in trace if not outcome.passed), None)


def reason_code(veto: GuardOutcome) -> str:
    """Return the reason code of a guard's veto, for example ``cool_down``."""
    return veto.guard.replace(" ", "_").replace("-", "_")


def _ask(name: str, guard: Guard, context: GuardContext, target: Deployment) -> GuardOutcome:
    if context.forced and name not in ASKED_WHEN_FORCED:
        return GuardOutcome(name, True, NOT_ASKED)
    reason = guard(context, target)
    return GuardOutcome(name, reason is None, reason or "")


def bounds(context: GuardContext, target: Deployment) -> str | None:
    """Keep slots and a join's settings within the spec's bounds, and memory above Spark's minimum.

    Apps that already have more slots than their budget may still change, but together get no more. Only slots and
    settings of a join that change are judged: others may be of an older spec, which the job follows until it restarts.
    """
    for name, app in sorted(target.apps.items()):
        allowed, before = context.bounds.get(name), context.current.apps.get(name)
        changes = before is None or before.slots != app.slots
        if changes and allowed is not None and app.slots not in allowed:
            return f"{name}: {app.slots} slots; allowed: {allowed}"
        if app.memory_mb < MIN_MEMORY_MB:
            return f"{name}: {app.memory_mb} MB of memory; allowed: {MIN_MEMORY_MB} or more"
    budget = math.inf if context.budget is None else context.budget
    if target.slots > max(budget, context.current.slots):
        return f"{target.slots} slots of all apps; allowed: {budget} (budget.slots)"
    return _join_out_of_bounds(context, target)


def _join_out_of_bounds(context: GuardContext, target: Deployment) -> str | None:
    join, before, allowed = target.join, context.current.join, context.join
    if join is None or allowed is None:
        return None
    changed = {name for name, value in vars(join).items() if before is None or value != getattr(before, name)}
    if "workers" in changed and not allowed.workers.min <= join.workers <= allowed.workers.max:
        return f"{join.workers} join workers; allowed: {allowed.workers.min} to {allowed.workers.max}"
    if "block" in changed and not 1 <= join.block <= allowed.capacity // 2:
        return f"blocks of {join.block} tuples; allowed: 1 to {allowed.capacity // 2}"
    if "shed" in changed and not 0.0 <= join.shed <= 1.0:
        return f"a shed ratio of {join.shed:g}; allowed: 0 to 1"
    return None


def cool_down(context: GuardContext, target: Deployment) -> str | None:
    """Let a reconfiguration end and its app settle; back off from content that failed."""
    touched = _touched(context.current, target)
    history = [change for change in context.history if change.app in touched]
    for change in history:
        is_open = change.ended is None and change.outcome is Outcome.OPEN
        if is_open and since_s(context.now, change.started) < context.open_at_most_s:
            return f"{change.app}: the change that started at {_clock(change.started)} has not finished yet"
    if context.resizes(target) and (why := _backing_off(context, target)) is not None:
        return why
    if not context.restarts(target):
        return None
    elapsed_s = min((since_s(context.now, change.ended) for change in history if change.ended), default=math.inf)
    if elapsed_s >= context.limits.cool_down_s:
        return None
    allowed = f"the cool-down is {context.limits.cool_down_s:g} s"
    return f"the last reconfiguration ended {elapsed_s:.0f} s ago; {allowed}"


def _touched(current: Deployment, target: Deployment) -> Collection[str]:
    """Return the apps that a change concerns: all, if it changes anything else, such as who reads a stream."""
    if replace(target, apps=current.apps).content != current.content:
        return target.apps
    return _other_content(current, target)


def _other_content(current: Deployment, target: Deployment) -> set[str]:
    """Return the apps that have other content in another Deployment."""
    return {name for name, app in target.apps.items() if app != current.apps.get(name)}


def _backing_off(context: GuardContext, target: Deployment) -> str | None:
    """Return why content of an app that failed is not tried again yet; each failure of the app doubles the wait."""
    touched = _other_content(context.current, target) | (target.entered - context.current.entered)
    tried = [change for change, of in context.failures if of.apps.get(change.app) == target.apps.get(change.app)]
    last = next((change for change in tried if change.app in touched), None)
    if last is None:
        return None
    failed = [change for change in tried if change.app == last.app]
    wait_s = min(BACK_OFF_S * 2.0 ** (len(failed) - 1), LONGEST_BACK_OFF_S)
    elapsed_s = since_s(context.now, last.ended or last.started)
    if elapsed_s >= wait_s:
        return None
    left_s = math.ceil(wait_s - elapsed_s)
    return f"these settings failed {elapsed_s:.0f} s ago ({in_sentence(last.error)}); a retry is allowed in {left_s} s"


def changes_per_hour(context: GuardContext, target: Deployment) -> str | None:
    """Limit the decided changes in the last hour; launches and healing do not count."""
    if not context.resizes(target):
        return None
    hour_ago = context.now - timedelta(hours=1)
    recent = [c for c in context.history if c.decision_id and hour_ago < c.started <= context.now]
    changes = len({c.decision_id for c in recent})
    if changes < context.max_per_hour:
        return None
    return f"{changes} changes in the last hour; allowed: {context.max_per_hour}"


def quiet_hours(context: GuardContext, target: Deployment) -> str | None:
    """Change nothing within the spec's UTC spans."""
    span = quiet_span(context.now, context.limits.quiet_hours)
    return None if span is None else f"it is {context.now.astimezone(UTC):%H:%M} UTC, within the quiet hours {span}"


def running_tasks(context: GuardContext, target: Deployment) -> str | None:
    """Keep slots for all tasks of queries in real-time mode; with fewer, such a query stands still."""
    for app in _losing_slots(context, target):
        if app.running_tasks is not None and (target.apps[app.app].slots < app.running_tasks or not app.running_tasks):
            return (
                f"{app.app} runs {app.running_tasks or 'its'} tasks all the time in real-time mode: each needs a slot"
            )
    return None


def garbage_collection(context: GuardContext, target: Deployment) -> str | None:
    """Keep slots while executors are short of memory: on fewer of them, each would hold more state."""
    most = context.limits.max_gc_ratio
    for app in _losing_slots(context, target):
        if app.gc_ratio is not None and app.gc_ratio > most and context.current.apps[app.app].executor is not None:
            return f"{app.app}: {app.gc_ratio:.0%} of the tasks' time is garbage collection; allowed: {most:.0%}"
    return None


def _losing_slots(context: GuardContext, target: Deployment) -> Iterator[AppSignals]:
    """Yield what was measured of each app that would have fewer slots."""
    for app in context.signals.apps if context.signals is not None else ():
        present, wanted = context.current.apps.get(app.app), target.apps.get(app.app)
        if present is not None and wanted is not None and wanted.slots < present.slots:
            yield app


def roll_back(context: GuardContext, target: Deployment) -> str | None:
    """Refuse what a person undid in the last hour, unless something else changed, and what missed its prediction."""
    return _undone_by_a_person(context, target) or objection(context, target)


def _undone_by_a_person(context: GuardContext, target: Deployment) -> str | None:
    if context.undone and context.undone.partitioning != context.current.partitioning != target.partitioning:
        return "a person rolled a map of keys back less than an hour ago"
    for name, app in sorted(target.apps.items()):
        undone = context.undone.apps.get(name) if context.undone else None
        current = context.current.apps.get(name)
        if undone is None or current is None:
            continue
        if current.slots != undone.slots == app.slots:
            return f"{name}: a person rolled {undone.slots} slots back to {current.slots} less than an hour ago"
        number = undone.max_parallelism
        if current.max_parallelism != number == app.max_parallelism:
            return (
                f"{name}: a person rolled {number} partitions back to {current.max_parallelism} less than an hour ago"
            )
        if current.placement != undone.placement and current.placement != app.placement and app.slots == current.slots:
            return f"{name}: a person rolled a placement back less than an hour ago"
    return None


def quota(context: GuardContext, target: Deployment) -> str | None:
    """Limit the slots of all running pipelines together; giving slots back is always allowed."""
    allowed, wanted = context.limits.max_total_slots, target.slots
    elsewhere = slots_elsewhere(target.pipeline, context.others)
    if allowed is None or wanted <= slots_left(allowed, context.current.slots, elsewhere):
        return None
    return f"{wanted} slots here plus {elsewhere} in other pipelines exceed the quota of {allowed}"


CHAIN: tuple[tuple[str, Guard], ...] = (
    ("bounds", bounds),
    ("cool-down", cool_down),
    ("changes per hour", changes_per_hour),
    ("quiet hours", quiet_hours),
    ("running tasks", running_tasks),
    ("garbage collection", garbage_collection),
    ("roll-back", roll_back),
    ("quota", quota),
)
"""Asked in this order."""

ASKED_WHEN_FORCED = frozenset({"bounds", "running tasks", "quota"})


def _clock(time: datetime) -> str:
    return f"{time.astimezone(UTC):%H:%M:%S} UTC"
