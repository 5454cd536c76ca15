"""A Decision that waits for a person (mode ``approve``), and how a Decision ends that never becomes a version."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from millrace.control.messages import without_lead
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import veto_id
from millrace.model.decision import Action, Decision, GuardOutcome
from millrace.model.deployment import Deployment
from millrace.model.errors import Conflict, MillraceError, Settled
from millrace.model.spec import PipelineSpec


def find_decision(tables: ControlTables, pipeline: str, decision_id: str) -> Decision:
    """Return a Decision of a pipeline.

    Raises:
        MillraceError: If the pipeline has no such Decision.
    """
    decision = tables.decisions.get(decision_id)
    if decision is None or decision.pipeline != pipeline:
        remedy = f"Look it up with `millrace decisions {pipeline}`."
        raise MillraceError("decision_id", decision_id, f"a Decision of {pipeline}", remedy)
    return decision


def awaiting(tables: ControlTables, pipeline: str, decision_id: str) -> Decision:
    """Return a Decision that a person was asked to approve.

    Raises:
        MillraceError: If the pipeline has no such Decision, or it does not wait for a person.
    """
    decision = find_decision(tables, pipeline, decision_id)
    if decision.action is not Action.AWAIT:
        remedy = f"Its action is `{decision.action}`; only Decisions of mode approve wait."
        raise MillraceError("decision_id", decision_id, "a Decision that waits for a person", remedy)
    return decision


def pending(spec: PipelineSpec, tables: ControlTables, now: datetime) -> list[Decision]:
    """Return the Decisions of a pipeline that wait for a person, newest first."""
    since = now - timedelta(seconds=spec.approval_expires_s)
    return [
        decision
        for decision in tables.decisions.awaiting(spec.name, since)
        if veto_of(tables, decision) is None and tables.deployments.made_by(spec.name, decision.decision_id) is None
    ]


def on_newest(decision: Decision, newest: Deployment) -> Deployment | None:
    """Return the content that a Decision leads to from the newest version.

    While a Decision waits, another one may change other fields without a restart, such as shed ratio or executors. Both
    changes then stand. A launch or a rollback in between voids the waiting Decision.

    Args:
        decision: The Decision, with a target.
        newest: The newest version.

    Returns:
        Its target if the newest version is its base, else its changes on the newest content; None if the pipeline has
        moved on.
    """
    target = decision.target
    if target is None or newest.version == decision.base_version:
        return target
    changes = decision.changes
    unchanged = all(newest.value(c) == c.before for c in changes)
    if not changes or not unchanged or newest.decision_id is None or newest.running != target.running:
        return None
    content = newest.with_changes(changes)
    if content.restarts(target):
        return None
    return replace(content, author=target.author, decision_id=target.decision_id, reason=target.reason)


def question(tables: ControlTables, pipeline: str, decision_id: str) -> str:
    """Return the sentence that a person is asked to approve.

    Raises:
        Settled: Quietly, if the Decision has been applied or vetoed already.
        MillraceError: If the pipeline has no such Decision, or it does not wait for a person.
    """
    decision = awaiting(tables, pipeline, decision_id)
    veto, version = veto_of(tables, decision), tables.deployments.made_by(pipeline, decision_id)
    if version is not None:
        raise Settled(_applied(decision_id, version.version))
    if veto is not None or tables.deployments.is_settled(decision_id):
        raise Settled(veto.sentence if veto else f"Decision {decision_id} was already refused.")
    return decision.sentence


def refuse(tables: ControlTables, pipeline: str, decision_id: str, by: str | None, now: datetime) -> Decision:
    """Record that a waiting Decision will not be applied; safe to repeat.

    Args:
        tables: The control tables.
        pipeline: Name of the pipeline.
        decision_id: The Decision that waited.
        by: Person who refused; None if no answer came in time.
        now: When (UTC).

    Returns:
        The veto, with reason ``rejected`` or ``expired``, or the veto that came first.

    Raises:
        MillraceError: If there is no such Decision, it does not wait for a person, or it has been applied already.
    """
    asked = awaiting(tables, pipeline, decision_id)
    code, what = ("expired", f"No one approved decision {decision_id} in time")
    if by is not None:
        code, what = ("rejected", f"{by} rejected decision {decision_id}")
    try:
        return record_veto(tables, asked, code, f"{what}: {without_lead(asked.sentence)}", now)
    except Settled as outcome:
        remedy = f"{outcome} Undo it with `./millrace trigger {pipeline} --roll-back-to {asked.base_version}`."
        raise MillraceError("decision_id", decision_id, "a Decision that still waits", remedy) from outcome


def veto_of(tables: ControlTables, decision: Decision) -> Decision | None:
    """Return the veto that ended a Decision; None if none did."""
    return tables.decisions.get(veto_id(decision))


def record_veto(
    tables: ControlTables,
    decision: Decision,
    code: str,
    sentence: str,
    now: datetime,
    guards: Sequence[GuardOutcome] = (),
) -> Decision:
    """Rule out that a Decision is ever applied, and record why; if repeated, the first veto stands.

    Recording comes second, or a veto could stand next to the version that somebody makes at that moment.

    Args:
        tables: The control tables.
        decision: The Decision that must not be applied.
        code: Reason code.
        sentence: The reason for a person.
        now: The present (UTC).
        guards: Trace of the guards that judged it; the Decision's own by default.

    Returns:
        The veto on record.

    Raises:
        Settled: If the Decision became a version first.
    """
    version = tables.deployments.rule_out(decision.pipeline, decision.decision_id)
    if version is not None:
        raise Settled(_applied(decision.decision_id, version.version))
    veto = replace(
        decision,
        decision_id=veto_id(decision),
        time=now,
        action=Action.VETO,
        reason_code=code,
        sentence=sentence,
        guards=tuple(guards) or decision.guards,
        target=None,
        cursor_version=None,
        cursor_until=None,
    )
    with suppress(Conflict):  # a concurrent call vetoes it
        if tables.decisions.record(veto):
            return veto
    return tables.decisions.get(veto.decision_id) or veto


def _applied(decision_id: str, version: int) -> str:
    return f"Decision {decision_id} is already applied as version {version}."
