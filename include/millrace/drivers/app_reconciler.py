"""One app's next step towards a Deployment: start, hand over, stop, heal, or roll back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from millrace.drivers.app_drivers import AppDrivers, DriverFailure, was_steady
from millrace.drivers.failure_history import AUTHOR, fingerprint
from millrace.drivers.handover import DRIVER_ENDED, HandOver, downtime_s, is_ready
from millrace.drivers.launcher import Launcher
from millrace.drivers.quota import go_back
from millrace.drivers.reconfiguration_log import ReconfigurationLog
from millrace.drivers.rescaler import Rescaler
from millrace.drivers.step_result import DONE, StepResult
from millrace.model.decision import LIVE, Outcome, Reconfiguration
from millrace.model.deployment import AppDeployment, Deployment
from millrace.model.errors import Conflict, MillraceError
from millrace.run_folder import driver_records, generation
from millrace.run_folder.discovery import LiveDriver
from millrace.run_folder.driver_records import DriverRecord, DriverState
from millrace.run_folder.lock import holders

Method = Literal["hand-over", "plain"]


@dataclass(frozen=True)
class AppReconciler:
    """One step of one app towards a Deployment.

    Attributes:
        drivers: The app's drivers.
        log: The app's entries in ``control/reconfigurations``.
        hand_over: Moves the app between drivers.
        method: ``hand-over`` or ``plain``.
        quota: Slots that all pipelines together may hold; None for any number.
        hang_deadline_s: Longest time in which a ready driver may show no progress, seconds.
        clock: Returns the current time (UTC).
        launcher: Starts drivers.
        rescaler: Changes the number of the app's state partitions.
    """

    drivers: AppDrivers
    log: ReconfigurationLog
    hand_over: HandOver
    method: Method
    quota: int | None
    hang_deadline_s: float
    clock: Callable[[], datetime]
    launcher: Launcher
    rescaler: Rescaler

    def step(self, deployment: Deployment) -> StepResult:
        """Do what is due first."""
        failures = tuple(self._record(failure) for failure in self.drivers.account_for_ends(self.clock()))
        step = self._next(deployment)
        return replace(step, changes=(*failures, *step.changes))

    def _next(self, deployment: Deployment) -> StepResult:
        unsettled = self.rescaler.settle(deployment)
        if unsettled is not None:
            return unsettled
        live = self.drivers.live()
        wanted = deployment.wanted(self.drivers.app)
        if wanted is None:
            return self._stop(deployment, live)
        content = fingerprint(wanted)
        current = self.drivers.current(live, content)
        begun = self.rescaler.begun(deployment)
        self._close_interrupted(deployment, current, begun)
        if current is not None:
            return self._keep(deployment, current, [d for d in live if d is not current], content)
        completed = self.drivers.completed(deployment)
        if completed is not None:
            return self._finished(deployment, completed, live)
        if self._roll_back(deployment, content):
            return StepResult(again=True)
        if self.drivers.wait_s(content, deployment, self.clock(), self.drivers.history()) > 0:
            return DONE
        return self._start(deployment, wanted, live, begun)

    def _record(self, failure: DriverFailure) -> Reconfiguration:
        """Record in the lake that a driver failed: not everyone sees the run folder.

        A failed start has an entry already, which ends with the failure.
        """
        content, record = self.drivers.content(failure.version), self.drivers.record(failure.generation)
        if record is None or not is_ready(record):
            started = (e for e in self.log.open_entries() if e.generation == failure.generation and e.tier != LIVE)
            if (entry := next(started, None)) is not None:
                return self.log.end(entry, self._outcome_of_start(content), failure.error)
        return self.log.record_failure(failure, self._outcome(content))

    def _outcome(self, content: str) -> Outcome:
        """Return how a content's last failure ended: with an open circuit if starts are only tried occasionally now."""
        failures = self.drivers.history().contents.get(content)
        return Outcome.CIRCUIT_OPEN if failures is not None and failures.open else Outcome.FAILED

    def _outcome_of_start(self, content: str) -> Outcome:
        """Return the same for a driver that never became ready: a rollback if there is a former version."""
        outcome, failures = self._outcome(content), self.drivers.history().contents.get(content)
        counts = failures is not None and failures.failures > 0
        back = outcome is Outcome.FAILED and counts and self._former_version(content) is not None
        return Outcome.ROLLED_BACK if back else outcome

    def _stop(self, deployment: Deployment, live: Sequence[LiveDriver]) -> StepResult:
        entry = next((e for e in self.log.open_entries() if e.generation is None), None)
        if live and entry is None:
            entry = self.log.begin(deployment, None, live[-1].arguments.version)
        if deployment.running and self.hand_over.await_moves(live).pending:
            return StepResult(() if entry is None else (entry,))
        self.drivers.end(live, self.hand_over)
        if any(driver.alive() for driver in live):
            return StepResult(() if entry is None else (entry,))  # it may still commit: not stopped until it is gone
        stopped = () if entry is None else (self.log.end(entry, Outcome.STOPPED),)
        self._close_interrupted(deployment, None)
        return StepResult(stopped)

    def _finished(self, deployment: Deployment, record: DriverRecord, live: Sequence[LiveDriver]) -> StepResult:
        """Record that all scripts of a pipeline finished: nothing runs or holds slots until the next launch."""
        if (self.clock() - record.since).total_seconds() > self.hand_over.stop_deadline_s:
            self.drivers.end(live, self.hand_over)  # processes that the script left behind
        records = self._all_finished(deployment, record)
        if any(driver.alive() for driver in live) or records is None:
            return DONE  # it is about to leave; or others of its pipeline run on
        since = max(record.since for record in records.values())
        reason = f"The script finished at {since:%Y-%m-%d %H:%M} UTC."
        finished = replace(deployment, running=False, finished=since, author=AUTHOR, reason=reason)
        try:
            self.drivers.deployments.commit(replace(finished, decision_id=None), deployment.version)
        except Conflict:
            return StepResult(again=True)
        logs = [(replace(self.log, app=app), record.version) for app, record in records.items()]
        return StepResult(tuple(log.end(log.begin(deployment, None, before), Outcome.FINISHED) for log, before in logs))

    def _all_finished(self, deployment: Deployment, record: DriverRecord) -> dict[str, DriverRecord] | None:
        """Return the last record of each app of the pipeline; None if another one has not finished."""
        records = {self.drivers.app: record}
        for app in deployment.apps:
            if app == self.drivers.app or deployment.wanted(app) is None:
                continue
            other = replace(self.drivers, app=app, _contents={})
            last = None if other.live() else other.completed(deployment)
            if last is None:
                return None
            records[app] = last
        return records

    def _keep(
        self, deployment: Deployment, current: LiveDriver, rest: Sequence[LiveDriver], content: str
    ) -> StepResult:
        """Leave a ready driver alone; bring any other one through the rest of its hand-over."""
        entry = next((e for e in self.log.open_entries() if e.generation == current.generation), None)
        record = self.drivers.record(current.generation)
        if record is None or not is_ready(record):
            before = self.log.served_version()
            return self._finish(entry or self.log.begin(deployment, current.generation, before), current, rest)
        if record.advanced_s is not None and current.still_s(record) > self.hang_deadline_s:
            return self._end_hung(current, record)
        if was_steady(record, self.clock()):
            self.drivers.save(self.drivers.history().steady(content))
        self.drivers.end(rest, self.hand_over)
        if entry is not None and entry.tier != LIVE:
            return StepResult((self._ready(entry),), again=True)
        return self._resize(deployment, current, record, entry)

    def _resize(
        self, deployment: Deployment, current: LiveDriver, record: DriverRecord, entry: Reconfiguration | None
    ) -> StepResult:
        """Wait until a driver has the executors that a Deployment wants."""
        wanted = deployment.apps[self.drivers.app]
        if entry is not None and not self._leads_to(entry, wanted, deployment.version):
            self.log.end(entry, Outcome.FAILED, f"superseded by version {deployment.version}")
            entry = None
        if entry is None:
            if not self._to_be_resized(deployment, wanted, current):
                return DONE
            entry = self.log.begin_live(deployment, current.generation, self.log.served_version())
        since = max(entry.started, record.ready_at or entry.started)
        wait = self.hand_over.await_slots(current, deployment.version, wanted.slots, since)
        if wait.pending:
            return StepResult((entry,))
        if wait.error is not None:
            return StepResult((self.log.end(entry, Outcome.FAILED, wait.error),))
        done = self.drivers.record(current.generation) or record
        # its query never stopped
        return StepResult((self.log.end(entry, Outcome.READY, downtime_s=0.0, ended=done.resize_ended),))

    def _leads_to(self, entry: Reconfiguration, wanted: AppDeployment, version: int) -> bool:
        """Return whether a change in progress leads to a version, or to another version with the same executors."""
        if entry.to_version == version:
            return True
        begun = self.drivers.deployments.get(self.drivers.pipeline, entry.to_version or 0)
        app = None if begun is None else begun.apps.get(self.drivers.app)
        return app is not None and app.live_content == wanted.live_content

    def _to_be_resized(self, deployment: Deployment, wanted: AppDeployment, current: LiveDriver) -> bool:
        """Return whether a version's executors are not on record yet; the driver may have got them long ago."""
        tried = self.log.newest_version(current.generation)
        if wanted.executor is None or tried is None or tried == deployment.version:
            return False
        before = self.drivers.deployments.get(deployment.pipeline, tried)
        app = None if before is None else before.apps.get(self.drivers.app)
        return app is not None and app.live_content != wanted.live_content

    def _end_hung(self, driver: LiveDriver, record: DriverRecord) -> StepResult:
        """Kill a driver without progress; it counts as killed from outside, so a restart is due at once."""
        version = driver.arguments.version
        error = f"hung: no progress for {driver.still_s(record):.0f} s"
        history = self.drivers.history().died(self.drivers.content(version), version, self.clock())
        self.drivers.save(history.settle(driver.generation))
        self.hand_over.kill([driver])
        failure = DriverFailure(driver.generation, version, error)
        return StepResult((self.log.record_failure(failure, Outcome.FAILED),), again=True)

    def _start(
        self,
        deployment: Deployment,
        wanted: AppDeployment,
        live: Sequence[LiveDriver],
        begun: Reconfiguration | None,
    ) -> StepResult:
        self.drivers.end([d for d in live if self.drivers.starting(d)], self.hand_over)
        serving = [d for d in live if d.alive()]
        entry = begun or self._begin(deployment, serving)
        number = entry.generation or 0
        if self.rescaler.due(wanted):
            unfinished = self.rescaler.change(deployment, wanted, entry, serving)
            if unfinished is not None:
                return unfinished
            serving = []
        if self.method == "plain" or not self._behind_lock(serving):
            self.drivers.end(serving, self.hand_over)
            serving = []
        try:
            driver = self.launcher.start(wanted, self.drivers.app, deployment.version, number)
        except MillraceError as error:
            self._write_failed_record(deployment.version, wanted.slots, number, str(error))
            return self._failed(entry, str(error))
        return self._finish(entry, driver, serving)

    def _begin(self, deployment: Deployment, serving: Sequence[LiveDriver]) -> Reconfiguration:
        number = generation.allot(self.drivers.folder, above=self.log.newest_generation())
        before = serving[0].arguments.version if serving else self.log.served_version()
        return self.log.begin(deployment, number, before)

    def _behind_lock(self, serving: Sequence[LiveDriver]) -> bool:
        """Return whether a successor would have to wait for the serving drivers. A lost run folder loses their lock."""
        pids = holders(self.drivers.folder)
        return all(any(process.pid in pids for process in driver.processes) for driver in serving)

    def _finish(self, entry: Reconfiguration, driver: LiveDriver, rest: Sequence[LiveDriver]) -> StepResult:
        """Bring a started driver past its predecessors and to ready."""
        wait = self.hand_over.await_gate(driver)
        if wait.reached:
            self.drivers.end(rest, self.hand_over)
            wait = self.hand_over.await_ready(driver)
        if wait.pending:
            return StepResult((entry,))
        if wait.error is not None:
            return self._failed(entry, wait.error, driver)
        return StepResult((self._ready(entry),))

    def _ready(self, entry: Reconfiguration) -> Reconfiguration:
        """Record that a driver has been ready since its first commit, whenever that is noticed."""
        number = entry.generation or 0
        before = None if entry.from_version is None else self.drivers.predecessor(number)
        record = self.drivers.record(number)
        self.drivers.prune()
        ready_at = None if record is None else record.ready_at
        return self.log.end(entry, Outcome.READY, downtime_s=downtime_s(before, record), ended=ready_at)

    def _failed(self, entry: Reconfiguration, error: str, driver: LiveDriver | None = None) -> StepResult:
        """Count a failure, then end its driver: after a kill in between, the next call knows that it is not wanted."""
        version, number = entry.to_version or 0, entry.generation or 0
        record = self.drivers.record(number)
        if (record is None or record.error is None) and (logged := self.drivers.logged_error(number)):
            error = f"{error}: {logged}"
        content = self.drivers.content(version)
        history = self.drivers.history().failed(content, version, error, self.clock()).settle(number)
        if self._is_roll_back(version):
            history = history.forgive_others(content)
        self.drivers.save(history)
        if driver is not None:
            self.hand_over.kill([driver])
        return StepResult((self.log.end(entry, self._outcome_of_start(content), error),), again=True)

    def _roll_back(self, deployment: Deployment, content: str) -> bool:
        """Commit the last ready content as a new version if this version failed; return whether it was done."""
        history = self.drivers.history()
        failures = history.contents.get(content)
        if failures is None or not failures.failures:
            return False
        later = failures.version != deployment.version and deployment.author != AUTHOR
        if later and not self.drivers.changed_elsewhere(content, deployment, history):
            return False  # somebody has asked for it again
        version = self._former_version(content)
        if version is None:
            return False
        reason = f"Version {failures.version} failed ({failures.error}); restored the content of version {version}."
        return go_back(self.drivers.deployments, deployment, self.drivers.app, version, reason, self.quota)

    def _is_roll_back(self, version: int) -> bool:
        """Return whether a version is an automatic rollback: if it fails too, the new content was not the cause."""
        deployment = self.drivers.deployments.get(self.drivers.pipeline, version)
        return deployment is not None and deployment.author == AUTHOR

    def _former_version(self, content: str) -> int | None:
        """Return the last ready version of another content; None if this content has been ready itself.

        If content was ready once and fails now, the change to it is not the cause.
        """
        ready = self.log.ready_versions()
        if any(self.drivers.content(version) == content for version in ready):
            return None
        return ready[0] if ready else None

    def _close_interrupted(
        self, deployment: Deployment, current: LiveDriver | None, begun: Reconfiguration | None = None
    ) -> None:
        """End the entries that a killed reconciler or driver left open, except for the change in progress."""
        for entry in self.log.open_entries():
            if entry == begun:
                continue
            if entry.generation is None:
                self._close_stop(entry)
            elif current is None or entry.generation != current.generation:
                self._close_change(deployment, entry, entry.generation)

    def _close_change(self, deployment: Deployment, entry: Reconfiguration, number: int) -> None:
        record = self.drivers.record(number)
        if entry.tier == LIVE:
            late = entry.to_version != deployment.version
            self.log.end(entry, Outcome.FAILED, f"superseded by version {deployment.version}" if late else DRIVER_ENDED)
        elif record is not None and is_ready(record):
            self._ready(entry)
        else:
            error = record.error if record else None
            self.log.end(entry, Outcome.FAILED, error or "interrupted before it was ready")

    def _close_stop(self, entry: Reconfiguration) -> None:
        records = (self.drivers.record(driver.generation) for driver in self.drivers.live())
        if any(r is not None and r.ready_at is not None and r.ready_at < entry.started for r in records):
            self.log.end(entry, Outcome.FAILED, "started again before its driver had stopped")
        else:
            self.log.end(entry, Outcome.STOPPED)

    def _write_failed_record(self, version: int, slots: int, number: int, error: str) -> None:
        """Write the record of a driver that could not be started, so ``status`` can show the reason."""
        of, state, now = self.drivers, DriverState.FAILED, self.clock()
        record = DriverRecord(of.pipeline, of.app, number, version, slots, 0, 0.0, state, now, error=error)
        driver_records.write(of.run_dir, record)
