"""Changes the number of state partitions between two drivers: what is due or refused, and what a kill left to do.

A job does the work (``jobs/rescale_state.py``), and its progress is on disk
(:mod:`millrace.run_folder.rescale_record`). No driver starts while checkpoints may be half changed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from millrace.drivers.app_drivers import AppDrivers
from millrace.drivers.failure_history import fingerprint
from millrace.drivers.handover import POLL_S, HandOver
from millrace.drivers.launcher import Launcher
from millrace.drivers.quota import go_back
from millrace.drivers.reconfiguration_log import ReconfigurationLog
from millrace.drivers.step_result import StepResult
from millrace.model.decision import Outcome, Reconfiguration
from millrace.model.deployment import AppDeployment, Deployment
from millrace.run_folder import rescale_record
from millrace.run_folder.discovery import LiveDriver
from millrace.run_folder.driver_records import QueryCheckpoint
from millrace.run_folder.process import ProcessId
from millrace.run_folder.rescale_record import Phase, Rescale, Verb

RESCALABLE = "RocksDBStateStoreProvider"
"""The only state store class for which Spark can change the number of state partitions."""
FILE_SINK = "FileSink"
"""How Spark describes a file sink: it keeps its own log, in which no batch may be missing."""


@dataclass(frozen=True)
class Rescaler:
    """Manages the number of an app's state partitions.

    Attributes:
        drivers: The app's drivers.
        log: The app's entries in ``control/reconfigurations``.
        launcher: Starts the job.
        hand_over: Ends drivers.
        quota: Slots that all pipelines together may hold; None for any number.
        clock: Returns the current time (UTC).
    """

    drivers: AppDrivers
    log: ReconfigurationLog
    launcher: Launcher
    hand_over: HandOver
    quota: int | None
    clock: Callable[[], datetime]

    def due(self, wanted: AppDeployment) -> bool:
        """Return whether there is state, in another number of partitions than is wanted."""
        number = self._in_force()
        if number is None or number == wanted.max_parallelism:
            return False
        return not self._told() or bool(self._stateful())

    def change(
        self, deployment: Deployment, wanted: AppDeployment, entry: Reconfiguration, serving: Sequence[LiveDriver]
    ) -> StepResult | None:
        """Stop the drivers and rescale their state; None if the next driver can start.

        If the change is refused, nothing changes: the drivers continue, and the Deployment goes back to their content.
        """
        served = self.drivers.served()
        number = self._in_force()
        if served is None or number is None:
            return None
        if (refusal := self._refusal(deployment)) is not None:
            return self._given_up(deployment, served.version, number, refusal, entry)
        self.drivers.end(serving, self.hand_over)
        if any(driver.alive() for driver in serving):
            return StepResult((entry,))
        change = Rescale(
            version=deployment.version,
            before=served.version,
            generation=entry.generation or 0,
            partitions=wanted.max_parallelism,
            former=number,
            checkpoints=self._stateful(),
            since=self.clock(),
        )
        rescale_record.write(self.drivers.folder, change)
        if not self._run(Verb.CHANGE, change):
            return StepResult((entry,))
        changed = self._last()
        return None if changed is not None and changed.phase is Phase.CHANGED else StepResult(again=True)

    def begun(self, deployment: Deployment) -> Reconfiguration | None:
        """Return the entry of a version whose state is ready and whose driver has not been started yet, if any."""
        change = self._last()
        if change is None or change.phase is not Phase.CHANGED or change.version != deployment.version:
            return None
        started = self.drivers.record(change.generation) is not None
        return None if started else next(iter(self._entries(change)), None)

    def settle(self, deployment: Deployment) -> StepResult | None:
        """Finish what is left of a change; return None if drivers may start and stop as usual."""
        change = self._last()
        if change is None:
            return None
        if change.copies and not self._ended():
            return StepResult(self._entries(change))
        change = self._judged(deployment, self._last() or change)
        if change.phase is Phase.CHANGED and change.error is None:
            return None
        if change.phase in (Phase.COPYING, Phase.CHANGING, Phase.CHANGED):
            self.drivers.end(self.drivers.live(), self.hand_over)
            if not self._run(Verb.UNDO, change):
                return StepResult(self._entries(change))
            change = self._last() or change
        elif change.copies:
            self._run(Verb.CLEAN, change)  # if it fails now, a later call will do it
        return self._after(deployment, change)

    def _after(self, deployment: Deployment, change: Rescale) -> StepResult | None:
        """Restore the content before an undone change; no driver starts before the change is undone."""
        if change.phase is Phase.KEPT:
            return None
        entries = self._entries(change)
        if change.phase is not Phase.UNDONE:
            error = self.drivers.logged_error(change.generation) or "read the driver's log"
            sentence = f"its previous state is not restored yet: {error}; the next reconcile tries again"
            return StepResult(tuple(self.log.end(entry, Outcome.FAILED, sentence) for entry in entries))
        if deployment.version != change.version:
            return None
        error = change.error or "it was interrupted"
        return self._given_up(deployment, change.before, change.former, error, next(iter(entries), None))

    def _judged(self, deployment: Deployment, change: Rescale) -> Rescale:
        """Record that a change stays because a driver has committed with it, or why it must be undone."""
        if change.phase in (Phase.KEPT, Phase.UNDONE):
            return change
        if change.phase is not Phase.CHANGED:
            change = replace(change, error=change.error or self.drivers.logged_error(change.generation))
        elif self._committed(change):
            change = replace(change, phase=Phase.KEPT)
        else:
            change = replace(change, error=self._objection(deployment, change))
        return rescale_record.write(self.drivers.folder, change)

    def _last(self) -> Rescale | None:
        return rescale_record.read(self.drivers.folder)

    def _in_force(self) -> int | None:
        """Return the number of partitions that the state has; None before a driver was ready."""
        served, last = self.drivers.served(), self._last()
        if last is not None and (served is None or last.generation >= served.generation):
            return last.in_force
        app = None if served is None else self._content(served.version)
        return None if app is None else app.max_parallelism

    def _content(self, version: int) -> AppDeployment | None:
        deployment = self.drivers.deployments.get(self.drivers.pipeline, version)
        return None if deployment is None else deployment.apps.get(self.drivers.app)

    def _told(self) -> tuple[QueryCheckpoint, ...]:
        """Return the checkpoints that a driver last reported; empty if none ever did."""
        return next((record.checkpoints for record in self.drivers.records() if record.checkpoints), ())

    def _stateful(self) -> tuple[QueryCheckpoint, ...]:
        """Return the checkpoints of stateful queries, except for checkpoints that were removed since."""
        return tuple(c for c in self._told() if c.partitions and not _taken_away(c.folder))

    def _refusal(self, deployment: Deployment) -> str | None:
        """Return why the state cannot be rescaled, as far as this is known without touching it."""
        if deployment.join is not None:
            return "a join keeps the number of partitions of its first start"
        if not self._told():
            return "its checkpoints are not known yet: no driver of this release has run a batch"
        for checkpoint in self._stateful():
            provider = checkpoint.provider.rpartition(".")[2]
            if provider != RESCALABLE:
                return f"{checkpoint.query} keeps its state in {provider}; Spark can rescale only {RESCALABLE}"
            if checkpoint.sink.startswith(FILE_SINK):
                return f"{checkpoint.query} writes to {checkpoint.sink}, whose log must contain every batch"
        return None

    def _objection(self, deployment: Deployment, change: Rescale) -> str | None:
        """Return why rescaled state, which no driver has committed with yet, must be undone."""
        wanted = deployment.apps.get(self.drivers.app)
        if not deployment.running or wanted is None:
            return None
        if wanted.max_parallelism != change.partitions:
            return f"version {deployment.version} wants {wanted.max_parallelism} partitions"
        failures = self.drivers.history().contents.get(fingerprint(wanted))
        if failures is None or not failures.failures or failures.last < change.since:
            return None
        return failures.error or "its driver failed"

    def _committed(self, change: Rescale) -> bool:
        """Return whether a driver has committed a batch since the change."""
        later = (record for record in self.drivers.records() if record.generation >= change.generation)
        return any(record.last_commit_at is not None for record in later)

    def _given_up(
        self, deployment: Deployment, before: int, number: int, error: str, entry: Reconfiguration | None
    ) -> StepResult:
        """Record that a change of the number was given up, and go back to the content before it."""
        sentence = f"its state stays in {number} partitions: {error.rstrip('. ')}"
        ended = () if entry is None else (self.log.end(entry, Outcome.ROLLED_BACK, sentence),)
        reason = f"Version {deployment.version} failed ({sentence}); restored the content of version {before}."
        go_back(self.drivers.deployments, deployment, self.drivers.app, before, reason, self.quota)
        return StepResult(ended, again=True)

    def _entries(self, change: Rescale) -> tuple[Reconfiguration, ...]:
        return tuple(entry for entry in self.log.open_entries() if entry.generation == change.generation)

    def _run(self, verb: Verb, change: Rescale) -> bool:
        """Let the job do something; return whether it has ended."""
        content = self._content(change.version)
        if content is None:
            return True
        app, folder = self.drivers.app, self.drivers.folder
        return self._ended(self.launcher.rescale(content, app, change.generation, verb, folder))

    def _ended(self, started: tuple[ProcessId, ...] = ()) -> bool:
        """Wait for the job, and kill it after the time that a batch may take; False if it runs longer than the wait."""
        folder = self.drivers.folder
        # the process table does not show the command line of a process that has just been started
        while processes := {*(p for p in started if p.alive()), *rescale_record.running(folder)}:
            if max(process.age_s() for process in processes) > self.launcher.spec.batch_deadline_s:
                for process in processes:
                    process.signal(signal.SIGKILL)
            if time.monotonic() > self.hand_over.leave_at_s:
                return False
            self.launcher.reap()
            time.sleep(POLL_S)
        return True


def _taken_away(folder: str) -> bool:
    """Return whether a checkpoint on this machine is gone; its query then starts from scratch."""
    local = folder.startswith(("file:", "/"))
    return local and not Path("/" + folder.removeprefix("file:").lstrip("/")).exists()
