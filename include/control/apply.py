"""From a Decision to a Deployment version and a reconfigured plant; safe to repeat at any point."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from include.control.approval import record_veto, veto_of
from include.control.circumstances import read_circumstances
from include.control.evaluation import GateResult
from include.control.guards import first_veto, judge, reason_code
from include.control.proposals import is_forced
from include.drivers.quota import check_quota
from include.lake.decisions import DecisionStore, new_decision_id
from include.lake.deployments import OUTRUN, DeploymentStore, SlotsInUse
from include.lake.store import Lake
from include.model.decision import Action, Decision, GuardOutcome, Reconfiguration
from include.model.deployment import Deployment
from include.model.errors import Conflict, MillraceError, Settled
from include.model.protocols import Plant
from include.model.spec import PipelineSpec

SOUND = GateResult(True, sentence="the telemetry was found sound when the change was decided")


@dataclass(frozen=True)
class Objection:
    """Why a Decision does not become a version.

    Attributes:
        code: Reason code.
        why: The reason for a person, part of a sentence.
        guards: The guards' trace; empty where they were not asked.
    """

    code: str
    why: str
    guards: tuple[GuardOutcome, ...] = ()


REFUSED = Objection("refused", "it was refused before")


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

        A Decision that changes nothing gives nothing. The guards judge it again before it is committed: what has
        happened since it was made, a person's approval included, counts. A repeated call finds the version it made
        and only asks the plant again.

        Raises:
            Settled: Quietly, if the Decision was vetoed, before or just now.
            Conflict: If other changes kept coming first; try again.
            MillraceError: If there is no such Decision of this pipeline.
        """
        decision = DecisionStore(self.lake).get(decision_id)
        if decision is None or decision.pipeline != self.spec.name:
            remedy = f"Look it up with `millrace decisions {self.spec.name}`."
            raise MillraceError("decision_id", decision_id, f"a Decision of {self.spec.name}", remedy)
        if decision.action not in (Action.APPLY, Action.AWAIT) or decision.target is None:
            return ()
        version = self._version(decision, decision.target)
        latest = DeploymentStore(self.lake).latest(self.spec.name)
        replaced = latest is None or latest.version != version.version
        return () if replaced else self.plant.apply(version)

    def _version(self, decision: Decision, target: Deployment) -> Deployment:
        """Return the version that the Decision became, by this call or an earlier one."""
        store = DeploymentStore(self.lake)
        for in_use in store.attempts():
            # asked before the version is looked for, so that one that is made in between is no refusal
            settled = store.is_settled(decision.decision_id) or veto_of(self.lake, decision) is not None
            made = store.made_by(self.spec.name, decision.decision_id)
            if made is not None:
                return made
            objection = REFUSED if settled else self._objection(decision, target, in_use)
            if objection is not None:
                raise self._vetoed(decision, objection)
            with suppress(Conflict):
                return store.commit(target, decision.base_version, in_use)
        raise Conflict(OUTRUN)

    def _objection(self, decision: Decision, target: Deployment, in_use: SlotsInUse) -> Objection | None:
        late_s = (self.clock() - decision.time).total_seconds() - self.spec.approval_expires_s
        if decision.action is Action.AWAIT and late_s > 0:
            return Objection("approval_expired", f"its approval came {late_s:.0f} s too late")
        current = in_use.latest(self.spec.name)
        if current is None or current.version != decision.base_version:
            newest = current.version if current else "none"
            why = f"it was made on version {decision.base_version}, and the newest is {newest}"
            return Objection("base_version_moved", why)
        return self._guards_objection(decision, target, current, in_use)

    def _guards_objection(
        self, decision: Decision, target: Deployment, current: Deployment, in_use: SlotsInUse
    ) -> Objection | None:
        others = in_use.others(self.spec.name)
        circumstances = read_circumstances(self.spec, self.lake, self.clock(), SOUND, others)
        trace = judge(circumstances.case(self.spec, current, target, forced=is_forced(decision.proposals)))
        veto = first_veto(trace)
        return None if veto is None else Objection(reason_code(veto), f"{veto.guard}: {veto.reason}", trace)

    def _vetoed(self, decision: Decision, objection: Objection) -> Settled:
        sentence = f"Decision {decision.decision_id} is not applied: {objection.why}."
        veto = record_veto(self.lake, decision, objection.code, sentence, self.clock(), objection.guards)
        return Settled(veto.sentence)


def roll_back(lake: Lake, pipeline: str, to_version: int, author: str, now: datetime, quota: int | None) -> Deployment:
    """Commit a new version with the content of an old one and return it; the reconciler does the rest.

    Repeated, it finds the old content in place and makes no further version.

    Args:
        lake: The lake.
        pipeline: Name of the pipeline.
        to_version: The version to go back to.
        author: Who wants it.
        now: The present (UTC).
        quota: Slots that all pipelines together may hold, the spec's ``guards.max_total_slots``.

    Raises:
        MillraceError: If the pipeline has no such version, or the quota does not leave the slots that it had.
        Conflict: If other changes kept coming first; try again.
    """
    store = DeploymentStore(lake)
    old = store.get(pipeline, to_version)
    for in_use in store.attempts():
        latest = in_use.latest(pipeline)
        if old is None or latest is None:
            allowed = f"1 to {latest.version}" if latest else "none: it was never launched"
            raise MillraceError("to_version", to_version, allowed, "Name a version that the pipeline had.")
        if (old.content, old.running) == (latest.content, latest.running):
            return _recorded(lake, latest, now)  # killed before it was recorded, an earlier call may have made it
        sentence = f"{author} rolled back from version {latest.version} to the content of version {to_version}."
        decision_id = new_decision_id(now, pipeline, "roll back", str(latest.version))
        target = replace(old, author=author, decision_id=decision_id, reason=sentence)
        check_quota(target, in_use, quota)
        with suppress(Conflict):
            return _recorded(lake, store.commit(target, latest.version, in_use), now)
    raise Conflict(OUTRUN)


def _recorded(lake: Lake, made: Deployment, now: datetime) -> Deployment:
    """Record the Decision of a roll-back, unless it is on record."""
    store = DecisionStore(lake)
    if made.decision_id is not None and store.get(made.decision_id) is None:
        back = Decision(made.decision_id, made.pipeline, now, Action.ROLL_BACK, "roll_back", made.reason)
        store.record(replace(back, base_version=made.version - 1, target=made))
    return made
