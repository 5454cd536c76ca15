"""Run a tuner on recorded telemetry, and compare what it would have done with what was done.

The deciding function is the live loop's own (:func:`millrace.control.decide.decide`), with the tuner's own class, the
arbiter, the guards and the messages. Every change that no guard vetoes is made at once, whatever the pipeline's mode.
Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from millrace.control.change_results import achieved_by, last_decided, unverified
from millrace.control.decide import DecisionContext, decide
from millrace.control.evaluation import EvaluationInput, GateResult
from millrace.control.guard_context import (
    HELD_FOR,
    JUDGED_BY,
    MOST_HELD,
    GuardContext,
    guard_context,
    undone_version,
)
from millrace.control.proposals import VERIFICATION, undoes
from millrace.lake.control_tables import ControlTables
from millrace.model.backtest import Backtest, EvaluationResult, ReplayedEvaluation, Totals
from millrace.model.chain_rate import chain_rate
from millrace.model.contingency import describe
from millrace.model.decision import CARRIED_OUT, Action, Decision, Memory, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import NotReady
from millrace.model.protocols import Cursor, Optimizer
from millrace.model.signals import Signals
from millrace.model.spec import PipelineSpec
from millrace.reporting.recorded_plant import RecordedPlant
from millrace.reporting.recording import NewestOthers, Recording, read_recording

SOUND = GateResult(True, sentence="the telemetry was found sound when it was recorded")


def replay(
    spec: PipelineSpec,
    tables: ControlTables,
    name: str,
    optimizer: Optimizer,
    options: Mapping[str, Any],
    since: datetime | None,
    until: datetime,
) -> Backtest:
    """Run a tuner on a pipeline's recording; nothing is written.

    Args:
        spec: The pipeline.
        tables: The control tables.
        name: The tuner's registry name.
        optimizer: The tuner.
        options: Its options, shown with the result.
        since: Time of the first evaluation (UTC); None for a day before the last one.
        until: Latest time of an evaluation (UTC).

    Raises:
        MillraceError: If nothing was recorded in that time.
    """
    recording = read_recording(spec.name, tables, since, until)
    plant = RecordedPlant(recording.evaluations, recording.deployments, recording.changes)
    memory = tables.memories.latest(spec.name, name, before=recording.evaluations[0].time)
    return Replay(spec, tables, recording, plant, name, optimizer, memory).run(options)


@dataclass
class Replay:
    """One tuner on one recording.

    Attributes:
        spec: The pipeline; its guards are those of today, bounds and objective those that were recorded.
        tables: Control tables with the Decisions before the recording.
        recording: The recording.
        plant: The recording as a plant, not observed yet.
        name: Registry name of the tuner.
        optimizer: The tuner.
        memory: Its memory before the first evaluation.
    """

    spec: PipelineSpec
    tables: ControlTables
    recording: Recording
    plant: RecordedPlant
    name: str
    optimizer: Optimizer
    memory: Memory = field(default_factory=dict)
    _decisions: dict[str, Decision] = field(default_factory=dict)
    _achieved: dict[tuple[str, datetime], Mapping[str, float]] = field(default_factory=dict)
    _others: NewestOthers = field(init=False)

    def __post_init__(self) -> None:
        self._others = NewestOthers(self.recording.others)

    def run(self, options: Mapping[str, Any] | None = None) -> Backtest:
        """Replay every evaluation and return the result.

        Args:
            options: The tuner's options, shown with the result.
        """
        evaluations: list[ReplayedEvaluation] = []
        while (signals := self._observed()) is not None:
            evaluations.append(self._evaluate(signals))
        return Backtest(
            pipeline=self.spec.name,
            tuner=self.name,
            options=dict(options or {}),
            evaluations=tuple(evaluations),
            recorded=_totals([(e, e.recorded) for e in evaluations]),
            replayed=_totals([(e, e.replayed) for e in evaluations]),
            downtime_s=self.plant.history.downtime_s,
        )

    def _observed(self) -> Signals | None:
        try:
            return self.plant.observe(Cursor())
        except NotReady:
            return None

    def _evaluate(self, signals: Signals) -> ReplayedEvaluation:
        recorded, current = self.plant.recorded, self.plant.deployment
        for change in unverified(self._changes(recorded.time), signals):
            decision = self._decision(change.decision_id or "")
            if decision is not None and (achieved := achieved_by(change, decision, signals)):
                self._achieved[change.app, change.started] = achieved
        decision = self._decide(signals, recorded, current)
        self._decisions[recorded.decision_id] = decision
        if decision.target is not None:
            self.plant.apply(decision.target)
        base = self.recording.deployments[recorded.base_version or 0]
        measured = recorded.signals or signals
        return ReplayedEvaluation(
            time=recorded.time,
            span_s=self.plant.span_s,
            arrival_rows_per_s=signals.arrival_rows_per_s,
            recorded=self._result(recorded, measured, base),
            replayed=self._result(decision, signals, current),
            modelled=self.plant.modelled,
        )

    def _decide(self, signals: Signals, recorded: Decision, current: Deployment) -> Decision:
        context = DecisionContext(
            spec=self.spec,
            decision_id=recorded.decision_id,
            now=recorded.time,
            action=Action.APPLY,
            owners=self._owners,
            optimizers={self.name: self.optimizer},
            guards=self._guards(signals, recorded.time, current),
            ran=self.recording.deployments.get(signals.deployment_version),
            memories={self.name: self.memory},
        )
        observation = EvaluationInput(self.spec.name, signals, SOUND, Cursor(), time=recorded.time)
        decision, memories = decide(observation, context)
        self.memory = memories.get(self.name, self.memory)
        return decision

    @property
    def _owners(self) -> Mapping[str, str]:
        """The owner of each field if the spec named this tuner."""
        tuner = self.spec.tuner.name
        return {f: self.name if owner == tuner else owner for f, owner in self.spec.field_owners.items()}

    def _guards(self, signals: Signals, now: datetime, current: Deployment) -> GuardContext:
        """Return the guards' context of today, with the bounds and the objective that were recorded."""
        history = [c for c in self._changes(now) if c.started >= now - JUDGED_BY]
        ids = {c.decision_id or "" for c in last_decided(history)}
        decisions = {key: decision for key in ids if (decision := self._decision(key)) is not None}
        deployments, others = self.recording.deployments, self._others.at(now)
        today = guard_context(
            self.spec, current, now, history, decisions, deployments, others,
            undone=self._undone(current, now), rolled_back=self._rolled_back(now), signals=signals,
        )  # fmt: skip
        bounds = {app.app: signals.bounds_of(app.app) for app in signals.apps}
        return replace(today, bounds=bounds, max_per_hour=signals.objective.max_reconfigurations_per_hour)

    def _undone(self, current: Deployment, now: datetime) -> Deployment | None:
        """Return the Deployment that a person rolled back shortly before, if the replay has the restored content."""
        origin = self.recording.deployments.get(current.origin or 0, current)
        version = undone_version(self._decision(origin.decision_id or ""), now)
        return None if version is None else self.tables.deployments.get(self.spec.name, version)

    def _rolled_back(self, now: datetime) -> list[Decision]:
        """Return what the recording rolled back while the replay followed it, and the replay's own rollbacks."""
        followed = (d for v, d in self.recording.deployments.items() if v <= self.plant.followed)
        for deployment in followed:
            if deployment.author == VERIFICATION:
                self._decision(deployment.decision_id or "")
        known = sorted(self._decisions.values(), key=lambda d: d.time, reverse=True)
        undone = [d for d in known if undoes(d.proposals) and d.target is not None and now - d.time <= HELD_FOR]
        return undone[:MOST_HELD]

    def _changes(self, now: datetime) -> list[Reconfiguration]:
        """Return the past changes, newest first, each with what the replay itself saw it achieve."""
        begin = self.recording.evaluations[0].time
        return [
            c if (c.ended or c.started) < begin else replace(c, achieved=self._achieved.get((c.app, c.started), {}))
            for c in self.plant.history.known(now)
        ]

    def _decision(self, decision_id: str) -> Decision | None:
        if decision_id not in self._decisions and (stored := self.tables.decisions.get(decision_id)) is not None:
            self._decisions[decision_id] = stored
        return self._decisions.get(decision_id)

    def _result(self, decision: Decision, signals: Signals, base: Deployment) -> EvaluationResult:
        slots = _slots(base)
        done = decision.target if decision.action in CARRIED_OUT else None
        return EvaluationResult(
            slots=slots,
            running=sum(app.slots for app in signals.apps),
            decided=slots if done is None else _slots(done),
            throughput_rows_per_s=chain_rate(signals, {app.app: self.plant.throughput(app) for app in signals.apps}),
            backlog_rows=signals.backlog_rows,
            action=decision.action,
            reason_code=decision.reason_code,
            sentence=decision.sentence,
            contingencies=describe(decision.contingencies),
        )


def _slots(content: Deployment) -> int:
    return sum(app.slots for app in content.apps.values())


def _totals(results: Sequence[tuple[ReplayedEvaluation, EvaluationResult]]) -> Totals:
    asked = [result.slots for _, result in results] + [results[-1][1].decided]
    return Totals(
        reconfigurations=sum(a != b for a, b in pairwise(asked)),
        core_s=sum(result.running * evaluation.span_s for evaluation, result in results),
        under_provisioned=sum(evaluation.under_provisioned(result) for evaluation, result in results),
        peak_slots=max(asked),
    )
