"""A Decision that waits for a person's word (mode ``approve``)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from include.contracts.decision import Action, Decision
from include.contracts.errors import MillraceError
from include.control.stores.decisions import TABLE, DecisionStore
from include.lake.records import decision_from_row
from include.lake.store import Lake, literal
from include.pipelines.spec import PipelineSpec


def awaiting(lake: Lake, pipeline: str, decision_id: str) -> Decision:
    """Return the Decision that waits.

    Raises:
        MillraceError: If the pipeline has no such Decision, or it does not wait for anybody.
    """
    decision = DecisionStore(lake).get(decision_id)
    if decision is None or decision.pipeline != pipeline:
        remedy = f"Look it up with `millrace decisions {pipeline}`."
        raise MillraceError("decision_id", decision_id, f"a Decision of {pipeline}", remedy)
    if decision.action is not Action.AWAIT:
        remedy = f"Its action is `{decision.action}`; only a Decision made in mode approve waits."
        raise MillraceError("decision_id", decision_id, "a Decision that waits for a person", remedy)
    return decision


def refuse(lake: Lake, pipeline: str, decision_id: str, by: str | None, now: datetime) -> Decision:
    """Record that a waiting Decision will not be applied; safe to repeat.

    Args:
        lake: The control tables.
        pipeline: Name of the pipeline.
        decision_id: The Decision that waited.
        by: Who said no; None if nobody answered in time.
        now: When (UTC).

    Returns:
        The veto: reason ``rejected`` or ``expired``.

    Raises:
        MillraceError: If there is no such Decision, or it does not wait for anybody.
    """
    asked = awaiting(lake, pipeline, decision_id)
    what = "Nobody agreed in time to" if by is None else f"{by} rejected"
    veto = replace(
        asked,
        decision_id=_refusal_of(decision_id),
        time=now,
        action=Action.VETO,
        reason_code="expired" if by is None else "rejected",
        sentence=f"{what} {decision_id}: {asked.sentence}",
        target=None,
        cursor_version=None,
        cursor_until=None,
    )
    store = DecisionStore(lake)
    return veto if store.record(veto) else store.get(veto.decision_id) or veto


def question_before(lake: Lake, spec: PipelineSpec, decision_id: str) -> str | None:
    """Return the earlier Decision that makes asking about this one needless; None if a person is to be asked.

    While the load stays, every look comes to the same conclusion. A person is asked about one change at a time, and
    not again about a change they refused on the same version before the time to answer is over.

    Args:
        lake: The control tables.
        spec: The pipeline.
        decision_id: A Decision that waits.

    Raises:
        MillraceError: If there is no such Decision, or it does not wait for anybody.
    """
    decision = awaiting(lake, spec.name, decision_id)
    where = f"pipeline = {literal(spec.name)} and time <= {literal(decision.time)}"
    same_base = f"action = {literal(Action.AWAIT.value)} and base_version = {literal(decision.base_version or 0)}"
    sql = f"select * from decisions where {where} and {same_base} order by time, decision_id"
    store = DecisionStore(lake)
    asked: list[tuple[Decision, datetime | None]] = []
    for later in map(decision_from_row, lake.rows(sql, TABLE)):
        stands_for = next((q.decision_id for q, refused in asked if _covers(spec, q, refused, later)), None)
        if later.decision_id == decision_id:
            return stands_for
        if stands_for is None:
            refusal = store.get(_refusal_of(later.decision_id))
            asked.append((later, None if refusal is None else refusal.time))
    return None


def _covers(spec: PipelineSpec, asked: Decision, refused: datetime | None, later: Decision) -> bool:
    """Say whether a question still stands for a later Decision: it is open, or it was refused and is the same."""
    if later.time - asked.time >= timedelta(seconds=spec.approval_expires_s):
        return False
    is_open = refused is None or refused > later.time
    return is_open or _apps(asked) == _apps(later)


def _apps(decision: Decision) -> object:
    return decision.target.apps if decision.target else None


def _refusal_of(decision_id: str) -> str:
    return f"{decision_id}-refused"
