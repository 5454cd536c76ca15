"""One evaluation: observe, decide, commit, apply. Each ends as a recorded Decision, even if it holds.

Only what a change needs happens before it: MLflow gets its run when the change is on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from millrace.control import messages
from millrace.control.apply import apply_decision, commit_version
from millrace.control.change_results import dead_drivers, record_results
from millrace.control.contingencies import renew_plan
from millrace.control.cursor import refused, starting_point, unreported_files
from millrace.control.decide import DecisionContext, Question, action_of, decide
from millrace.control.evaluation import NO_REQUEST, EvaluationInput, GateResult, Hold, Request
from millrace.control.guard_context import read_guard_context
from millrace.control.new_observations import new_observations
from millrace.control.pending_decision import find_decision, veto_of
from millrace.control.spec_update import spec_update
from millrace.lake.control_tables import ControlTables
from millrace.lake.decisions import new_decision_id
from millrace.model.codec import to_json
from millrace.model.decision import CARRIED_OUT, Action, Decision, Memory, Reconfiguration
from millrace.model.deployment import BY_CONTINGENCY
from millrace.model.errors import Conflict, MillraceError, NotReady, Settled
from millrace.model.protocols import Cursor, Optimizer, Plant, Tracker
from millrace.model.query_failure import QueryFailure
from millrace.model.spec import PipelineSpec

NOT_JUDGED = GateResult(True, sentence="not judged")
UNFINISHED = timedelta(minutes=10)
"""Age from which a recorded Decision is left as it is, even if an evaluation was killed before it acted on it."""


class Gate(Protocol):
    """Judges telemetry before any optimizer sees it."""

    def check(self, since: Cursor, now: datetime) -> GateResult:
        """Judge what was committed since a cursor."""
        ...


@dataclass
class ControlLoop:
    """A pipeline's control loop; its collaborators are passed in, its state is in the lake.

    Attributes:
        spec: The pipeline.
        tables: The control tables.
        gate: Judges the telemetry.
        plant: The plant to observe and reconfigure.
        optimizers: By registry name.
        tracker: Logs changes.
        clock: The present (UTC).
        query_failures: Returns the queries that failed while their driver kept running; Decisions name them.
        remark: Sentence that every Decision ends with; empty for none.
    """

    spec: PipelineSpec
    tables: ControlTables
    gate: Gate
    plant: Plant
    optimizers: Mapping[str, Optimizer]
    tracker: Tracker
    clock: Callable[[], datetime]
    query_failures: Callable[[], Sequence[QueryFailure]] = tuple
    remark: str = ""

    def observe(self, request: Request = NO_REQUEST) -> EvaluationInput:
        """Judge and collect the telemetry since the last evaluation, and check what earlier changes achieved.

        Args:
            request: A person's request; a forced change needs no telemetry, so missing telemetry does not stop it.

        Raises:
            NotReady: Quietly, if the pipeline is detached, or nothing is new and no driver has died recently.
        """
        since, note = starting_point(self.tables, self.spec.name)
        note = " ".join(filter(None, (note, *(failure.sentence for failure in self.query_failures()), self.remark)))
        start = EvaluationInput(self.spec.name, None, NOT_JUDGED, since, time=self.clock(), until=since, note=note)
        hold = self._not_running()
        if hold is not None:
            return replace(start, hold=hold)
        broken = (messages.driver_failed(failure).message for failure in self._broken())
        start = replace(start, note=" ".join(filter(None, (note, *broken))))
        try:
            return self._collect(start)
        except NotReady as outcome:
            if request.forced_slots is None and not self._lost_driver():
                raise
            return replace(start, hold=Hold("not_ready", str(outcome)))

    def decide(self, observation: EvaluationInput, request: Request = NO_REQUEST) -> Decision:
        """Decide on an observation and record the Decision; the same observation gives the same Decision, once.

        Args:
            observation: What :meth:`observe` returned.
            request: A person's request.
        """
        span = to_json((observation.since, observation.until))
        decision_id = new_decision_id(observation.time or self.clock(), self.spec.name, span, to_json(request))
        recorded = self.tables.decisions.recorded(decision_id)
        if recorded is not None:
            return recorded
        memories: Mapping[str, Memory] = {}
        if request.forced_slots is None and observation.signals is not None:
            try:
                memories = self._memories(decision_id)
            except MillraceError as error:
                observation = replace(observation, hold=messages.memory_unreadable(error))
        decision, learned = decide(observation, self._context(decision_id, observation, memories, request))
        if observation.note:
            decision = replace(decision, sentence=f"{decision.sentence} {observation.note}")
        if not request.dry_run:
            self._remember(decision, learned)
        self.tables.decisions.record(decision)
        # a change is logged once it is on its way
        advice = decision.action not in CARRIED_OUT and any(p.planned for p in decision.proposals)
        return self._log(decision) if advice or decision.action is Action.AWAIT else decision

    def unfinished(self) -> Decision | None:
        """Return the newest Decision if it was recorded by an evaluation that was killed before it was acted on.

        Its telemetry counts as evaluated, so nothing else would act on it before more is committed.
        """
        last, current = self.tables.decisions.last(self.spec.name), self.tables.deployments.latest(self.spec.name)
        if last is None or current is None or last.action not in (*CARRIED_OUT, Action.AWAIT):
            return None
        is_recent = self.clock() - last.time < UNFINISHED
        return last if is_recent and last.base_version == current.version and not self._is_on_record(last) else None

    def commit(self, decision: Decision, request: Request = NO_REQUEST) -> str | None:
        """Commit the version of a change that needs no approval; agents carry it out before :meth:`apply` is called.

        Obstacles are not reported here: :meth:`apply` meets and reports them. If the Decision changes nothing, its
        contingency plan is committed if that is new.

        Args:
            decision: The Decision.
            request: A person's request to the evaluation; a dry run commits nothing.

        Returns:
            Id of the Decision to :meth:`apply`: this one, or one that an agent has made since the last evaluation. None
            if there is nothing to carry out.
        """
        if request.dry_run:
            return None
        made = self._made_by_agent()
        if decision.action in CARRIED_OUT:
            with suppress(Settled, Conflict):
                commit_version(self.spec, self.tables, decision, self.clock)
        elif made is not None and not self._is_on_record(made):
            return made.decision_id
        else:
            renew_plan(self.tables.deployments, decision, self.spec)
        if made is not None:
            self._log(made)  # drivers have no access to MLflow
        return decision.decision_id if decision.action in CARRIED_OUT else None

    def _made_by_agent(self) -> Decision | None:
        """Return the Decision behind the newest version if the driver's agent made it."""
        current = self.tables.deployments.latest(self.spec.name)
        if current is None or current.author != BY_CONTINGENCY or current.decision_id is None:
            return None
        return find_decision(self.tables, self.spec.name, current.decision_id)

    def _is_on_record(self, decision: Decision) -> bool:
        changes = self.tables.reconfigurations.recent(self.spec.name, since=decision.time)
        return any(change.decision_id == decision.decision_id and change.ended for change in changes)

    def apply(self, decision_id: str, approved_by: str | None = None) -> tuple[Reconfiguration, ...]:
        """Carry out a Decision, see :func:`~millrace.control.apply.apply_decision`, and log it to MLflow."""
        decision = find_decision(self.tables, self.spec.name, decision_id)
        try:
            return apply_decision(self.spec, self.tables, self.plant, decision, self.clock, approved_by)
        finally:
            self._log(decision)

    def _log(self, decision: Decision) -> Decision:
        """Log a Decision to MLflow, once, and return it with its run."""
        (recorded,) = self.tables.decisions.with_runs([decision])
        if recorded.mlflow_run_id is not None:
            return recorded
        run_id, models = self.tracker.log_change(self.spec, decision)
        if run_id is not None:
            self.tables.decisions.record_run(decision, run_id, models)
        return replace(decision, mlflow_run_id=run_id, models=models)

    def _not_running(self) -> Hold | None:
        current = self.tables.deployments.latest(self.spec.name)
        if current is None:
            return messages.not_launched(self.spec.name)
        if current.detached:
            raise NotReady(messages.detached(self.spec.name).message)
        if not current.sizeable:
            return messages.stopped(self.spec.name)
        broken = self._broken()
        others = {app for app in current.apps if current.wanted(app)} - {failure.app for failure in broken}
        return messages.driver_failed(broken[0]) if broken and not others else None

    def _broken(self) -> Sequence[Reconfiguration]:
        """Return the last change of each app that has no driver; others of the same pipeline are still sized."""
        current = self.tables.deployments.latest(self.spec.name)
        return () if current is None else self.tables.reconfigurations.broken(current)

    def _lost_driver(self) -> bool:
        """Return whether a driver died recently: one that dies before it reports leaves no telemetry to judge."""
        since = self.clock() - timedelta(seconds=self.spec.verification.window_s)
        return bool(dead_drivers(self.tables.reconfigurations.recent(self.spec.name, since=since)))

    def _collect(self, start: EvaluationInput) -> EvaluationInput:
        result = self._name_unreadable(self._judge(start))
        if result.hold is not None or not result.gate.passed:
            return result
        try:
            signals = self.plant.observe(start.since)
            if signals.telemetry_version > result.gate.read_to.telemetry_version:
                result = self._judge(start)  # rows came in between: judge them too
            result = self._name_unreadable(result)
            if result.hold is not None:
                return result
            for change, decision in record_results(self.tables, signals):
                (logged,) = self.tables.decisions.with_runs([decision])
                self.tracker.log_achieved(logged.mlflow_run_id, change.achieved)
        except NotReady:
            result = self._name_unreadable(result)
            if result.hold is None:
                raise
            return result
        except Exception as error:
            return replace(result, hold=messages.collect_failed(error))
        if not result.gate.passed:
            return result
        return replace(
            result, signals=signals, until=Cursor(signals.telemetry_version, signals.until, start.since.table_id)
        )

    def _judge(self, start: EvaluationInput) -> EvaluationInput:
        gate = self.gate.check(start.since, self.clock())
        return replace(start, gate=gate, until=gate.read_to, note=" ".join(filter(None, (start.note, gate.note))))

    def _name_unreadable(self, observation: EvaluationInput) -> EvaluationInput:
        """Return an evaluation's input that holds on files that could not be read, unless all were named before."""
        files = unreported_files(self.tables, self.spec.name, self.clock())
        if not files:
            return observation
        gate = observation.gate
        return replace(observation, gate=refused(gate, files), hold=messages.unreadable(files, gate))

    def _memories(self, decision_id: str) -> Mapping[str, Memory]:
        latest = self.tables.memories.latest
        return {name: latest(self.spec.name, name, besides=decision_id) for name in self.optimizers}

    def _context(
        self, decision_id: str, observation: EvaluationInput, memories: Mapping[str, Memory], request: Request
    ) -> DecisionContext:
        """Read everything that the Decision depends on, once."""
        spec, now, signals = self.spec, self.clock(), observation.signals
        in_use = self.tables.deployments.slots_in_use()
        current, others = in_use.latest(spec.name), in_use.others(spec.name)
        forced, action = request.forced_slots is not None, action_of(spec.mode, request)
        rescale = action_of(spec.rescale, request)
        guards = None
        if current is not None:
            guards = read_guard_context(spec, self.tables, current, now, others, forced=forced, signals=signals)
        return DecisionContext(
            spec=spec,
            decision_id=decision_id,
            now=now,
            action=action,
            owners=spec.field_owners,
            optimizers=self.optimizers,
            guards=guards,
            ran=self.tables.deployments.get(spec.name, signals.deployment_version) if signals else None,
            memories=memories,
            request=request,
            questions=self._questions(now) if Action.AWAIT in (action, rescale) else (),
            rescale=rescale,
            update=None if current is None else spec_update(spec, current),
        )

    def _questions(self, now: datetime) -> list[Question]:
        expiry = timedelta(seconds=self.spec.approval_expires_s)
        asked = self.tables.decisions.awaiting(self.spec.name, now - expiry)
        return [Question(decision, veto_of(self.tables, decision)) for decision in asked]

    def _remember(self, decision: Decision, memories: Mapping[str, Memory]) -> None:
        """Store what was learned. The Decision is recorded afterwards; until then, a retry starts again."""
        name, signals = self.spec.name, decision.signals
        if signals is not None:
            # a recreated table counts its versions from 0 again
            series = f"evaluations/{decision.cursor_table}" if decision.cursor_table else "evaluations"
            self.tables.observations.add(name, new_observations(signals), series, signals.telemetry_version)
        for optimizer, memory in memories.items():
            self.tables.memories.record(name, optimizer, decision.decision_id, decision.time, memory)
