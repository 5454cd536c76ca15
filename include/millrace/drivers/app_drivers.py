"""One app's drivers, seen from outside: which are alive, what each reports and runs, and what has failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from millrace.drivers import driver_log, failure_history
from millrace.drivers.failure_history import AUTHOR, STEADY_S, ContentFailures, FailureHistory, fingerprint
from millrace.drivers.handover import HandOver
from millrace.lake.deployments import DeploymentStore
from millrace.lake.driver_hosts import elsewhere
from millrace.model.deployment import BY_CONTINGENCY, BY_DECISION, BY_VERIFICATION, Deployment, is_node_name
from millrace.model.errors import MillraceError
from millrace.model.failure import in_sentence
from millrace.run_folder import driver_records, generation, rescale_record
from millrace.run_folder.discovery import LiveDriver, find, python_driver
from millrace.run_folder.driver_records import ENDED, DriverRecord, DriverState

STARTING = frozenset({DriverState.STARTING, DriverState.WAITING})
LOOKED_BACK = 20
"""Versions that are compared to see if one since a failure concerns the app."""
AUTOMATIC = frozenset({BY_DECISION, BY_VERIFICATION, BY_CONTINGENCY, AUTHOR})
"""Authors of versions that no person asked for."""


@dataclass(frozen=True)
class DriverFailure:
    """A driver that failed because of its content: its generation, the version it ran, and the error."""

    generation: int
    version: int
    error: str


@dataclass(frozen=True)
class AppDrivers:
    """The drivers of one app.

    Attributes:
        run_dir: Folder of records, locks and generations.
        pipeline: Name of the pipeline.
        app: Name of the app.
        deployments: Where a version's content is looked up.
        log_dir: Folder of the drivers' logs; None if they are not read.
        period_s: The spec's ``period_s``, seconds; 0 if it is not known.
    """

    run_dir: Path
    pipeline: str
    app: str
    deployments: DeploymentStore
    log_dir: Path | None = None
    period_s: float = 0.0
    _contents: dict[int, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The app's folder under the run folder."""
        return driver_records.app_dir(self.run_dir, self.pipeline, self.app)

    def live(self) -> list[LiveDriver]:
        """Return the app's live drivers, newest generation first."""
        return [d for d in find(self.run_dir, self.pipeline) if d.arguments.app == self.app]

    def record(self, number: int) -> DriverRecord | None:
        """Return one generation's record.

        Raises:
            MillraceError: If it cannot be read: its driver may be healthy.
        """
        return driver_records.read(self.run_dir, self.pipeline, self.app, number)

    def records(self) -> tuple[DriverRecord, ...]:
        """Return the records that are kept, newest generation first.

        Raises:
            MillraceError: If one of them cannot be read: without it, the ends and the due starts would be wrong.
        """
        return driver_records.all_of(self.run_dir, self.pipeline, self.app, strict=True)

    def starting(self, driver: LiveDriver) -> bool:
        """Return whether a live driver has not passed its gate yet; without a record, it has not."""
        record = self.record(driver.generation)
        return record is None or record.state in STARTING

    def content(self, version: int) -> str:
        """Return the fingerprint of the app's content in a version; empty if the version does not have the app."""
        if version not in self._contents:
            stored = self.deployments.get(self.pipeline, version)
            app = stored.apps.get(self.app) if stored else None
            self._contents[version] = fingerprint(app) if app else ""
        return self._contents[version]

    def changed_elsewhere(self, content: str, deployment: Deployment, history: FailureHistory) -> bool:
        """Return whether no version since a content failed was made by a person or has changed the app to it.

        Args:
            content: Fingerprint of the app's content in the newest version.
            deployment: That version.
            history: The app's failures.
        """
        failures = history.contents.get(content)
        if failures is None or deployment.author not in AUTOMATIC:
            return False
        since = range(max(failures.version + 1, deployment.version - LOOKED_BACK), deployment.version)
        return all(self.content(version) == content for version in since)

    def wait_s(self, content: str, deployment: Deployment, now: datetime, history: FailureHistory) -> float:
        """Return how long the app must wait before it may be started, seconds; 0 for now."""
        others_only = self.changed_elsewhere(content, deployment, history)
        return history.wait_s(content, deployment, now, elsewhere=others_only)

    def current(self, drivers: Sequence[LiveDriver], content: str) -> LiveDriver | None:
        """Return the driver to keep: the newest with the right content that serves, or may still serve."""
        # a lost counter starts again below the generations of live drivers
        newest = max([generation.newest(self.folder), *(d.generation for d in drivers)])
        settled = self.history().settled
        for driver in drivers:
            record = self.record(driver.generation)
            python = python_driver(record)
            if python is not None and not python.alive():
                continue  # its JVM has just not noticed yet
            state = record.state if record else DriverState.STARTING
            hopeful = state in STARTING and driver.generation == newest
            wanted = driver.generation not in settled and self.content(driver.arguments.version) == content
            if wanted and (state is DriverState.RUNNING or hopeful):
                return driver
        return None

    def completed(self, deployment: Deployment) -> DriverRecord | None:
        """Return the newest driver's record if its script finished and no other run was requested since.

        Versions that no person asked for apply to the next run. Those that pause, detach or attach bring no content.
        """
        newest = next(iter(self.records()), None)
        if newest is None or newest.state is not DriverState.COMPLETED or newest.version > deployment.version:
            return None
        later = deployment.version - newest.version
        since = self.deployments.versions(self.pipeline, later) if later else []
        return newest if all(v.author in AUTOMATIC or v.origin is not None for _, v in since) else None

    def predecessor(self, number: int) -> DriverRecord | None:
        """Return the record of the last generation before ``number`` that served."""
        return next((r for r in self.records() if r.generation < number and r.ready_at is not None), None)

    def served(self) -> DriverRecord | None:
        """Return the record of the last generation that was ready."""
        return next((r for r in self.records() if r.ready_at is not None), None)

    def history(self) -> FailureHistory:
        """Return what has failed so far."""
        return failure_history.load(self.folder)

    def save(self, history: FailureHistory) -> None:
        """Save what has failed."""
        if history != self.history():
            failure_history.save(self.folder, history)

    def end(self, drivers: Sequence[LiveDriver], hand_over: HandOver) -> None:
        """End some drivers, after recording that their end is no failure."""
        if drivers:
            self.save(self.history().settle(*(d.generation for d in drivers)))
            hand_over.end(drivers)

    def account_for_ends(self, now: datetime) -> list[DriverFailure]:
        """Add every driver that has ended unasked since the last call to the history; return those that failed."""
        history, failures = self._with_ends(now)
        self.save(history)
        return failures

    def _with_ends(self, now: datetime) -> tuple[FailureHistory, list[DriverFailure]]:
        history, working, failures = self.history(), self._working(), []
        for record in reversed(self.records()):
            if record.generation not in history.settled and record.generation not in working:
                history, error = self._account(history, record, now)
                history = history.settle(record.generation)
                if error is not None:
                    failures.append(DriverFailure(record.generation, record.version, error))
        return history, failures

    def _working(self) -> set[int]:
        """Return the generations of drivers that have not ended; a process that a script left behind does not count.

        Call it before reading the records: the last record of each other driver is on disk by then.
        """
        found = set()
        for driver in self.live():
            record = self.record(driver.generation)
            python = python_driver(record)
            if record is None or (record.state not in ENDED and python is not None and python.alive()):
                found.add(driver.generation)
        return found

    def next_try(self, deployment: Deployment, now: datetime) -> datetime | None:
        """Return when the reconciler must start the app, now or later (UTC); None if there is nothing to start.

        Args:
            deployment: The pipeline's newest Deployment.
            now: Current time (UTC).
        """
        wanted = deployment.wanted(self.app) if deployment.kept_running else None
        if wanted is None or wanted.is_external or rescale_record.running(self.folder):
            return None
        content = fingerprint(wanted)
        if self.current(self.live(), content) is not None or self.completed(deployment) is not None:
            return None
        if elsewhere(self.deployments.lake, self.pipeline, now, self.period_s) is not None:
            return None
        before, (history, _) = self.history(), self._with_ends(now)
        unseen = (r for r in self.records() if r.generation in set(history.settled) - set(before.settled))
        if any(record.state is not DriverState.FAILED for record in unseen):
            return now  # only the reconciler's note shows when it died
        return now + timedelta(seconds=self.wait_s(content, deployment, now, history))

    def problem(self, deployment: Deployment, now: datetime) -> str | None:
        """Return why the app does not run as a Deployment wants, or what runs but should not; None if all is well.

        Args:
            deployment: The pipeline's newest Deployment.
            now: Current time (UTC).
        """
        drivers, wanted = self.live(), deployment.wanted(self.app)
        node = self.app in deployment.apps or (bool(deployment.ingest) and is_node_name(self.app))
        if wanted is None and deployment.running and node:
            return None  # a node of a fleet that is not needed hands its streams over before it ends
        if wanted is None:
            pids = ", ".join(str(process.pid) for driver in drivers for process in driver.processes)
            return f"{self.app} was stopped, but its driver still runs (pid {pids})." if drivers else None
        content = fingerprint(wanted)
        if self.current(drivers, content) is not None or self.completed(deployment) is not None:
            return None
        if rescale_record.running(self.folder):
            return None  # its next driver starts when its state is ready
        return f"{self.app} does not run: {self._reason(content, deployment, now)}"

    def status(self) -> list[DriverRecord]:
        """Return the records of live drivers, of the newest driver, and of the last failure that still counts."""
        alive = {d.generation for d in self.live()}
        every = self.records()
        errors = {f.error for f in self.history().contents.values() if f.error}
        failed = next((r for r in every if r.error in errors), None)
        shown = [r for r in every if r.generation in alive or r is every[0] or r is failed]
        return [r if r.generation in alive else _ended(r) for r in shown]

    def logged_error(self, number: int) -> str | None:
        """Return the reason of the last error in a driver's log."""
        if self.log_dir is None:
            return None
        return driver_log.last_error(driver_log.path(self.log_dir, self.pipeline, self.app, number))

    def prune(self) -> None:
        """Delete the records and logs of old generations."""
        driver_records.prune(self.run_dir, self.pipeline, self.app)
        if self.log_dir is not None:
            driver_log.prune(self.log_dir, self.pipeline, self.app, generation.newest(self.folder))

    def _account(
        self, history: FailureHistory, record: DriverRecord, now: datetime
    ) -> tuple[FailureHistory, str | None]:
        """Return the history after a driver's end, and its error; None if the driver did not cause the end."""
        if record.state in (DriverState.STOPPING, DriverState.STOPPED, DriverState.COMPLETED):
            return history, None
        content = self.content(record.version)
        if was_steady(record, record.last_commit_at):
            history = history.steady(content)
        if record.state is not DriverState.FAILED and record.ready_at is not None:
            return history.died(content, record.version, now), None
        error = record.error or self.logged_error(record.generation) or "ended before it was ready"
        # the wait starts when the driver failed, not when the failure was noticed
        failed_at = min(record.since, now) if record.state is DriverState.FAILED else now
        progressed = record.last_commit_at is not None
        return history.failed(content, record.version, error, failed_at, progressed=progressed), error

    def _reason(self, content: str, deployment: Deployment, now: datetime) -> str:
        other = elsewhere(self.deployments.lake, self.pipeline, now, self.period_s)
        if other is not None:
            return f"host {other[0]} runs its driver (seen {other[1]:.0f} s ago); only one host may start drivers."
        history = self._with_ends(now)[0]
        failures, newest = history.contents.get(content), next(iter(self.records()), None)
        if failures is None:
            what = "its driver has ended" if newest is not None else "it has not been started yet"
            return f"{what}; the next reconcile starts it within a minute."
        wait_s = self.wait_s(content, deployment, now, history)
        again = f"Next try at {_time(now, wait_s)}." if wait_s > 0 else "A restart is due now."
        remedy = f" To retry now: `./millrace trigger {self.pipeline}`." if wait_s > 0 else ""
        return f"{_what_failed(failures)}. {again}{remedy}{self._log_of_failure(failures)}"

    def _log_of_failure(self, failures: ContentFailures) -> str:
        """Return a sentence with the log of the last failure; empty if there is no such log."""
        if self.log_dir is None or failures.error is None:
            return ""
        failed = next((r for r in self.records() if r.version == failures.version and r.error == failures.error), None)
        number = generation.newest(self.folder) if failed is None else failed.generation
        log = driver_log.path(self.log_dir, self.pipeline, self.app, number)
        return f" Log: {log}" if log.exists() else ""


