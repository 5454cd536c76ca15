"""A plant made of a recording: it answers a tuner with recorded signals for as long as they are valid.

While the replay decides as the recording did, recorded signals are passed on unchanged, and what happened to the
pipeline happens to the replay: a version that failed, a person's launch. So the tuner that made the recording repeats
itself. From the first different decision on, the replay has its own Deployment, and its evaluations are modelled. The
load is the recorded one. Throughput at other slots comes from what the pipeline itself has shown
(:mod:`.recorded_throughputs`). Backlog and restarts are followed (:mod:`.recorded_app`, :mod:`.recorded_changes`). If
the slots match the recording again and about as many rows wait, recorded signals are used again. Only the observations
stay the replay's own, because it cannot know a level that it never ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from millrace.control.new_observations import remembered
from millrace.model.decision import CARRIED_OUT, Decision, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import MillraceError, NotReady
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Observation, Signals
from millrace.reporting.recorded_app import Span, Waiting, modelled, planned_rows, unsettled
from millrace.reporting.recorded_changes import RecordedChanges
from millrace.reporting.recorded_throughputs import RecordedThroughput, throughputs


class RecordedPlant:
    """A pipeline's recorded evaluations as a plant; each :meth:`observe` advances by one evaluation.

    Args:
        evaluations: Recorded Decisions with signals, oldest first, at least one.
        deployments: The pipeline's Deployments by version; those of all evaluations must be there.
        changes: The pipeline's Reconfigurations, in any order, from the guards' horizon before the first evaluation on.
        downtime_s: Downtime of a modelled restart; by default the median of the recorded ones.
    """

    def __init__(
        self,
        evaluations: Sequence[Decision],
        deployments: Mapping[int, Deployment],
        changes: Sequence[Reconfiguration],
        downtime_s: float | None = None,
    ) -> None:
        self._evaluations, self._deployments = evaluations, deployments
        seen = [_signals(evaluation) for evaluation in evaluations]
        names = {app.app for signals in seen for app in signals.apps}
        self._throughputs = {name: throughputs(name, seen) for name in sorted(names)}
        self.history = RecordedChanges(changes, downtime_s)
        self._versions = max(deployments, default=0)
        self._index = -1
        self._following = True
        self._deployment = self._base(0)
        self._followed = self._deployment.version
        self._signals: Signals | None = None
        self._applied: tuple[Reconfiguration, ...] = ()  # by the present evaluation
        self._waiting: dict[str, Waiting] = {}
        self._known: tuple[Observation, ...] | None = None
        self._modelled = False

    @property
    def deployment(self) -> Deployment:
        """The Deployment that the replay runs at the present evaluation."""
        return self._deployment

    @property
    def followed(self) -> int:
        """The newest recorded version that the replay has run."""
        return self._followed

    @property
    def modelled(self) -> bool:
        """True if the present evaluation never happened."""
        return self._modelled

    @property
    def recorded(self) -> Decision:
        """The present evaluation as it was recorded."""
        return self._evaluations[self._index]

    @property
    def span_s(self) -> float:
        """Time that the present evaluation covers, seconds: since the one before it, at most its own period."""
        signals = _signals(self.recorded)
        period_s = signals.period_s
        if self._index == 0:
            return max(period_s, 1.0)
        gap_s = (signals.until - _signals(self._evaluations[self._index - 1]).until).total_seconds()
        # after a pause of the loop, or a stop of the pipeline, it is unknown what ran in between
        return max(min(gap_s, period_s), 1.0)

    def observe(self, since: Cursor) -> Signals:
        """Return the next evaluation.

        Args:
            since: Not used: evaluations come in their recorded order.

        Raises:
            NotReady: Quietly, after the last evaluation.
            MillraceError: If an evaluation had to be modelled for an app whose operators own their p.
        """
        if self._index + 1 >= len(self._evaluations):
            raise NotReady("the recording ends here")
        if self._index >= 0:
            self._take_leave()
        self._index += 1
        self._applied = ()
        if not self._following:
            signals = self._model()
            if not self._rejoins(signals):
                self._modelled, self._signals = True, signals
                return signals
            self._following = True
            self.history.follow(self.recorded.time)
        self._modelled, self._deployment = False, self._base(self._index)
        self._followed = self._deployment.version
        signals = _signals(self.recorded)
        self._signals = signals if self._known is None else replace(signals, observations=self._known)
        return self._signals

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        """Run ``target`` from the present evaluation on and return what happened, one entry per app that differs."""
        before, evaluation = self._deployment, self.recorded
        self._versions += 1
        self._deployment = replace(target, version=self._versions)
        self._applied = self.history.restarts(before, self._deployment, evaluation.decision_id, evaluation.time)
        return self._applied

    def throughput(self, app: AppSignals) -> float | None:
        """Return the rate that an app sustains at what it ran with, rows per second; None if unknown."""
        known = self._throughputs.get(app.app, RecordedThroughput())
        capacity = app.capacity or known.capacity(app.parallelism or known.ran(app.slots), 1)
        return None if capacity is None else known.sustained(capacity)

    def _base(self, index: int) -> Deployment:
        return self._deployments[self._evaluations[index].base_version or 0]

    def _take_leave(self) -> None:
        """Close the present evaluation; leave the recording if the replay has decided differently."""
        evaluation, signals = self.recorded, self._signals
        assert signals is not None  # noqa: S101 - there is a present evaluation
        if self._following and _wanted(self._deployment) != _wanted(_decided(evaluation, self._base(self._index))):
            if any(app.parallelism for app in self._deployment.apps.values()):
                raise MillraceError(
                    "pipeline", evaluation.pipeline, "one whose app is sized as a whole (slots)",
                    "A recording does not show how single operators perform at another p; use the simulator.",
                )  # fmt: skip
            self._following = False
            self.history.leave(evaluation.time)
            self._known = signals.observations if self._known is None else self._known
            self._waiting = {a.app: Waiting(a.backlog_rows, lag=a.restart_lag_rows or 0.0) for a in signals.apps}
        if not self._following:
            self.history.add(self._applied)
        if self._known is not None:
            self._known = remembered(self._known, signals)

    def _model(self) -> Signals:
        recorded = _signals(self.recorded)
        several, apps = len(recorded.apps) > 1, []
        settling = False
        for app in recorded.apps:
            span = self._span(app.app, recorded.until)
            slots = self._deployment.apps[app.app].slots if app.app in self._deployment.apps else app.slots
            waiting = self._waiting.get(app.app, Waiting(app.backlog_rows))
            known = self._throughputs[app.app]
            own, self._waiting[app.app] = modelled(app, slots, waiting, known, recorded.objective, span)
            settles = self._settles(own, span)
            apps.append(replace(own, settling=several and settles))
            settling = settling or settles
        return replace(
            recorded,
            deployment_version=self._deployment.version,
            apps=tuple(apps),
            observations=self._known or (),
            settling=settling,
        )

    def _span(self, app: str, until: datetime) -> Span:
        restart = self.history.last_restart(app, self._deployment.version)
        if restart is None or restart.ended is None:
            return Span(self.span_s)
        begun = restart.started >= self._evaluations[self._index - 1].time
        down_s = min(self.history.downtime_s, self.span_s) if begun else 0.0
        return Span(self.span_s, down_s, (until - restart.ended).total_seconds())

    def _settles(self, app: AppSignals, span: Span) -> bool:
        capacity = self._throughputs[app.app].capacity(app.parallelism or app.slots, 1)
        return unsettled(app.arrival_rows_per_s or 0.0, capacity, span)

    def _rejoins(self, signals: Signals) -> bool:
        """Return whether the replay matches the recording again: same slots at rest, about as many rows waiting."""
        recorded, base = _signals(self.recorded), self._base(self._index)
        ran = self._deployments.get(recorded.deployment_version)
        if signals.settling or ran is None or ran.apps != base.apps:
            return False
        if _wanted(base) != _wanted(self._deployment):
            return False
        return all(self._level(a, b, signals) for a, b in zip(recorded.apps, signals.apps, strict=True))

    def _level(self, recorded: AppSignals, own: AppSignals, signals: Signals) -> bool:
        if recorded.slots != own.slots or recorded.backlog_rows is None or own.backlog_rows is None:
            return recorded.slots == own.slots and recorded.backlog_rows == own.backlog_rows
        fixed_s = self._throughputs[own.app].fixed(own.parallelism or own.slots)
        few = planned_rows(own.arrival_rows_per_s or 0.0, fixed_s, signals.objective)
        return abs(recorded.backlog_rows - own.backlog_rows) <= few


def _signals(evaluation: Decision) -> Signals:
    assert evaluation.signals is not None  # noqa: S101 - only evaluations with signals are taken
    return evaluation.signals


def _decided(evaluation: Decision, base: Deployment) -> Deployment:
    return evaluation.target if evaluation.target is not None and evaluation.action in CARRIED_OUT else base


def _wanted(deployment: Deployment) -> Mapping[str, tuple[int, Mapping[str, int]]]:
    return {name: (app.slots, dict(app.parallelism)) for name, app in deployment.apps.items()}
