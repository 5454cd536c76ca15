"""One look: observe, decide, apply. Every look ends as a recorded Decision, holds included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from include.contracts.codec import to_json
from include.contracts.decision import Action, Decision, GuardOutcome, Memory, Outcome, Reconfiguration
from include.contracts.deployment import Deployment
from include.contracts.errors import NotReady
from include.contracts.protocols import Cursor, Optimizer, Plant
from include.contracts.signals import Signals
from include.control.applying import Applying
from include.control.guards import Case, first_veto, judge
from include.control.look import Observed, Request
from include.control.observations import new_observations
from include.control.quality import GateResult, check
from include.control.scalings import last_scalings
from include.control.sentences import change_sentence, hold_sentence
from include.control.stores.decisions import DecisionStore, new_decision_id, veto_id
from include.control.stores.deployments import DeploymentStore
from include.control.stores.memories import MemoryStore
from include.control.stores.observations import ObservationStore
from include.control.stores.reconfigurations import ReconfigurationStore
from include.control.verify import verify
from include.control.wishes import Wishes, ask, forced
from include.lake.store import Lake
from include.pipelines.spec import Mode, PipelineSpec
from include.tracking.tracker import Tracker

__all__ = ["Loop", "Observed", "Request"]

ACTION_OF_MODE = {Mode.ADVISE: Action.ADVISE, Mode.APPROVE: Action.AWAIT, Mode.AUTO: Action.APPLY}
BROKEN = {Outcome.FAILED: "driver_failed", Outcome.CIRCUIT_OPEN: "circuit_open"}
FELL = {*BROKEN, Outcome.ROLLED_BACK}
NOT_JUDGED = GateResult(True, sentence="not judged")
PLAIN = Request()


@dataclass
class Loop:
    """A pipeline's control loop; its collaborators come in, its state lies in the lake.

    Attributes:
        spec: The pipeline.
        lake: Telemetry and control tables.
        plant: What is observed and reconfigured.
        optimizers: By registry name.
        tracker: Where changes are logged.
        clock: The present (UTC).
    """

    spec: PipelineSpec
    lake: Lake
    plant: Plant
    optimizers: Mapping[str, Optimizer]
    tracker: Tracker
    clock: Callable[[], datetime]

    def observe(self, request: Request = PLAIN) -> Observed:
        """Judge and collect the telemetry since the last look, and check what earlier changes achieved.

        Args:
            request: What a person asked; a forced change needs no telemetry, so nothing stands in its way.

        Raises:
            NotReady: Quietly, if there is nothing new to look at.
        """
        since = DecisionStore(self.lake).cursor(self.spec.name)
        seen = Observed(self.spec.name, None, NOT_JUDGED, since, time=self.clock(), until=since)
        code, problem = self._problem()
        if problem is not None:
            return replace(seen, problem=problem, reason_code=code)
        try:
            return self._collected(seen)
        except NotReady as outcome:
            if request.forced_slots is None:
                raise
            return replace(seen, problem=str(outcome), reason_code="not_ready")

    def decide(self, observed: Observed, request: Request = PLAIN) -> Decision:
        """Decide on what was observed and record it; the same look gives the same Decision, once.

        Args:
            observed: What :meth:`observe` returned.
            request: What a person asked.
        """
        time = observed.time or self.clock()
        decision_id = new_decision_id(time, self.spec.name, to_json((observed.since, observed.until)), to_json(request))
        done = DecisionStore(self.lake).get(decision_id)
        if done is not None:
            return done
        decision, memories = self._decision(decision_id, observed, request)
        if decision.action in (Action.APPLY, Action.AWAIT):
            run_id, models = self.tracker.log_change(self.spec, decision)
            decision = replace(decision, mlflow_run_id=run_id, models=models)
        if not request.dry_run:
            self._remember(decision, memories)
        DecisionStore(self.lake).record(decision)
        return decision

    def apply(self, decision_id: str) -> tuple[Reconfiguration, ...]:
        """Make a Decision real, see :meth:`Applying.apply`."""
        return Applying(self.spec, self.lake, self.plant, self.clock).apply(decision_id)

    def _problem(self) -> tuple[str, str | None]:
        """Return why there is nothing to look at, as code and sentence; None if there is."""
        name = self.spec.name
        current = DeploymentStore(self.lake).latest(name)
        if current is None:
            return "not_launched", f"{name} has not been launched; trigger launch_{name} first."
        if not current.running:
            return "stopped", f"{name} is stopped; trigger launch_{name} to start it."
        last = next(iter(ReconfigurationStore(self.lake).recent(name, 1)), None)
        if last is not None and last.outcome in BROKEN and (last.to_version or 0) >= current.version:
            what = "was given up after repeated failures" if last.outcome is Outcome.CIRCUIT_OPEN else "failed"
            return BROKEN[last.outcome], f"{last.app} does not run: its driver {what}: {last.error or 'no error told'}"
        return "", None

    def _collected(self, seen: Observed) -> Observed:
        gate = check(self.spec, self.lake, seen.since, self.clock())
        if not gate.passed:
            return replace(seen, gate=gate, until=gate.read_to)
        try:
            signals = self.plant.observe(seen.since)
            if signals.telemetry_version > gate.read_to.telemetry_version:  # rows came in between: judge them too
                gate = check(self.spec, self.lake, seen.since, self.clock())
            self._verify(signals)
        except NotReady:
            raise
        except Exception as error:
            problem = f"The telemetry could not be read: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return replace(seen, gate=gate, problem=problem, reason_code="collect_failed", until=gate.read_to)
        if not gate.passed:
            return replace(seen, gate=gate, until=gate.read_to)
        return replace(seen, signals=signals, gate=gate, until=Cursor(signals.telemetry_version, signals.until))

    def _verify(self, signals: Signals) -> None:
        for change in verify(self.spec, self.lake, signals):
            decision = DecisionStore(self.lake).get(change.decision_id or "")
            if decision is not None:
                self.tracker.log_achieved(decision.mlflow_run_id, change.achieved)

    def _decision(
        self, decision_id: str, observed: Observed, request: Request
    ) -> tuple[Decision, Mapping[str, Memory]]:
        current = DeploymentStore(self.lake).latest(self.spec.name)
        cursor = observed.since if request.dry_run else observed.until or observed.since
        blank = Decision(
            decision_id=decision_id,
            pipeline=self.spec.name,
            time=self.clock(),
            action=Action.HOLD,
            reason_code="",
            sentence="",
            signals=observed.signals,
            base_version=current.version if current else None,
            config_hash=self.spec.config_hash,
            cursor_version=cursor.telemetry_version,
            cursor_until=cursor.until,
        )
        code, why = self._obstacle(observed, current, request)
        if why is not None or current is None:
            trace = () if observed.gate.passed else (GuardOutcome("data quality", False, observed.gate.sentence),)
            return replace(blank, reason_code=code, sentence=why or "", guards=trace), {}
        wishes = self._wishes(decision_id, observed, current, request)
        if wishes.failure is not None:
            words = f"Nothing is changed: {wishes.failure}"
            return replace(blank, reason_code="optimizer_failed", sentence=words, proposals=wishes.proposals), {}
        return self._ruled(blank, wishes, observed, current, request), wishes.memories

    def _obstacle(self, observed: Observed, current: Deployment | None, request: Request) -> tuple[str, str | None]:
        """Return what ends the look before any optimizer is asked, as code and sentence; None if nothing does."""
        if current is None or not current.running:
            return self._problem()
        if request.forced_slots is not None:
            return "", None
        if observed.problem is not None:
            return observed.reason_code, observed.problem
        if not observed.gate.passed:
            return "data_quality", f"Nothing is changed on bad telemetry: {observed.gate.sentence}."
        signals = observed.signals
        if signals is not None and signals.deployment_version != current.version:
            ran = signals.deployment_version
            return (
                "not_running_yet",
                f"Version {current.version} is not measured yet: the telemetry is of version {ran}.",
            )
        return ("", None) if signals is not None else ("no_signals", "Nothing was measured.")

    def _wishes(self, decision_id: str, observed: Observed, current: Deployment, request: Request) -> Wishes:
        if request.forced_slots is not None or observed.signals is None:
            return forced(request, self.spec.app, current)
        store = MemoryStore(self.lake)
        memories = {name: store.latest(self.spec.name, name, besides=decision_id) for name in self.optimizers}
        return ask(self.optimizers, observed.signals, current, memories, self.spec.owners)

    def _ruled(
        self, blank: Decision, wishes: Wishes, observed: Observed, current: Deployment, request: Request
    ) -> Decision:
        """Return what becomes of the wishes: a hold, an advice, a veto, or a change in the pipeline's mode."""
        decision = replace(blank, proposals=wishes.proposals, predicted=wishes.predicted)
        reason = next((p.reason_code for p in wishes.proposals if p.changes), None)
        if not wishes.changes:
            action = Action.ADVISE if wishes.advice else Action.HOLD
            code = reason or next((p.reason_code for p in wishes.proposals), "nothing_proposed")
            return replace(decision, action=action, reason_code=code, sentence=hold_sentence(wishes, request))
        trace = judge(self._case(observed, current, wishes.content, request))
        veto = first_veto(trace)
        action = Action.VETO if veto else self._action(request)
        if action is Action.AWAIT and (answer := self._answer(decision, wishes.content)) is not None:
            return replace(decision, reason_code=answer[0], sentence=answer[1], guards=trace)
        objection = f"{veto.guard}: {veto.reason}" if veto else ""
        sentence = change_sentence(action, wishes, observed.signals, objection)
        decision = replace(decision, action=action, sentence=sentence, reason_code=reason or "", guards=trace)
        if veto is not None:
            return replace(decision, reason_code=veto.guard.replace(" ", "_").replace("-", "_"))
        if action is Action.ADVISE:
            return decision
        author = (request.requested_by or "person") if request.forced_slots is not None else "decision"
        target = replace(wishes.content, author=author, decision_id=blank.decision_id, reason=sentence)
        return replace(decision, target=target)

    def _action(self, request: Request) -> Action:
        if request.dry_run:
            return Action.ADVISE
        return Action.APPLY if request.forced_slots is not None else ACTION_OF_MODE[self.spec.mode]

    def _answer(self, decision: Decision, content: Deployment) -> tuple[str, str] | None:
        """Return why a person is not asked again, as code and sentence: a question waits, or this one was refused."""
        store = DecisionStore(self.lake)
        expiry = timedelta(seconds=self.spec.approval_expires_s)
        for asked in store.awaiting(self.spec.name, decision.time - expiry):
            if asked.base_version != decision.base_version or asked.target is None:
                continue
            veto = store.get(veto_id(asked))
            if veto is None:
                return "awaiting_approval", f"Decision {asked.decision_id} still waits for a person: {asked.sentence}"
            if veto.reason_code == "rejected" and asked.target.apps == content.apps:
                return "rejected", f"The same change was refused: {veto.sentence}"
        return None

    def _case(self, observed: Observed, current: Deployment, target: Deployment, request: Request) -> Case:
        now = self.clock()
        history = ReconfigurationStore(self.lake).recent(self.spec.name, 500, since=now - timedelta(hours=2))
        failed = [c for c in history if c.outcome in FELL and self._leads_to(c, target)]
        return Case(
            now=now,
            current=current,
            target=target,
            gate=observed.gate,
            bounds=self.spec.bounds_contract(),
            limits=self.spec.guards,
            max_per_hour=self.spec.objective.max_reconfigurations_per_hour,
            history=history,
            scalings=last_scalings(history, DecisionStore(self.lake)),
            others=[d for d in DeploymentStore(self.lake).all_latest() if d.pipeline != self.spec.name],
            forced=request.forced_slots is not None,
            failed=failed,
            open_at_most_s=self.spec.ready_deadline_s + self.spec.stop_deadline_s,
        )

    def _leads_to(self, change: Reconfiguration, target: Deployment) -> bool:
        tried = DeploymentStore(self.lake).get(self.spec.name, change.to_version or 0)
        return tried is not None and tried.apps == target.apps

    def _remember(self, decision: Decision, memories: Mapping[str, Memory]) -> None:
        """Store what the look learned. The Decision comes after it: until it is there, a retry begins anew."""
        if decision.signals is not None:
            found, number = new_observations(decision.signals), decision.signals.telemetry_version
            ObservationStore(self.lake).add(self.spec.name, found, "looks", number)
        for name, memory in memories.items():
            MemoryStore(self.lake).record(self.spec.name, name, decision.decision_id, decision.time, memory)
