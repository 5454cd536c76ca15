"""Takes recorded telemetry through a tuner: what it would have done, beside what was done.

The very same code decides as in the live loop: the tuner's own class, the arbiter (:mod:`.wishes`), the guards and the
words (:mod:`.ruling`), the check of what a change achieved (:mod:`.verify`). Every change that no guard vetoes is made
at once, whatever the pipeline's mode. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Protocol

from include.control.changes import completed
from include.control.decide import JUDGED_BY, Circumstances, not_running_yet, ruled
from include.control.evaluation import GateResult
from include.control.proposals import ask
from include.lake.decisions import DecisionStore
from include.lake.store import Lake
from include.model.backtest import Backtest, Course, ReplayedLook, Totals
from include.model.decision import Action, Decision, Memory, Reconfiguration
from include.model.deployment import Deployment
from include.model.errors import NotReady
from include.model.protocols import Cursor, Optimizer, Plant
from include.model.signals import AppSignals, Signals
from include.model.spec import PipelineSpec
from include.reporting.recording import Recording

SOUND = GateResult(True, sentence="the telemetry was found sound when it was recorded")
DONE = (Action.APPLY, Action.ROLL_BACK)


class History(Protocol):
    """What happened to a replayed pipeline."""

    @property
    def downtime_s(self) -> float:
        """What a modelled restart costs, seconds."""
        ...

    def known(self, now: datetime) -> Sequence[Reconfiguration]:
        """Return what had begun before a time, newest first."""
        ...


class ReplayedPlant(Plant, Protocol):
    """A plant over recorded telemetry, one look after the other."""

    @property
    def deployment(self) -> Deployment:
        """What it is to run at the present look."""
        ...

    @property
    def recorded(self) -> Decision:
        """The present look as it was recorded."""
        ...

    @property
    def modelled(self) -> bool:
        """True if the present look never happened."""
        ...

    @property
    def span_s(self) -> float:
        """Time that the present look stands for, seconds."""
        ...

    @property
    def history(self) -> History:
        """What happened to it."""
        ...

    def ability(self, app: AppSignals) -> float | None:
        """Return the rate that an app sustains at what it ran with in a look, rows a second."""
        ...


@dataclass
class Replay:
    """One tuner on one recording.

    Attributes:
        spec: The pipeline; its guards are those of today, bounds and objective those that were recorded.
        lake: Where the Decisions before the recording are read.
        recording: What was recorded.
        plant: The recording as a plant, not observed yet.
        name: Registry name of the tuner.
        optimizer: The tuner.
        memory: What it remembers before the first look.
    """

    spec: PipelineSpec
    lake: Lake
    recording: Recording
    plant: ReplayedPlant
    name: str
    optimizer: Optimizer
    memory: Memory = field(default_factory=dict)
    _made: dict[str, Decision] = field(default_factory=dict)
    _achieved: dict[tuple[str, datetime], Mapping[str, float]] = field(default_factory=dict)

    def run(self, options: Mapping[str, Any] | None = None) -> Backtest:
        """Take every look and return what came of it.

        Args:
            options: The tuner's options, to be told with the result.
        """
        looks: list[ReplayedLook] = []
        while (signals := self._observed()) is not None:
            looks.append(self._look(signals))
        return Backtest(
            pipeline=self.spec.name,
            tuner=self.name,
            options=dict(options or {}),
            looks=tuple(looks),
            recorded=_totals([(look, look.recorded) for look in looks]),
            replayed=_totals([(look, look.replayed) for look in looks]),
            downtime_s=self.plant.history.downtime_s,
        )

    def _observed(self) -> Signals | None:
        try:
            return self.plant.observe(Cursor())
        except NotReady:
            return None

    def _look(self, signals: Signals) -> ReplayedLook:
        recorded, current = self.plant.recorded, self.plant.deployment
        for change in completed(self._history(recorded.time), signals, self._decision):
            self._achieved[change.app, change.started] = change.achieved
        decision = self._decide(signals, recorded, current)
        self._made[recorded.decision_id] = decision
        if decision.target is not None:
            self.plant.apply(decision.target)
        base = self.recording.deployments[recorded.base_version or 0]
        measured = recorded.signals or signals
        return ReplayedLook(
            time=recorded.time,
            span_s=self.plant.span_s,
            arrival_rows_per_s=self._app(signals).arrival_rows_per_s,
            recorded=self._course(recorded, measured, base),
            replayed=self._course(decision, signals, current),
            modelled=self.plant.modelled,
        )

    def _decide(self, signals: Signals, recorded: Decision, current: Deployment) -> Decision:
        blank = Decision(
            decision_id=recorded.decision_id,
            pipeline=recorded.pipeline,
            time=recorded.time,
            action=Action.HOLD,
            reason_code="",
            sentence="",
            signals=signals,
            base_version=current.version,
        )
        obstacle = not_running_yet(signals, current, self.recording.deployments.get(signals.deployment_version))
        if obstacle is not None:
            return replace(blank, reason_code=obstacle[0], sentence=obstacle[1])
        wishes = ask({self.name: self.optimizer}, signals, current, {self.name: self.memory}, self._owners)
        self.memory = wishes.memories.get(self.name, self.memory)
        circumstances = self._circumstances(signals, recorded.time)
        return ruled(blank, wishes, lambda content: circumstances.case(self.spec, current, content), Action.APPLY)

    @property
    def _owners(self) -> Mapping[str, str]:
        """Who owns what, had the spec named this tuner."""
        tuner = self.spec.tuner.name
        return {f: self.name if owner == tuner else owner for f, owner in self.spec.field_owners.items()}

    def _circumstances(self, signals: Signals, now: datetime) -> Circumstances:
        return Circumstances(
            now=now,
            gate=SOUND,
            bounds=signals.bounds,
            max_per_hour=signals.objective.max_reconfigurations_per_hour,
            history=[c for c in self._history(now) if c.started >= now - JUDGED_BY],
            others=self.recording.others_at(now),
            decision=self._decision,
            deployment=self.recording.deployments.get,
        )

    def _history(self, now: datetime) -> list[Reconfiguration]:
        """Return what had happened, each change with what the replay itself has seen it achieve."""
        begin = self.recording.looks[0].time
        return [
            c if (c.ended or c.started) < begin else replace(c, achieved=self._achieved.get((c.app, c.started), {}))
            for c in self.plant.history.known(now)
        ]

    def _decision(self, decision_id: str) -> Decision | None:
        if decision_id not in self._made and (found := DecisionStore(self.lake).get(decision_id)) is not None:
            self._made[decision_id] = found
        return self._made.get(decision_id)

    def _course(self, decision: Decision, signals: Signals, base: Deployment) -> Course:
        app, name = self._app(signals), self.spec.app
        slots = base.apps[name].slots
        done = decision.target if decision.action in DONE else None
        return Course(
            slots=slots,
            running=app.slots,
            decided=done.apps[name].slots if done is not None and name in done.apps else slots,
            ability_rows_per_s=self.plant.ability(app),
            backlog_rows=app.backlog_rows,
            action=decision.action,
            reason_code=decision.reason_code,
            sentence=decision.sentence,
        )

    def _app(self, signals: Signals) -> AppSignals:
        return next(app for app in signals.apps if app.app == self.spec.app)


def _totals(course: Sequence[tuple[ReplayedLook, Course]]) -> Totals:
    asked = [c.slots for _, c in course] + [course[-1][1].decided]
    return Totals(
        reconfigurations=sum(a != b for a, b in pairwise(asked)),
        core_s=sum(c.running * look.span_s for look, c in course),
        under_provisioned=sum(look.under_provisioned(c) for look, c in course),
        peak_slots=max(asked),
    )
