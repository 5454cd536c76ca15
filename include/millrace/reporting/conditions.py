"""The state of a pipeline as conditions, in the form in which Kubernetes resources show theirs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.objective import Objective
from millrace.model.signals import AppSignals, Signals


class Truth(StrEnum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class Condition:
    """One condition.

    Attributes:
        type: ``Running``: its drivers work. ``Scaling``: a change is being carried out. ``Healthy``: its apps keep up,
            and no row waits longer than the goal.
        status: Whether it holds.
        reason: Why, one word in CamelCase.
        message: Why, for a person.
    """

    type: str
    status: Truth
    reason: str
    message: str


def conditions(
    wanted: Deployment, *, alive: bool, change: Reconfiguration | None, problem: str | None, signals: Signals | None
) -> tuple[Condition, Condition, Condition]:
    """Return the conditions Running, Scaling and Healthy of a pipeline.

    Args:
        wanted: Its newest Deployment.
        alive: Whether a driver of it is alive.
        change: Its newest reconfiguration; None without one.
        problem: Why it or one of its queries does not run although it should; None if all is well.
        signals: What the last evaluation measured; None if none did.
    """
    return _running(wanted, alive, problem), _scaling(change), _healthy(wanted, alive, problem, signals)


def _running(wanted: Deployment, alive: bool, problem: str | None) -> Condition:
    if wanted.finished is not None:
        return Condition("Running", Truth.FALSE, "Finished", "The script has ended by itself.")
    if not wanted.running:
        return Condition("Running", Truth.FALSE, "Stopped", f"{wanted.author} stopped it.")
    if problem is not None:
        return Condition("Running", Truth.FALSE, "Failed", problem)
    if not alive:
        return Condition("Running", Truth.FALSE, "Starting", "No driver is alive yet.")
    if wanted.detached:
        return Condition("Running", Truth.TRUE, "Detached", "Its driver runs; Millrace changes nothing.")
    return Condition("Running", Truth.TRUE, "DriverAlive", f"Version {wanted.version} runs.")


def _scaling(change: Reconfiguration | None) -> Condition:
    if change is None:
        return Condition("Scaling", Truth.FALSE, "NeverChanged", "Nothing was changed yet.")
    if change.outcome is Outcome.OPEN:
        message = f"{change.app}: the change to version {change.to_version} is being carried out."
        return Condition("Scaling", Truth.TRUE, "ChangeOpen", message)
    message = f"{change.app}: the last change ended as {change.outcome.value}."
    return Condition("Scaling", Truth.FALSE, "Stable", f"{message[:-1]}: {change.error}" if change.error else message)


def _healthy(wanted: Deployment, alive: bool, problem: str | None, signals: Signals | None) -> Condition:
    if problem is not None:
        return Condition("Healthy", Truth.FALSE, "Failed", problem)
    if not wanted.running or not alive or signals is None:
        return Condition("Healthy", Truth.UNKNOWN, "NotMeasured", "Nothing was measured.")
    sentences = [_short(app, signals.objective) for app in signals.apps]
    behind = [sentence for sentence in sentences if sentence]
    if behind:
        return Condition("Healthy", Truth.FALSE, "Behind", " ".join(behind))
    if signals.unmeasured:
        message = f"{', '.join(signals.unmeasured)}: no measurements lately."
        return Condition("Healthy", Truth.UNKNOWN, "NotMeasured", message)
    if not sentences or None in sentences:
        return Condition("Healthy", Truth.UNKNOWN, "NotMeasured", "The throughput of an app is not known yet.")
    return Condition("Healthy", Truth.TRUE, "KeepsUp", "Every app keeps up with what arrives.")


def _short(app: AppSignals, objective: Objective) -> str | None:
    """Return why an app does not keep its goal, "" if it does, or None if that is not known."""
    able, arrives = app.sustainable(objective), app.arrival_rows_per_s
    if able is None or arrives is None:
        return None
    if arrives > able:
        return f"{app.app}: {arrives:,.0f} rows/s arrive, {able:,.0f} can be sustained."
    waits = app.backlog_rows or 0
    if waits > able * objective.max_lag_s:
        return f"{app.app}: {waits:,} rows wait, more than {objective.max_lag_s:g} s of work."
    return ""