def _what_failed(failures: ContentFailures) -> str:
    error = in_sentence(failures.error)
    if failures.asked:
        return f"its query asked for a restart: {error}"
    if not failures.failures:
        return "its driver was killed"
    if failures.failures == 1:
        return f"its driver failed: {error}"
    return f"it failed {failures.failures} times; last error: {error}"


def _time(now: datetime, wait_s: float) -> str:
    """Return the end of a wait, rounded up to the second."""
    over = now + timedelta(seconds=wait_s)
    return f"{over + timedelta(microseconds=-over.microsecond % 1_000_000):%H:%M:%S} UTC"


def apps_of(run_dir: Path, pipeline: str, wanted: Iterable[str]) -> list[str]:
    """Return the apps of a pipeline that are wanted or have a live driver, by name."""
    return sorted({d.arguments.app for d in find(run_dir, pipeline)} | set(wanted))


def problem(
    run_dir: Path,
    deployment: Deployment,
    deployments: DeploymentStore,
    now: datetime,
    log_dir: Path | None = None,
    period_s: float = 0.0,
) -> str | None:
    """Return why a pipeline does not run as a Deployment wants, or what runs but should not; None if all is well.

    Args:
        run_dir: Folder of records, locks and generations.
        deployment: A pipeline's newest Deployment.
        deployments: Contains the content of each version.
        now: Current time (UTC).
        log_dir: Folder of the drivers' logs, which the sentence names; None leaves them out.
        period_s: The spec's ``period_s``, seconds; 0 if it is not known.
    """
    if deployment.detached:
        return None
    name = deployment.pipeline
    apps = apps_of(run_dir, name, deployment.apps)
    drivers = (AppDrivers(run_dir, name, app, deployments, log_dir, period_s) for app in apps)
    try:
        return next((sentence for one in drivers if (sentence := one.problem(deployment, now)) is not None), None)
    except MillraceError as error:
        return f"The state of its drivers is unknown: {error}"


def was_steady(record: DriverRecord, until: datetime | None) -> bool:
    """Return whether a driver served long enough, until a moment, to be trusted again."""
    if record.ready_at is None or until is None:
        return False
    return until - record.ready_at >= timedelta(seconds=STEADY_S)


def _ended(record: DriverRecord) -> DriverRecord:
    """Return the record of a driver without a process as one that has ended."""
    if record.state in ENDED:
        return record
    if record.state is DriverState.STOPPING:
        return replace(record, state=DriverState.STOPPED)
    return replace(record, state=DriverState.FAILED, error="the process was killed: it ended without a report")
