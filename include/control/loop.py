"""One look: observe, decide, apply. Every look ends as a recorded Decision, holds included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from include.control.apply import Applying
from include.control.approval import veto_of
from include.control.changes import verify
from include.control.circumstances import read_circumstances
from include.control.decide import PLAIN, Circumstances, not_running_yet, ruled
from include.control.evaluation import Observed, Request
from include.control.observations import new_observations
from include.control.proposals import Wishes, ask, forced
from include.control.quality import GateResult, check
from include.control.reading import UNREADABLE, refused, sentence, starting_point, untold_files
from include.lake.decisions import DecisionStore, new_decision_id
from include.lake.deployments import DeploymentStore
from include.lake.memories import MemoryStore
from include.lake.observations import ObservationStore
from include.lake.reconfigurations import BROKEN, ReconfigurationStore
from include.lake.store import Lake
from include.model.codec import to_json
from include.model.decision import Action, Decision, GuardOutcome, Memory, Outcome, Reconfiguration
from include.model.deployment import Deployment
from include.model.errors import MillraceError, NotReady
from include.model.protocols import Cursor, Optimizer, Plant, Tracker
from include.model.signals import Signals
from include.model.spec import Mode, PipelineSpec

__all__ = ["Loop", "Observed", "Request"]

ACTION_OF_MODE = {Mode.ADVISE: Action.ADVISE, Mode.APPROVE: Action.AWAIT, Mode.AUTO: Action.APPLY}
NOT_JUDGED = GateResult(True, sentence="not judged")


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
        since, note = starting_point(self.lake, DecisionStore(self.lake).cursor(self.spec.name))
        seen = Observed(self.spec.name, None, NOT_JUDGED, since, time=self.clock(), until=since, note=note)
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
        if observed.note:
            decision = replace(decision, sentence=f"{decision.sentence} {observed.note}")
        if decision.action in (Action.APPLY, Action.AWAIT) or any(p.planned for p in decision.proposals):
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
        last = ReconfigurationStore(self.lake).given_up(current)
        if last is not None:
            what = "fails again and again" if last.outcome is Outcome.CIRCUIT_OPEN else "failed"
            return BROKEN[last.outcome], f"{last.app} does not run: its driver {what}: {last.error or 'no error told'}"
        return "", None

    def _collected(self, seen: Observed) -> Observed:
        gate = check(self.spec, self.lake, seen.since, self.clock())
        seen = replace(seen, note=" ".join(filter(None, (seen.note, gate.note))))
        if (broken := self._unreadable(seen, gate)) is not None:
            return broken
        if not gate.passed:
            return replace(seen, gate=gate, until=gate.read_to)
        try:
            signals = self.plant.observe(seen.since)
            if signals.telemetry_version > gate.read_to.telemetry_version:  # rows came in between: judge them too
                gate = check(self.spec, self.lake, seen.since, self.clock())
            if (broken := self._unreadable(seen, gate)) is not None:
                return broken
            self._verify(signals)
        except NotReady:
            if (broken := self._unreadable(seen, gate)) is not None:
                return broken
            raise
        except Exception as error:
            problem = f"The telemetry could not be read: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return replace(seen, gate=gate, problem=problem, reason_code="collect_failed", until=gate.read_to)
        if not gate.passed:
            return replace(seen, gate=gate, until=gate.read_to)
        until = Cursor(signals.telemetry_version, signals.until, seen.since.table_id)
        return replace(seen, signals=signals, gate=gate, until=until)

    def _unreadable(self, seen: Observed, gate: GateResult) -> Observed | None:
        """Return a look that ends with files which it needed and could not read; None if all such were told before."""
        files = untold_files(self.lake, self.spec.name, self.clock())
        if not files:
            return None
        told = sentence(files, gate)
        return replace(seen, gate=refused(gate, files), problem=told, reason_code=UNREADABLE, until=gate.read_to)

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
            cursor_table=cursor.table_id,
        )
        code, why = self._obstacle(observed, current, request)
        if why is not None or current is None:
            trace = () if observed.gate.passed else (GuardOutcome("data quality", False, observed.gate.sentence),)
            return replace(blank, reason_code=code, sentence=why or "", guards=trace), {}
        try:
            wishes = self._wishes(decision_id, observed, current, request)
        except MillraceError as error:
            return replace(blank, reason_code="memory_unreadable", sentence=f"Nothing is changed: {error}"), {}
        decision = ruled(
            blank,
            wishes,
            lambda content: self._circumstances(observed).case(
                self.spec, current, content, forced=request.forced_slots is not None
            ),
            self._action(request),
            request,
            self._answer,
        )
        return decision, wishes.memories

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
        if observed.signals is None:
            return "no_signals", "Nothing was measured."
        ran = DeploymentStore(self.lake).get(self.spec.name, observed.signals.deployment_version)
        return not_running_yet(observed.signals, current, ran) or ("", None)

    def _wishes(self, decision_id: str, observed: Observed, current: Deployment, request: Request) -> Wishes:
        if request.forced_slots is not None or observed.signals is None:
            return forced(request, self.spec.app, current)
        store = MemoryStore(self.lake)
        memories = {name: store.latest(self.spec.name, name, besides=decision_id) for name in self.optimizers}
        return ask(self.optimizers, observed.signals, current, memories, self.spec.field_owners)

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
            veto = veto_of(self.lake, asked)
            if veto is None:
                return "awaiting_approval", f"Decision {asked.decision_id} still waits for a person: {asked.sentence}"
            if veto.reason_code == "rejected" and asked.target.content == content.content:
                return "rejected", f"The same change was refused: {veto.sentence}"
        return None

    def _circumstances(self, observed: Observed) -> Circumstances:
        others = DeploymentStore(self.lake).slots_in_use().others(self.spec.name)
        return read_circumstances(self.spec, self.lake, self.clock(), observed.gate, others)

    def _remember(self, decision: Decision, memories: Mapping[str, Memory]) -> None:
        """Store what the look learned. The Decision comes after it: until it is there, a retry begins anew."""
        if decision.signals is not None:
            found, number = new_observations(decision.signals), decision.signals.telemetry_version
            # a table made anew counts its versions from 0 again
            looks = f"looks/{decision.cursor_table}" if decision.cursor_table else "looks"
            ObservationStore(self.lake).add(self.spec.name, found, looks, number)
        for name, memory in memories.items():
            MemoryStore(self.lake).record(self.spec.name, name, decision.decision_id, decision.time, memory)
