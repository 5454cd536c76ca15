"""A Decision that waits for a person's word (mode ``approve``)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from include.contracts.decision import Action, Decision
from include.contracts.errors import MillraceError
from include.control.stores.decisions import DecisionStore, veto_id
from include.lake.store import Lake


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
        decision_id=veto_id(asked),
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
