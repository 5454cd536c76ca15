"""Makes what runs equal to what a Deployment says; safe to call at any time, by anyone, and to kill at any point."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil
from filelock import FileLock, Timeout

from include.contracts.decision import Outcome, Reconfiguration
from include.contracts.deployment import AppDeployment, Deployment
from include.contracts.errors import Conflict, MillraceError, NotReady
from include.control import driver_log, submit
from include.control.backoff import AUTHOR, fingerprint
from include.control.fleet import ON_THE_WAY, Fleet, was_steady
from include.control.handover import HandOver, downtime_s, is_ready
from include.control.ledger import Ledger
from include.control.stores.deployments import DeploymentStore
from include.control.stores.reconfigurations import ReconfigurationStore
from include.control.submit import SubmitOptions
from include.drivers import generation
from include.drivers import record as records
from include.drivers.arguments import DriverArguments
from include.drivers.discovery import LiveDriver, ProcessId, find
from include.drivers.record import DriverRecord, DriverState
from include.lake.store import Lake
from include.pipelines.spec import PipelineSpec

Method = Literal["hand-over", "plain"]
LOCK_SLACK_S = 30.0
MOST_STEPS = 6
"""Start, fail, roll back, start the old content, and two to spare."""


@dataclass(frozen=True)
class Step:
    """What one step did, and whether another one is due at once."""

    changes: tuple[Reconfiguration, ...] = ()
    again: bool = False


DONE = Step()


class Reconciler:
    """Starts, stops and replaces a pipeline's drivers; the only place that does.

    Args:
        spec: The pipeline.
        lake: Where its Deployments are read and its Reconfigurations written.
        run_dir: Folder of records, locks and generations.
        log_dir: Folder of the drivers' logs.
        submit: What every driver of this installation is started with.
        method: ``hand-over`` starts the successor first; ``plain`` stops the predecessor first.
        clock: The time (UTC).
    """

    def __init__(
        self,
        spec: PipelineSpec,
        lake: Lake,
        run_dir: Path,
        log_dir: Path,
        submit: SubmitOptions,
        method: Method = "hand-over",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._spec, self._lake, self._options = spec, lake, submit
        self._run_dir, self._log_dir = run_dir.resolve(), log_dir.resolve()
        self._method, self._clock = method, clock
        self._deployments = DeploymentStore(lake)
        self._children: list[subprocess.Popen[bytes]] = []

    def reconcile(self, wait_s: float | None = None) -> tuple[Reconfiguration, ...]:
        """Make the pipeline run its latest Deployment and return what had to be changed.

        Args:
            wait_s: How long to wait for another call at work on the same pipeline; by default as long as a
                hand-over may take.

        Raises:
            NotReady: Quietly, if the other call is still at work then.
            MillraceError: If the run folder or the lake cannot be written.
        """
        folder = self._run_dir / self._spec.name
        limit_s = self._spec.ready_deadline_s * 2 + self._spec.stop_deadline_s + LOCK_SLACK_S
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / "reconcile.lock", timeout=limit_s if wait_s is None else wait_s):
                return self._steps()
        except Timeout:
            raise NotReady(f"{self._spec.name}: another reconcile is at work") from None
        except OSError as error:
            raise MillraceError("run folder", str(folder), "a writable folder with free space", str(error)) from error

    def status(self) -> tuple[DriverRecord, ...]:
        """Return each app's live drivers, its newest one, and its last failure that is not forgiven; newest first.

        A driver whose process is gone without a word is told as failed.
        """
        apps = self._apps(self._deployments.latest(self._spec.name))
        return tuple(record for app in apps for record in self._fleet(app).status())

    def _steps(self) -> tuple[Reconfiguration, ...]:
        changes: list[Reconfiguration] = []
        for _ in range(MOST_STEPS):
            deployment = self._deployments.latest(self._spec.name)
            if deployment is None:
                break
            self._children = [child for child in self._children if child.poll() is None]
            steps = [self._app(app).step(deployment) for app in self._apps(deployment)]
            changes += [change for step in steps for change in step.changes]
            if not any(step.again for step in steps):
                break
        return tuple(changes)

    def _apps(self, deployment: Deployment | None) -> list[str]:
        running = {d.arguments.app for d in find(self._run_dir, self._spec.name)}
        return sorted(running | set(deployment.apps if deployment else [self._spec.app]))

    def _fleet(self, app: str) -> Fleet:
        return Fleet(self._run_dir, self._log_dir, self._spec.name, app, self._deployments)

    def _app(self, app: str) -> AppReconciler:
        spec = self._spec
        ledger = Ledger(spec.name, app, ReconfigurationStore(self._lake), self._clock)
        hand_over = HandOver(self._run_dir, spec.name, spec.ready_deadline_s, spec.stop_deadline_s)
        return AppReconciler(self._fleet(app), ledger, hand_over, self._method, self._clock, self._spawn)

    def _spawn(self, app: AppDeployment, name: str, version: int, number: int) -> LiveDriver:
        arguments = DriverArguments(
            pipeline=self._spec.name,
            app=name,
            generation=number,
            version=version,
            slots=app.slots,
            epoch=0,
            run_dir=self._run_dir,
            lake=self._lake.root.resolve(),
            period_s=self._spec.period_s,
            ready_deadline_s=self._spec.ready_deadline_s,
            stop_deadline_s=self._spec.stop_deadline_s,
            script=submit.script_path(app),
            args=app.args,
        )
        child = submit.start(
            self._options, app, arguments, driver_log.path(self._log_dir, self._spec.name, name, number)
        )
        self._children.append(child)
        started = 0.0
        with suppress(psutil.Error):  # it may have ended already
            started = psutil.Process(child.pid).create_time()
        return LiveDriver(arguments, (ProcessId(child.pid, started),))


@dataclass(frozen=True)
class AppReconciler:
    """One step of one app towards a Deployment.

    Attributes:
        fleet: The app's drivers.
        ledger: The app's entries in ``control/reconfigurations``.
        hand_over: How an app moves between drivers.
        method: ``hand-over`` or ``plain``.
        clock: The time (UTC).
        spawn: Starts a driver: content, app's name, version, generation.
    """

    fleet: Fleet
    ledger: Ledger
    hand_over: HandOver
    method: Method
    clock: Callable[[], datetime]
    spawn: Callable[[AppDeployment, str, int, int], LiveDriver]

    def step(self, deployment: Deployment) -> Step:
        """Do what is due first."""
        fleet = self.fleet
        fleet.settle(self.clock())
        drivers = fleet.live()
        wanted = deployment.apps.get(fleet.app) if deployment.running else None
        if wanted is None:
            return self._stop(deployment, drivers)
        content = fingerprint(wanted)
        current = fleet.current(drivers, content)
        self._close_interrupted(current)
        if current is not None:
            return self._keep(deployment, current, [d for d in drivers if d is not current], content)
        if self._roll_back(deployment, content):
            return Step(again=True)
        if fleet.completed(deployment.version) or not fleet.troubles().may_start(content, deployment, self.clock()):
            return DONE
        return self._start(deployment, wanted, drivers)

    def _stop(self, deployment: Deployment, drivers: Sequence[LiveDriver]) -> Step:
        entry = next((e for e in self.ledger.open_entries() if e.generation is None), None)
        if drivers and entry is None:
            entry = self.ledger.begin(deployment, None, drivers[-1].arguments.version)
        self._end(drivers)
        stopped = () if entry is None else (self.ledger.end(entry, Outcome.STOPPED),)
        self._close_interrupted(None)
        return Step(stopped)

    def _keep(self, deployment: Deployment, current: LiveDriver, rest: Sequence[LiveDriver], content: str) -> Step:
        """Leave a driver that is ready alone; bring one that is not through the rest of its hand-over."""
        fleet = self.fleet
        entry = next((e for e in self.ledger.open_entries() if e.generation == current.generation), None)
        record = fleet.record(current.generation)
        if record is None or not is_ready(record):
            before = self.ledger.served_version()
            return self._finish(entry or self.ledger.begin(deployment, current.generation, before), current, rest)
        if was_steady(record, self.clock()):
            fleet.keep(fleet.troubles().steady(content))
        self._end(rest)
        return DONE if entry is None else Step((self._ready(entry),))

    def _start(self, deployment: Deployment, wanted: AppDeployment, drivers: Sequence[LiveDriver]) -> Step:
        self._end([d for d in drivers if self.fleet.state(d) in ON_THE_WAY])
        serving = [d for d in drivers if d.alive()]
        number = generation.allot(self.fleet.folder)
        before = serving[0].arguments.version if serving else self.ledger.served_version()
        entry = self.ledger.begin(deployment, number, before)
        if self.method == "plain":
            self._end(serving)
            serving = []
        try:
            if not submit.script_path(wanted).is_file():
                raise MillraceError("script", wanted.script, "an existing file", "Create it or mend the path.")
            driver = self.spawn(wanted, self.fleet.app, deployment.version, number)
        except MillraceError as error:
            self._write_stillborn(deployment.version, wanted.slots, number, str(error))
            return self._failed(entry, str(error))
        return self._finish(entry, driver, serving)

    def _finish(self, entry: Reconfiguration, driver: LiveDriver, rest: Sequence[LiveDriver]) -> Step:
        """Bring a started driver to ready, past its predecessors."""
        error = self.hand_over.await_gate(driver)
        if error is None:
            self._end(rest)
            error = self.hand_over.await_ready(driver)
        if error is None:
            return Step((self._ready(entry),))
        return self._failed(entry, error, driver)

    def _ready(self, entry: Reconfiguration) -> Reconfiguration:
        number = entry.generation or 0
        before = None if entry.from_version is None else self.fleet.predecessor(number)
        gap_s = downtime_s(before, self.fleet.record(number))
        self.fleet.prune()
        return self.ledger.end(entry, Outcome.READY, downtime_s=gap_s)

    def _failed(self, entry: Reconfiguration, error: str, driver: LiveDriver | None = None) -> Step:
        """Count a failure, then end its driver: killed in between, the next call knows that it is not wanted."""
        fleet, version, number = self.fleet, entry.to_version or 0, entry.generation or 0
        record = fleet.record(number)
        if record is None or record.error is None:
            words = fleet.last_words(number)
            error = f"{error}: {words}" if words else error
        content = fleet.content(version)
        troubles = fleet.troubles().failed(content, version, error, self.clock()).settle(number)
        fleet.keep(troubles)
        if driver is not None:
            self.hand_over.kill([driver])
        outcome = Outcome.FAILED if self._way_back(content) is None else Outcome.ROLLED_BACK
        outcome = Outcome.CIRCUIT_OPEN if troubles.contents[content].open else outcome
        return Step((self.ledger.end(entry, outcome, error),), again=True)

    def _roll_back(self, deployment: Deployment, content: str) -> bool:
        """Commit the last ready content as a new version if this version failed, and say whether it was done."""
        trouble = self.fleet.troubles().contents.get(content)
        if trouble is None or trouble.version != deployment.version or not trouble.failures:
            return False
        back = self._way_back(content)
        old = None if back is None else self.fleet.deployments.get(deployment.pipeline, back)
        if old is None:
            return False
        reason = f"Version {deployment.version} failed ({trouble.error}); back to the content of version {back}."
        # what is obeyed without a restart did not fail
        join = old.join and (deployment.join or old.join)
        again = replace(
            old, running=True, author=AUTHOR, decision_id=None, reason=reason, ingest=deployment.ingest, join=join
        )
        with suppress(Conflict):  # somebody else has moved on: their version counts
            self.fleet.deployments.commit(again, deployment.version)
        return True

    def _way_back(self, content: str) -> int | None:
        """Return the last ready version of another content; None if this very content has been ready itself.

        What was ready once and fails now does not fail by the change that led to it.
        """
        ready = self.ledger.ready_versions()
        if any(self.fleet.content(version) == content for version in ready):
            return None
        return ready[0] if ready else None

    def _end(self, drivers: Sequence[LiveDriver]) -> None:
        if drivers:
            self.fleet.forget(drivers)
            self.hand_over.end(drivers)

    def _close_interrupted(self, current: LiveDriver | None) -> None:
        """End the entries that a killed reconciler left open, but for the one that goes on."""
        for entry in self.ledger.open_entries():
            if entry.generation is None:
                self.ledger.end(entry, Outcome.STOPPED)
            elif current is None or entry.generation != current.generation:
                record = self.fleet.record(entry.generation)
                if record is not None and is_ready(record):
                    self._ready(entry)
                else:
                    error = record.error if record else None
                    self.ledger.end(entry, Outcome.FAILED, error or "interrupted before it was ready")

    def _write_stillborn(self, version: int, slots: int, number: int, error: str) -> None:
        """Write the record of a driver that could not even be started, so that ``status`` can show why."""
        now, fleet = self.clock(), self.fleet
        stillborn = DriverRecord(
            fleet.pipeline, fleet.app, number, version, slots, 0, 0.0, DriverState.FAILED, now, error=error
        )
        records.write(fleet.run_dir, stillborn)
