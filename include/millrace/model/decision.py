"""What optimizers propose, what was decided, and what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from millrace.model.admission import AdmissionPlan
from millrace.model.contingency import Contingency
from millrace.model.deployment import Change, Deployment
from millrace.model.placement import PlacementPlan
from millrace.model.signals import Signals

Memory = Mapping[str, Any]
"""What an optimizer remembers between evaluations: a JSON value, stored with each decision."""


class Action(StrEnum):
    """The result of an evaluation."""

    APPLY = "apply"
    ADVISE = "advise"
    AWAIT = "await"
    HOLD = "hold"
    VETO = "veto"
    ROLL_BACK = "roll back"


CARRIED_OUT = (Action.APPLY, Action.ROLL_BACK)
"""Actions that become a version without anyone's approval."""


class Outcome(StrEnum):
    """How a reconfiguration ended."""

    OPEN = "open"
    READY = "ready"
    FAILED = "failed"
    ROLLED_BACK = "rolled back"
    STOPPED = "stopped"
    FINISHED = "finished"
    CIRCUIT_OPEN = "circuit open"


SUCCEEDED = (Outcome.READY, Outcome.STOPPED, Outcome.FINISHED)
"""Outcomes that were wanted."""

SLOTS_WANTED = "slots_wanted"
"""Key of the slots that an app would get without a budget, in ``predicted``."""


def predicted_of(predicted: Mapping[str, float], app: str, name: str) -> float | None:
    """Return a predicted figure of an app, of a change of one app or of several; None if there is none.

    Args:
        predicted: Figures by ``name``, or by ``name/app`` if several apps change.
        app: The app.
        name: Name of the figure.
    """
    return predicted.get(f"{name}/{app}", predicted.get(name))


@dataclass(frozen=True)
class Proposal:
    """The proposal of one optimizer.

    Attributes:
        optimizer: Its registry name, for example ``flow``.
        changes: Typed changes; empty for "stay".
        reason_code: Machine-readable reason in snake case, for example ``over_provisioned``.
        sentence: The same for a person, one sentence.
        predicted: Predicted effect by name with unit suffix, for example
            ``{"throughput_rows_per_s": 310.0, "utilisation_ratio": 0.71}``.
        curve: The model's curve for pictures and replay: columns of equal length by name, for example
            ``parallelism``, ``mean``, ``low``, ``high`` (rows per second); empty without a model.
        training: Points the model was fitted on: columns ``parallelism``, ``throughput``.
        placement: Plan for the state partitions; None to leave them, and from optimizers that place none.
        admission: Plan for the input streams; None without news of them, and from optimizers that admit none.
        contingencies: Plan for more arrival before the next evaluation than its slots can sustain, by rising
            slots; empty without a model.
    """

    optimizer: str
    changes: tuple[Change, ...]
    reason_code: str
    sentence: str
    predicted: Mapping[str, float] = field(default_factory=dict)
    curve: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    training: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    placement: PlacementPlan | None = None
    admission: AdmissionPlan | None = None
    contingencies: tuple[Contingency, ...] = ()

    @property
    def planned(self) -> bool:
        """Whether it has a plan to show; a plan that acts but changes nothing is not shown."""
        plan = self.admission
        return self.placement is not None or (plan is not None and (bool(self.changes) or not plan.acts))

    @property
    def advises(self) -> bool:
        """Whether a person could change something by following its plan."""
        plan = self.admission
        return plan is not None and plan.changes and not plan.acts


@dataclass(frozen=True)
class GuardOutcome:
    """The answer of one guard: ``passed``, or a veto with its reason."""

    guard: str
    passed: bool
    reason: str = ""


@dataclass(frozen=True)
class Decision:
    """An evaluation and its result, holds included (a row of ``control/decisions``).

    Attributes:
        decision_id: Unique id; sorts by time.
        pipeline: Name of the pipeline.
        time: When it was decided (UTC).
        action: Its result.
        reason_code: Machine-readable reason.
        sentence: The reason for a person.
        signals: The measurements; None if it never got that far.
        base_version: The Deployment version that it started from; None without one.
        proposals: Every optimizer's proposal.
        predicted: Predicted effect of the accepted proposals.
        guards: Trace of the guards in their order.
        target: The content to apply; None unless the action is apply, await or roll back.
        contingencies: Slots planned for more arrival before the next evaluation, as far as the guards allow it; the
            driver's agent carries them out if the mode is ``auto``.
        models: Registered models used, by name: version.
        config_hash: Hash of the spec in force.
        mlflow_run_id: The MLflow run of a change; None for holds.
        cursor_version: Version of ``telemetry/batches`` it read up to, at which the next evaluation continues; None for
            a Decision without an evaluation (a veto of a stale apply, a rollback).
        cursor_until: Time it read up to (UTC).
        cursor_table: Id of the table of ``cursor_version``; None if it was not noted.
    """

    decision_id: str
    pipeline: str
    time: datetime
    action: Action
    reason_code: str
    sentence: str
    signals: Signals | None = None
    base_version: int | None = None
    proposals: tuple[Proposal, ...] = ()
    predicted: Mapping[str, float] = field(default_factory=dict)
    guards: tuple[GuardOutcome, ...] = ()
    target: Deployment | None = None
    contingencies: tuple[Contingency, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    config_hash: str = ""
    mlflow_run_id: str | None = None
    cursor_version: int | None = None
    cursor_until: datetime | None = None
    cursor_table: str | None = None

    def predicted_of(self, app: str, name: str) -> float | None:
        """Return a predicted figure of an app, in a Decision on one app or on several; None if there is none."""
        return predicted_of(self.predicted, app, name)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that lead to its target; none without a target."""
        target = self.target
        return (
            () if target is None else tuple(c for p in self.proposals for c in p.changes if target.value(c) == c.value)
        )


RESTART, LIVE = "T2", "T1"
"""Tiers of a Reconfiguration: a driver is restarted, or gets other executors while its queries run."""


@dataclass(frozen=True)
class Reconfiguration:
    """A start, stop or change that actually happened (a row of ``control/reconfigurations``).

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        decision_id: The Decision behind it; None for a launch or healing.
        tier: T0, T1 or T2.
        from_version: The Deployment version before; None for a first start.
        to_version: The version after; None for a stop.
        generation: Generation of the driver that was started; None for a stop.
        started: When it started (UTC).
        ended: When it was ready or had failed (UTC); None while open.
        downtime_s: From the predecessor's last commit to the successor's first; None if there is no
            predecessor.
        outcome: How it ended.
        error: Why it failed, in one line; None otherwise.
        achieved: Measurements of the next evaluations, under the keys of the Decision's ``predicted``.
    """

    pipeline: str
    app: str
    decision_id: str | None
    tier: str
    from_version: int | None
    to_version: int | None
    generation: int | None
    started: datetime
    ended: datetime | None
    downtime_s: float | None
    outcome: Outcome
    error: str | None = None
    achieved: Mapping[str, float] = field(default_factory=dict)

    def shows_in(self, signals: Signals) -> bool:
        """Return whether signals are of its version, or of a newer one, which changed other apps or only a plan."""
        return self.to_version is not None and self.to_version <= signals.deployment_version
