"""What the guards judge a change by, beside the content that it leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from millrace.control.changes import Scaling, failed_changes, last_decided, scaling
from millrace.control.proposals import VERIFICATION, undoes
from millrace.lake.control_tables import ControlTables
from millrace.lake.pace import at_least
from millrace.model.decision import Action, Decision, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.join_spec import Join
from millrace.model.signals import Bounds, Signals
from millrace.model.spec import GuardsSpec, PipelineSpec

JUDGED_BY = timedelta(hours=2)
"""How far back the guards look: longer than any of them needs."""
JUDGED_BY_BATCHES = 24
"""Batches that this has to reach back."""
MOST_CHANGES = 500
UNDONE_FOR = timedelta(hours=1)
"""How long a person's roll-back stands."""
HELD_FOR, MOST_HELD = timedelta(days=1), 5
"""How long a change that missed its prediction stays undone at the same load, as its cause may be gone by then; and how
many of them."""


@dataclass(frozen=True)
class GuardContext:
    """What the guards judge by.

    Attributes:
        now: The present (UTC).
        current: The Deployment that a change starts from.
        bounds: Allowed slots of an app.
        limits: The spec's guards.
        max_per_hour: Changes allowed in any hour.
        history: Reconfigurations of at least the last hour, newest first.
        decided: The last change of each app that a Decision made, with that Decision.
        scalings: The last verified change of each app's slots.
        failures: Reconfigurations that failed, newest first, each with the Deployment that it led to.
        others: Newest Deployments of the other pipelines.
        forced: True if a person demands the change.
        open_at_most_s: An open Reconfiguration older than this was left behind by a killed reconciler, seconds.
        join: The spec's join; None without one.
        undone: What a person lately rolled back from to the current Deployment; None if nobody did.
        rolled_back: Decisions of the last :data:`HELD_FOR` that undid a change which had missed its prediction.
        signals: What the change rests on; None where nothing was measured.
    """

    now: datetime
    current: Deployment
    bounds: Bounds
    limits: GuardsSpec
    max_per_hour: int
    history: Sequence[Reconfiguration] = ()
    decided: Sequence[tuple[Reconfiguration, Decision]] = ()
    scalings: Sequence[Scaling] = ()
    failures: Sequence[tuple[Reconfiguration, Deployment]] = ()
    others: Sequence[Deployment] = ()
    forced: bool = False
    open_at_most_s: float = 600.0
    join: Join | None = None
    undone: Deployment | None = None
    rolled_back: Sequence[Decision] = ()
    signals: Signals | None = None

    @property
    def trigger_s(self) -> float:
        """Interval of the measured queries' triggers, seconds; 0 if nothing was measured."""
        return self.signals.trigger_s if self.signals is not None else 0.0

    def restarts(self, target: Deployment) -> bool:
        """Say whether a change starts a driver anew; what is obeyed without that, or by its next run, needs no rest."""
        return self.current.finished is None and self.current.restarts(target)

    def resizes(self, target: Deployment) -> bool:
        """Say whether a change starts a driver anew, or changes its executors."""
        return target.apps != self.current.apps


def guard_context(
    spec: PipelineSpec,
    current: Deployment,
    now: datetime,
    history: Sequence[Reconfiguration],
    decisions: Mapping[str, Decision],
    deployments: Mapping[int, Deployment],
    others: Sequence[Deployment],
    *,
    forced: bool = False,
    undone: Deployment | None = None,
    rolled_back: Sequence[Decision] = (),
    signals: Signals | None = None,
) -> GuardContext:
    """Return what a change of a pipeline is judged by.

    Args:
        spec: The pipeline.
        current: The Deployment that the change starts from.
        now: The present (UTC).
        history: Reconfigurations of the last :data:`JUDGED_BY`, newest first.
        decisions: By id, at least those of :func:`~millrace.control.changes.last_decided`.
        deployments: By version, at least those of :func:`~millrace.control.changes.failed_changes`.
        others: Newest Deployments of the other pipelines.
        forced: True if a person demands the change.
        undone: What a person lately rolled back from to the current Deployment.
        rolled_back: Decisions that lately undid a change which had missed its prediction.
        signals: What the change rests on.
    """
    made = ((change, decisions.get(change.decision_id or "")) for change in last_decided(history))
    decided = [(change, decision) for change, decision in made if decision is not None]
    failed = ((change, deployments.get(change.to_version or 0)) for change in failed_changes(history))
    return GuardContext(
        now=now,
        current=current,
        bounds=spec.bounds_contract(),
        limits=spec.guards,
        max_per_hour=spec.objective.max_reconfigurations_per_hour,
        history=history,
        decided=decided,
        scalings=[verified for pair in decided if (verified := scaling(*pair)) is not None],
        failures=[(change, content) for change, content in failed if content is not None],
        others=others,
        forced=forced,
        open_at_most_s=spec.ready_deadline_s + spec.stop_deadline_s,
        join=spec.join,
        undone=undone,
        rolled_back=rolled_back,
        signals=signals,
    )


def read_guard_context(
    spec: PipelineSpec,
    tables: ControlTables,
    current: Deployment,
    now: datetime,
    others: Sequence[Deployment],
    *,
    forced: bool = False,
    signals: Signals | None = None,
) -> GuardContext:
    """Return what a change of a pipeline is judged by now, as the control tables have it.

    Args:
        spec: The pipeline.
        tables: The control tables.
        current: The Deployment that the change starts from.
        now: The present (UTC).
        others: Newest Deployments of the other pipelines.
        forced: True if a person demands the change.
        signals: What the change rests on.
    """
    judged_by = at_least(JUDGED_BY, JUDGED_BY_BATCHES, signals.trigger_s if signals is not None else 0.0)
    history = tables.reconfigurations.recent(spec.name, MOST_CHANGES, since=now - judged_by)
    ids = {key for key in (current.decision_id, *(c.decision_id for c in last_decided(history))) if key}
    versions = {change.to_version or 0 for change in failed_changes(history)}
    decisions = {key: decision for key in ids if (decision := tables.decisions.get(key)) is not None}
    deployments = {v: content for v in versions if (content := tables.deployments.get(spec.name, v)) is not None}
    made_by = decisions.get(current.decision_id or "")
    undone = _undone(tables, current, made_by, now)
    undoing = tables.deployments.made_by_author(spec.name, VERIFICATION, now - HELD_FOR, MOST_HELD)
    rolled_back = [d for d in map(tables.decisions.get, undoing) if d is not None and now - d.time <= HELD_FOR]
    return guard_context(
        spec, current, now, history, decisions, deployments, others,
        forced=forced, undone=undone, rolled_back=rolled_back, signals=signals,
    )  # fmt: skip


def _undone(tables: ControlTables, current: Deployment, made_by: Decision | None, now: datetime) -> Deployment | None:
    if made_by is None or made_by.action is not Action.ROLL_BACK or undoes(made_by.proposals):
        return None
    if now - made_by.time >= UNDONE_FOR:
        return None
    return tables.deployments.get(current.pipeline, made_by.base_version or 0)
