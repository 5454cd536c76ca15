"""Turn a Decision into a Deployment version and reconfigure the plant; safe to repeat at any point."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from millrace.control.guard_context import read_guard_context
from millrace.control.guards import QUALITY, first_veto, judge, reason_code
from millrace.control.pending_decision import on_newest, record_veto, veto_of
from millrace.control.proposals import is_forced
from millrace.lake.control_tables import ControlTables
from millrace.lake.deployments import OUTRUN, SlotsInUse
from millrace.model.decision import CARRIED_OUT, Action, Decision, GuardOutcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import Conflict, Settled
from millrace.model.protocols import Plant
from millrace.model.spec import PipelineSpec


@dataclass(frozen=True)
class Objection:
    """Why a Decision does not become a version.

    Attributes:
        reason: Reason code.
        why: The reason for a person, part of a sentence.
        guards: The guards' trace; empty if they were not asked.
    """

    reason: str
    why: str
    guards: tuple[GuardOutcome, ...] = ()


REFUSED = Objection("refused", "it was already refused")


def apply_decision(
    spec: PipelineSpec,
    tables: ControlTables,
    plant: Plant,
    decision: Decision,
    clock: Callable[[], datetime],
    approved_by: str | None = None,
) -> tuple[Reconfiguration, ...]:
    """Commit a Decision's Deployment version and make the plant run it; return what happened.

    A Decision that changes nothing returns an empty tuple. The guards judge the Decision again before the commit, so
    everything that happened since it was made counts, including a person's approval. A repeated call finds the version
    that it made and only asks the plant again.

    Args:
        spec: The pipeline.
        tables: Its control tables.
        plant: The plant to reconfigure.
        decision: The Decision, as recorded.
        clock: The present (UTC), read again if another commit came first.
        approved_by: Person who approved it, for the version's record; None if no approval was needed.

    Raises:
        Settled: Quietly, if the Decision was vetoed, before or just now.
        Conflict: If other commits kept coming first; try again.
    """
    version = commit_version(spec, tables, decision, clock, approved_by)
    if version is None:
        return ()
    latest = tables.deployments.latest(spec.name)
    replaced = latest is None or latest.version != version.version
    return () if replaced else plant.apply(version)


def commit_version(
    spec: PipelineSpec,
    tables: ControlTables,
    decision: Decision,
    clock: Callable[[], datetime],
    approved_by: str | None = None,
) -> Deployment | None:
    """Return the version that a Decision became, by this call or an earlier one; None if it changes nothing.

    Raises:
        Settled: Quietly, if the Decision was vetoed, before or just now.
        Conflict: If other commits kept coming first; try again.
    """
    if decision.action not in (*CARRIED_OUT, Action.AWAIT) or decision.target is None:
        return None
    deployments = tables.deployments
    for in_use in deployments.attempts():
        # check before looking for the version: a version made in between is not a refusal
        settled = deployments.is_settled(decision.decision_id) or veto_of(tables, decision) is not None
        version = deployments.made_by(spec.name, decision.decision_id)
        if version is not None:
            return version
        now = clock()
        content = REFUSED if settled else _content(spec, tables, decision, in_use, now)
        if isinstance(content, Objection):
            message = f"Decision {decision.decision_id} is not applied: {content.why}."
            veto = record_veto(tables, decision, content.reason, message, now, content.guards)
            raise Settled(veto.sentence)
        if approved_by is not None:
            content = replace(content, reason=f"Approved by {approved_by}: {content.reason}")
        with suppress(Conflict):
            newest = in_use.latest(spec.name)
            return deployments.commit(content, newest.version if newest else None, in_use)
    raise Conflict(OUTRUN)


def _content(
    spec: PipelineSpec, tables: ControlTables, decision: Decision, in_use: SlotsInUse, now: datetime
) -> Deployment | Objection:
    """Return the content to commit, or why there is none."""
    late_s = (now - decision.time).total_seconds() - spec.approval_expires_s
    if decision.action is Action.AWAIT and late_s > 0:
        return Objection("approval_expired", f"its approval came {late_s:.0f} s too late")
    newest = in_use.latest(spec.name)
    content = None if newest is None else on_newest(decision, newest)
    if newest is None or content is None:
        why = (
            f"it was made for version {decision.base_version}, but the newest is {newest.version if newest else 'none'}"
        )
        return Objection("base_version_moved", why)
    forced, others = is_forced(decision.proposals), in_use.others(spec.name)
    context = read_guard_context(spec, tables, newest, now, others, forced=forced, signals=decision.signals)
    trace = judge(context, content)
    veto = first_veto(trace)
    if veto is None:
        return content
    quality = tuple(outcome for outcome in decision.guards if outcome.guard == QUALITY)  # judged for the Decision
    return Objection(reason_code(veto), f"{veto.guard}: {veto.reason}", (*quality, *trace))
