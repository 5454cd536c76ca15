"""Find the alerts that are due: recent problems, without those reported before."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from millrace.control.messages import log_of
from millrace.control.pending_decision import pending
from millrace.control.proposals import FAILED
from millrace.lake.control_tables import ControlTables
from millrace.model.alert import Alert, AlertKind
from millrace.model.decision import Action, Decision, Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.failure import in_sentence
from millrace.model.query_failure import QueryFailure
from millrace.model.spec import PipelineSpec

LOOK_BACK = timedelta(hours=1)
"""Older events send no alert: no check ran for that long, or alerts are new."""
REMIND = timedelta(days=1)
"""A problem that lasts is reported again after this time."""
HOLDS = 10
"""Consecutive holds for the same fault that send an alert."""
FEW_HOLDS, HOLDS_FOR = 3, timedelta(minutes=30)
"""Fewer holds are enough if they span this time: evaluations are as far apart as a pipeline's batches."""
FAULTS = ("collect_failed", "data_quality", FAILED)
"""Reason codes of holds that do not pass by themselves."""
DECISIONS = 50
STATES = (AlertKind.NOT_RUNNING, AlertKind.RUNNING)
"""A pipeline is always in one of these states."""
SEEN_FROM_THE_LAST = (*STATES, AlertKind.HOLDS)
"""Kinds that may come again within a day: whether they do follows from what was last reported."""
Happened = tuple[AlertKind, str, str]
"""Kind, subject and sentence."""


def due(
    spec: PipelineSpec,
    tables: ControlTables,
    problem: str | None,
    now: datetime,
    failed: Sequence[QueryFailure] = (),
    restart: str | None = None,
) -> tuple[Alert, ...]:
    """Return the alerts to send for a pipeline.

    Args:
        spec: The pipeline.
        tables: Control tables with its history.
        problem: Why it does not run although it should; None if all is well.
        now: The present (UTC).
        failed: Queries that failed while their driver kept running.
        restart: What a person has to restart, and how, if Millrace did not start the driver; None if nothing.
    """
    recent = tables.decisions.recent(spec.name, DECISIONS)
    decisions = [d for d in recent if d.time >= now - LOOK_BACK]
    changes = tables.reconfigurations.recent(spec.name, since=now - LOOK_BACK)
    told = tables.alerts.since(spec.name, now - REMIND)
    asked = any(d.action is Action.AWAIT for d in decisions)
    waiting = {d.decision_id for d in pending(spec, tables, now)} if asked else set()
    happened = [
        *_decided(decisions, waiting),
        *(_held(recent, told) if decisions else ()),
        *_changed(changes),
        *_ran(tables.deployments.latest(spec.name), problem, told),
        *(((AlertKind.RESTART_NEEDED, hashlib.sha256(restart.encode()).hexdigest()[:16], restart),) if restart else ()),
        *(
            (AlertKind.QUERY_FAILED, f"{failure.query} {failure.at.isoformat()}", failure.sentence)
            for failure in failed
        ),
    ]
    known = {(alert.kind, alert.subject) for alert in told if alert.kind not in SEEN_FROM_THE_LAST}
    return tuple(
        Alert(spec.name, now, kind, subject, sentence)
        for kind, subject, sentence in happened
        if (kind, subject) not in known
    )


def _decided(decisions: Sequence[Decision], waiting: Collection[str]) -> Iterator[Happened]:
    for decision in decisions:
        if decision.decision_id in waiting:
            yield AlertKind.APPROVAL, decision.decision_id, decision.sentence
        elif decision.action is Action.ROLL_BACK:
            yield AlertKind.ROLLED_BACK, decision.decision_id, decision.sentence
        elif decision.action is Action.VETO and decision.reason_code in ("rejected", "expired"):
            yield AlertKind.REJECTED, decision.decision_id, decision.sentence


def _held(decisions: Sequence[Decision], told: Sequence[Alert]) -> Iterator[Happened]:
    reason = decisions[0].reason_code
    last = next((alert.time for alert in told if alert.kind is AlertKind.HOLDS and alert.subject == reason), None)
    if last is not None and all(d.reason_code == reason for d in decisions if d.time > last):
        return  # the same fault as then
    held = list(takewhile(lambda d: d.reason_code == reason, decisions[:HOLDS]))
    long = len(held) >= FEW_HOLDS and held[0].time - held[-1].time >= HOLDS_FOR
    if reason in FAULTS and (long or len(held) == HOLDS):
        yield AlertKind.HOLDS, reason, f"{len(held)} evaluations in a row could not decide. {held[0].sentence}"


def _changed(changes: Sequence[Reconfiguration]) -> Iterator[Happened]:
    for change in changes:
        version, error = f"Version {change.to_version} of {change.app}", in_sentence(change.error)
        if change.outcome is Outcome.CIRCUIT_OPEN:
            remedy = f"Fix the cause, then run ./millrace trigger {change.pipeline}."
            sentence = f"{version} keeps failing: {error}. {remedy}{log_of(change)}"
            yield AlertKind.CIRCUIT_OPEN, f"{change.app} {change.to_version}", sentence
        elif change.outcome is Outcome.ROLLED_BACK:
            sentence = f"{version} failed and was rolled back: {error}.{log_of(change)}"
            yield AlertKind.ROLLED_BACK, f"{change.app} {change.started.isoformat()}", sentence


def _ran(wanted: Deployment | None, problem: str | None, told: Sequence[Alert]) -> Iterator[Happened]:
    last = next((alert.kind for alert in told if alert.kind in STATES), AlertKind.RUNNING)
    if wanted is None or not wanted.kept_running:
        if wanted is not None and last is AlertKind.NOT_RUNNING:
            yield AlertKind.RUNNING, "", f"The pipeline no longer has to run: {wanted.reason}"
    elif problem is not None and last is not AlertKind.NOT_RUNNING:
        yield AlertKind.NOT_RUNNING, "", problem
    elif problem is None and last is AlertKind.NOT_RUNNING:
        yield AlertKind.RUNNING, "", "The pipeline is running again."
