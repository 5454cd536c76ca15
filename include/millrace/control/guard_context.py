"""What the guards need to judge a change, in addition to the content that it leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from millrace.control.change_results import failed_changes, last_decided
from millrace.control.proposals import VERIFICATION, undoes
from millrace.lake.control_tables import ControlTables
from millrace.lake.pace import at_least
from millrace.model.decision import Action, Decision, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.join_spec import Join
from millrace.model.objective import Bounds
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.model.spec_sections import GuardsSpec

JUDGED_BY = timedelta(hours=2)
"""How far back the guards look; no guard needs more."""
JUDGED_BY_BATCHES = 24
"""Fewest batches that this must cover."""
MOST_CHANGES = 500
UNDONE_FOR = timedelta(hours=1)
"""How long a person's rollback stands."""
HELD_FOR, MOST_HELD = timedelta(days=1), 5
"""How long a change that missed its prediction is not tried again at the same load (its cause may pass), and
how many such changes count."""


@dataclass(frozen=True)
class GuardContext:
    """Everything that the guards judge by.

    Attributes:
        now: The present (UTC).
        current: The Deployment that a change starts from.
        bounds: Allowed slots of each app.
        limits: The spec's guards.
        max_per_hour: Changes allowed in any hour.
        history: Reconfigurations of at least the last hour, newest first.
        decided: Each app's last change that a Decision made, with that Decision.
        failures: Failed Reconfigurations, newest first, each with the Deployment that it led to.
        others: Newest Deployments of the other pipelines.
        forced: True if a person forces the change.
        open_at_most_s: Age beyond which an open Reconfiguration was left by a killed reconciler, seconds.
        join: The spec's join; None without one.
        budget: Most slots of all apps together; None without a budget.
        undone: Deployment that a person recently rolled back, which made the current one; None if there is none.
        rolled_back: Decisions of the last :data:`HELD_FOR` that undid a change that had missed its prediction.
        signals: Signals behind the change; None if nothing was measured.
    """

    now: datetime
    current: Deployment
    bounds: Mapping[str, Bounds]
    limits: GuardsSpec
    max_per_hour: int
    history: Sequence[Reconfiguration] = ()
    decided: Sequence[tuple[Reconfiguration, Decision]] = ()
    failures: Sequence[tuple[Reconfiguration, Deployment]] = ()
    others: Sequence[Deployment] = ()
    forced: bool = False
    open_at_most_s: float = 600.0
    join: Join | None = None
    budget: int | None = None
    undone: Deployment | None = None
    rolled_back: Sequence[Decision] = ()
    signals: Signals | None = None

    @property
    def trigger_s(self) -> float:
        """Interval of the measured queries' triggers, seconds; 0 if nothing was measured."""
        return self.signals.trigger_s if self.signals is not None else 0.0

    def restarts(self, target: Deployment) -> bool:
        """Return whether a change restarts a driver; changes without a restart, or for the next run, need no rest."""
        return self.current.finished is None and self.current.restarts(target)

    def resizes(self, target: Deployment) -> bool:
        """Return whether a change restarts a driver, or changes its executors."""
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
    """Return the context to judge a change of a pipeline by.

    Args:
        spec: The pipeline.
        current: The Deployment that the change starts from.
        now: The present (UTC).
        history: Reconfigurations of the last :data:`JUDGED_BY`, newest first.
        decisions: By id, at least those of :func:`~millrace.control.change_results.last_decided`.
        deployments: By version, at least those of :func:`~millrace.control.change_results.failed_changes`.
        others: Newest Deployments of the other pipelines.
        forced: True if a person forces the change.
        undone: Deployment that a person recently rolled back, which made the current one.
        rolled_back: Decisions that recently undid a change that had missed its prediction.
        signals: Signals behind the change.
    """
    made = ((change, decisions.get(change.decision_id or "")) for change in last_decided(history))
    decided = [(change, decision) for change, decision in made if decision is not None]
    failed = ((change, deployments.get(change.to_version or 0)) for change in failed_changes(history))
    return GuardContext(
        now=now,
        current=current,
        bounds=spec.bounds_by_app(now),
        limits=spec.guards,
        max_per_hour=spec.objective.max_reconfigurations_per_hour,
        history=history,
        decided=decided,
        failures=[(change, content) for change, content in failed if content is not None],
        others=others,
        forced=forced,
        open_at_most_s=spec.ready_deadline_s + spec.stop_deadline_s,
        join=spec.join,
        budget=None if spec.budget is None else spec.budget.slots,
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
    """Read the context to judge a change of a pipeline by now from the control tables.

    Args:
        spec: The pipeline.
        tables: The control tables.
        current: The Deployment that the change starts from.
        now: The present (UTC).
        others: Newest Deployments of the other pipelines.
        forced: True if a person forces the change.
        signals: Signals behind the change.
    """
    judged_by = at_least(JUDGED_BY, JUDGED_BY_BATCHES, signals.trigger_s if signals is not None else 0.0)
    history = tables.reconfigurations.recent(spec.name, MOST_CHANGES, since=now - judged_by)
    origin = current if current.origin is None else tables.deployments.get(spec.name, current.origin) or current
    ids = {key for key in (origin.decision_id, *(c.decision_id for c in last_decided(history))) if key}
    versions = {change.to_version or 0 for change in failed_changes(history)}
    decisions = {key: decision for key in ids if (decision := tables.decisions.get(key)) is not None}
    deployments = {v: content for v in versions if (content := tables.deployments.get(spec.name, v)) is not None}
    made_by = decisions.get(origin.decision_id or "")
    version = undone_version(made_by, now)
    undone = None if version is None else tables.deployments.get(spec.name, version)
    undoing = tables.deployments.made_by_author(spec.name, VERIFICATION, now - HELD_FOR, MOST_HELD)
    rolled_back = [d for d in map(tables.decisions.get, undoing) if d is not None and now - d.time <= HELD_FOR]
    return guard_context(
        spec, current, now, history, decisions, deployments, others,
        forced=forced, undone=undone, rolled_back=rolled_back, signals=signals,
    )  # fmt: skip


def undone_version(made_by: Decision | None, now: datetime) -> int | None:
    """Return the version that a person recently rolled back; None if there is none.

    Args:
        made_by: The Decision that brought the content in force.
        now: The present (UTC).
    """
    if made_by is None or made_by.action is not Action.ROLL_BACK or undoes(made_by.proposals):
        return None
    return made_by.base_version if now - made_by.time < UNDONE_FOR else None
