"""The end of a Decision that does not become a version."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from include.lake.decisions import DecisionStore, veto_id
from include.lake.deployments import DeploymentStore
from include.lake.store import Lake
from include.model.decision import Action, Decision, GuardOutcome
from include.model.errors import Conflict, Settled


def veto_of(lake: Lake, decision: Decision) -> Decision | None:
    """Return the veto that ended a Decision, None if none did."""
    return DecisionStore(lake).get(veto_id(decision))


def record_veto(
    lake: Lake, decision: Decision, code: str, sentence: str, now: datetime, guards: Sequence[GuardOutcome] = ()
) -> Decision:
    """Rule out that a Decision is ever applied, and record why; repeated, the first veto stands.

    It is ruled out first: recorded first, a veto could stand beside the version that somebody makes at that moment.

    Args:
        lake: The control tables.
        decision: What is not to be applied.
        code: Reason code.
        sentence: The reason for a person.
        now: The present (UTC).
        guards: The trace of the guards that judged it; by default that of the Decision.

    Returns:
        The veto on record.

    Raises:
        Settled: If the Decision became a version first.
    """
    made = DeploymentStore(lake).rule_out(decision.pipeline, decision.decision_id)
    if made is not None:
        raise Settled(f"Decision {decision.decision_id} has been applied already, as version {made.version}.")
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
    store = DecisionStore(lake)
    with suppress(Conflict):  # somebody else vetoes it at this moment
        if store.record(veto):
            return veto
    return store.get(veto.decision_id) or veto
