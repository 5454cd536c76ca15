"""From a Decision to a Deployment version and a reconfigured plant; safe to repeat at any point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from include.contracts.decision import Action, Decision, Reconfiguration
from include.contracts.deployment import Deployment
from include.contracts.errors import Conflict, MillraceError
from include.contracts.protocols import Plant
from include.control.stores.decisions import DecisionStore, new_decision_id, veto_id
from include.control.stores.deployments import DeploymentStore
from include.lake.store import Lake
from include.pipelines.spec import PipelineSpec


@dataclass(frozen=True)
class Applying:
    """Makes Decisions real.

    Attributes:
        spec: The pipeline.
        lake: Its control tables.
        plant: What is reconfigured.
        clock: The present (UTC).
    """

    spec: PipelineSpec
    lake: Lake
    plant: Plant
    clock: Callable[[], datetime]

    def apply(self, decision_id: str) -> tuple[Reconfiguration, ...]:
        """Commit a Decision's Deployment version and make the plant run it; return what happened.

        A Decision that changes nothing gives nothing; one whose base version is no longer current, or whose approval
        came too late, is recorded as a veto. A repeated call finds the version it made and only asks the plant again.

        Raises:
            MillraceError: If there is no such Decision of this pipeline.
        """
        decision = DecisionStore(self.lake).get(decision_id)
        if decision is None or decision.pipeline != self.spec.name:
            remedy = f"Look it up with `millrace decisions {self.spec.name}`."
            raise MillraceError("decision_id", decision_id, f"a Decision of {self.spec.name}", remedy)
        if decision.action not in (Action.APPLY, Action.AWAIT) or decision.target is None:
            return ()
        version = self._committed(decision, decision.target)
        return self.plant.apply(version) if version is not None else ()

    def _committed(self, decision: Decision, target: Deployment) -> Deployment | None:
        """Return the version the Decision became, None if it may not become one or was replaced since."""
        store = DeploymentStore(self.lake)
        made = store.made_by(self.spec.name, decision.decision_id)
        if made is None:
            late_s = (self.clock() - decision.time).total_seconds() - self.spec.approval_expires_s
            if decision.action is Action.AWAIT and late_s > 0:
                self._veto(decision, "approval_expired", f"its approval came {late_s:.0f} s too late")
                return None
            try:
                return store.commit(target, decision.base_version)
            except Conflict:
                made = store.made_by(self.spec.name, decision.decision_id)
        latest = store.latest(self.spec.name)
        if made is None:
            newest = latest.version if latest else "none"
            words = f"it was made on version {decision.base_version}, and the newest is {newest}"
            self._veto(decision, "base_version_moved", words)
            return None
        return made if latest is not None and latest.version == made.version else None

    def _veto(self, decision: Decision, code: str, why: str) -> None:
        veto = replace(
            decision,
            decision_id=veto_id(decision),
            time=self.clock(),
            action=Action.VETO,
            reason_code=code,
            sentence=f"Decision {decision.decision_id} is not applied: {why}.",
            target=None,
            cursor_version=None,
            cursor_until=None,
        )
        DecisionStore(self.lake).record(veto)


def roll_back(lake: Lake, pipeline: str, to_version: int, author: str, now: datetime) -> Deployment:
    """Commit a new version with the content of an old one and return it; the reconciler does the rest.

    Repeated, it finds the old content in place and makes no further version.

    Args:
        lake: The lake.
        pipeline: Name of the pipeline.
        to_version: The version to go back to.
        author: Who wants it.
        now: The present (UTC).

    Raises:
        MillraceError: If the pipeline has no such version.
        Conflict: If somebody else made a version at the same moment.
    """
    store = DeploymentStore(lake)
    old, latest = store.get(pipeline, to_version), store.latest(pipeline)
    if old is None or latest is None:
        allowed = f"1 to {latest.version}" if latest else "none: it was never launched"
        raise MillraceError("to_version", to_version, allowed, "Name a version that the pipeline had.")
    if (old.content, old.running) == (latest.content, latest.running):
        return latest
    sentence = f"{author} rolled back from version {latest.version} to the content of version {to_version}."
    decision_id = new_decision_id(now, pipeline, "roll back", str(latest.version))
    target = replace(old, author=author, decision_id=decision_id, reason=sentence)
    made = store.commit(target, latest.version)
    decision = Decision(
        decision_id, pipeline, now, Action.ROLL_BACK, "roll_back", sentence, base_version=latest.version, target=made
    )
    DecisionStore(lake).record(decision)
    return made
