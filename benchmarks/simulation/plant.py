"""A simulated job as a Plant: it has the same protocol as Spark's, so any optimizer can drive it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from benchmarks.simulation.draws import Draws
from benchmarks.simulation.micro_batch import MicroBatches
from benchmarks.simulation.micro_batch_signals import MicroBatchSignals
from benchmarks.simulation.micro_batch_truth import MicroBatchTruth
from benchmarks.simulation.observed import Observed
from benchmarks.simulation.pipelined import Pipelined
from benchmarks.simulation.pipelined_signals import PipelinedSignals
from benchmarks.simulation.pipelined_truth import PipelinedTruth
from benchmarks.simulation.scenario import MICRO_BATCH, Scenario
from benchmarks.simulation.segment import Segment
from benchmarks.simulation.truth import Factors, Levels, Rates, Truth
from millrace.model.decision import LIVE, RESTART, Outcome, Reconfiguration
from millrace.model.deployment import AppDeployment, Deployment, ExecutorSize
from millrace.model.errors import MillraceError, NotReady
from millrace.model.protocols import Cursor
from millrace.model.signals import AppSignals, Observation, Signals

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
"""Start of every run: simulated time needs some date."""
SETTLED_BATCHES = 3
"""Batches after a reconfiguration, including the cold first one, until a micro-batch app's figures are trusted, unless
fewer fill a period."""


class SimulatedPlant:
    """A running case; deterministic for a scenario, a seed and the applied Deployments.

    Args:
        scenario: The case.
        seed: Draws abilities and noise.

    Attributes:
        scenario: The case.
        truth: The true values. Of all optimizers only an oracle may read them.
        deployment: The current Deployment.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self._look = 0
        self._since = 0.0
        self._observed = Observed()
        self._restarted = False
        windows = tuple(v.window for v in scenario.shape.vertices if v.window)
        operators = len(scenario.shape.sizable)
        self.truth: Truth
        self._job: Pipelined | MicroBatches
        self._measure: Callable[[int, datetime], tuple[AppSignals, list[Observation]]]
        if scenario.execution == MICRO_BATCH:
            of_app = MicroBatchTruth(scenario, seed)
            app = MicroBatches(scenario, of_app)
            draws = Draws(seed, scenario.noise, operators + 1, ())
            self._measure = MicroBatchSignals(scenario, app, of_app, draws).measure
            self.truth, self._job = of_app, app
        else:
            of_job = PipelinedTruth(scenario, seed)
            job = Pipelined(scenario, of_job)
            self._measure = PipelinedSignals(scenario, job, Draws(seed, scenario.noise, operators, windows)).measure
            self.truth, self._job = of_job, job
        self._wanted = scenario.start
        self.deployment = Deployment(
            scenario.shape.name, 1, True, MappingProxyType({scenario.shape.name: self._app(self._wanted)})
        )

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._job.now

    @property
    def finished(self) -> bool:
        """Whether the workload has ended."""
        return self._job.now >= self.scenario.workload.until

    @property
    def levels(self) -> Levels:
        """Level p at which each unit runs."""
        return self._job.levels

    @property
    def wanted(self) -> Levels:
        """Level p that each unit was set to; it differs from the running level while a live change is under way."""
        return self._wanted

    @property
    def present(self) -> tuple[Rates, Factors]:
        """Arrival rates up to now, rows per second, and the ratio of present to original ability of each operator."""
        return self._job.rates, self._job.factors

    @property
    def unprocessed(self) -> float:
        """Rows that have arrived and are not processed yet."""
        return self._job.unprocessed

    @property
    def segments(self) -> list[Segment]:
        """The true history so far."""
        return self._job.segments

    def observe(self, since: Cursor) -> Signals:
        """Let one period pass and return its measurements.

        Args:
            since: Unused: a simulation reports each period once.

        Raises:
            NotReady: Quietly, if the workload has ended, or no batch ended in the period.
        """
        if self.finished:
            raise NotReady(f"{self.scenario.name}: the workload has ended")
        self._job.advance(min(self._job.now + self.scenario.period_s, self.scenario.workload.until))
        self._look += 1
        begin, until = BEGIN + timedelta(seconds=self._since), BEGIN + timedelta(seconds=self._job.now)
        settling = self._settling()
        app, points = self._measure(self._look, until)
        told = Signals(
            pipeline=self.scenario.shape.name,
            since=begin,
            until=until,
            telemetry_version=self._look,
            deployment_version=self.deployment.version,
            apps=(app,),
            observations=self._observed.recent(),
            objective=self.scenario.objective,
            bounds=self.scenario.bounds,
            settling=settling,
        )
        if not settling:
            self._observed.add(points)
        self._since = self._job.now
        return told

    def apply(self, target: Deployment) -> tuple[Reconfiguration, ...]:
        """Run ``target`` from now on; if that requires a restart, nothing is processed for the downtime.

        Raises:
            MillraceError: If it sets a p out of bounds or lacks the app.
        """
        name = self.scenario.shape.name
        if name not in target.apps:
            raise MillraceError("deployment.apps", sorted(target.apps), name, "Keep the app.")
        levels = self._levels(target.apps[name])
        bounds = self.scenario.bounds
        if not all(p in bounds for p in levels):
            raise MillraceError("deployment.parallelism", levels, str(bounds), "Keep to the bounds.")
        before, unchanged = self.deployment.version, levels == self._wanted
        self.deployment = replace(target, apps=MappingProxyType({**target.apps, name: self._app(levels)}))
        if unchanged:
            return ()
        self._wanted, self._restarted = levels, True
        started, live_s = self._job.now, self.scenario.micro_batch.live_s
        if isinstance(self._job, MicroBatches) and live_s is not None:
            self._job.resize(levels, live_s)
            tier, took_s, downtime_s = LIVE, live_s, 0.0
        else:
            tier, took_s = RESTART, self._job.restart(levels)
            downtime_s = took_s
        return (
            Reconfiguration(
                pipeline=name,
                app=name,
                decision_id=target.decision_id,
                tier=tier,
                from_version=before,
                to_version=target.version,
                generation=target.version,
                started=BEGIN + timedelta(seconds=started),
                ended=BEGIN + timedelta(seconds=started + took_s),
                downtime_s=downtime_s,
                outcome=Outcome.READY,
            ),
        )

    def _settling(self) -> bool:
        """Return whether the last reconfiguration is too recent for trustworthy figures."""
        if isinstance(self._job, MicroBatches):
            filled = self._job.healthy_s >= self.scenario.period_s
            new = not filled and self._job.since_start < SETTLED_BATCHES
            return self._restarted and (self.levels != self._wanted or new)
        return self._job.tally.down_s > 0

    def _levels(self, app: AppDeployment) -> Levels:
        if self.scenario.execution == MICRO_BATCH:
            return (app.slots,)
        return tuple(app.parallelism.get(unit, p) for unit, p in zip(self.scenario.units, self.levels, strict=True))

    def _app(self, levels: Levels) -> AppDeployment:
        whole = self.scenario.execution == MICRO_BATCH
        return AppDeployment(
            script="simulated",
            args=(),
            slots=sum(levels),
            memory_mb=1024,
            max_parallelism=self.scenario.bounds.max_slots,
            parallelism={} if whole else dict(zip(self.scenario.units, levels, strict=True)),
            executor=None if self.scenario.micro_batch.live_s is None else ExecutorSize(1, 1024),
        )
