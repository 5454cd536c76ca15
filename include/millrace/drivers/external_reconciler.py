"""Reconciling drivers that somebody else starts: wait for what their agents change, and say what only a restart can.

Nothing here starts, stops or signals a process. What is known of a driver is its heartbeat in the lake.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from millrace.drivers.failure_history import AUTHOR
from millrace.drivers.handover import short_of, too_late
from millrace.drivers.reconfiguration_log import ReconfigurationLog
from millrace.drivers.restart_command import restart_command
from millrace.lake.attached_drivers import Heartbeat, newest_heartbeat
from millrace.lake.control_tables import ControlTables
from millrace.model.attached_driver import (
    DRIVER_MEMORY,
    EXECUTOR_CORES,
    EXECUTOR_MEMORY,
    settings_of,
    settings_to_change,
)
from millrace.model.decision import LIVE, Outcome, Reconfiguration
from millrace.model.deployment import Deployment
from millrace.model.errors import Conflict
from millrace.model.spec import PipelineSpec
from millrace.run_folder.driver_records import DriverRecord, DriverState

POLL_S = 0.5


class ExternalReconciler:
    """Follows the driver of a pipeline whose driver somebody else starts.

    Args:
        pipeline: Name of the pipeline and of its app.
        tables: Contains its Deployments and takes its reconfigurations.
        deadline_s: Longest time in which a driver may carry out a change, seconds.
        clock: Returns the current time (UTC).
        sleep: Waits between two looks at the driver, seconds.
    """

    def __init__(
        self,
        pipeline: str,
        tables: ControlTables,
        deadline_s: float = 120.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pipeline, self._tables, self._deadline_s = pipeline, tables, deadline_s
        self._clock, self._sleep = clock, sleep
        self._log = ReconfigurationLog(pipeline, pipeline, tables, clock)

    def reconcile(self, wait_s: float | None = None, patience_s: float | None = None) -> tuple[Reconfiguration, ...]:
        """Record what the driver has carried out since the last call, and wait for what it is about to.

        Args:
            wait_s: Unused; calls do not exclude each other, as they only record.
            patience_s: Longest time to wait for a change, seconds; by default the deadline. A change that takes longer
                is returned open.
        """
        deployment = self._tables.deployments.latest(self._pipeline)
        if deployment is None or deployment.detached or not deployment.running:
            return ()
        beat = self._alive()
        if beat is None:
            ended = "the driver has ended" if self._newest() else "no driver has attached"
            return tuple(self._log.end(entry, Outcome.FAILED, ended) for entry in self._log.open_entries())
        stale = [entry for entry in self._log.open_entries() if entry.generation != beat.generation]
        changes = [self._log.end(entry, Outcome.FAILED, "another driver has attached") for entry in stale]
        changes += self._note_start(deployment, beat)
        if beat.driver.unable:
            self._take_slots(deployment, beat)
            return tuple(changes)
        leave_at_s = time.monotonic() + (self._deadline_s if patience_s is None else patience_s)
        return (*changes, *self._resize(deployment, beat, leave_at_s))

    def running(self) -> bool:
        """Return whether a driver is attached and alive."""
        return self._alive() is not None

    def status(self) -> tuple[DriverRecord, ...]:
        """Return the newest driver as a record; none if no driver has attached within a day."""
        beat = self._newest()
        if beat is None:
            return ()
        alive, driver = beat.is_alive(self._clock()), beat.driver
        state = DriverState.RUNNING if alive else DriverState.STOPPED
        name, version = self._pipeline, max(1, driver.version)
        return (DriverRecord(name, name, beat.generation, version, driver.slots, 0, 0.0, state, beat.time),)

    def problem(self) -> str | None:
        """Return why the pipeline does not run as wanted; None if all is well."""
        deployment = self._tables.deployments.latest(self._pipeline)
        if deployment is None or deployment.detached:
            return None
        last, name = self._newest(), self._pipeline
        beat = last if last is not None and last.is_alive(self._clock()) else None
        if not deployment.running:
            told = f"{name} was stopped, so Millrace leaves it alone, but its driver still runs: "
            return None if beat is None else f"{told}{beat.driver.name}. Stop it where it was started."
        if beat is not None:
            return None
        if last is None:
            return (
                f"{name} waits for a driver. Start it where you start Spark, with "
                f'millrace.attach(spark, "{name}", lake="{self._tables.lake.location.uri}") in its script.'
            )
        age_s = last.age_s(self._clock())
        ended = "has ended" if last.driver.ended else f"was last seen {age_s:.0f} s ago"
        return (
            f"{name} does not run: its driver, {last.driver.name}, {ended}. Millrace did not start it; start it again "
            "where it was started."
        )

    def restart_needed(self, spec: PipelineSpec) -> str | None:
        """Return which settings of the newest Deployment need a restart, and the command; None if none does.

        Args:
            spec: The pipeline. Sizes that it does not set, and that no Decision has changed, may be any.
        """
        deployment, beat = self._tables.deployments.latest(self._pipeline), self._alive()
        if deployment is None or beat is None or not deployment.kept_running:
            return None
        present = beat.driver.settings
        left_open = _left_open(spec)
        changes = settings_to_change(deployment.apps[self._pipeline], present)
        settings = {name: value for name, value in changes.items() if left_open.get(name) != value}
        if not settings:
            return None
        told = ", ".join(f"{name}={value} (now {present[name] or 'not set'})" for name, value in settings.items())
        return (
            f"{self._pipeline} runs, but it needs a restart with {told}. Millrace does not restart a driver that it "
            f"did not start. Run: {restart_command(beat.driver, settings)}"
        )

    def unable(self) -> str:
        """Return why the attached driver's executors cannot be changed, as a sentence; empty if they can."""
        beat = self._alive()
        return "" if beat is None else beat.driver.unable

    def _newest(self) -> Heartbeat | None:
        return newest_heartbeat(self._tables.lake, self._pipeline, self._pipeline, self._clock())

    def _alive(self) -> Heartbeat | None:
        beat = self._newest()
        return beat if beat is not None and beat.is_alive(self._clock()) else None

    def _note_start(self, deployment: Deployment, beat: Heartbeat) -> list[Reconfiguration]:
        """Record a driver that has attached since the last call."""
        if self._log.newest_version(beat.generation) is not None:
            return []
        entry = self._log.begin(deployment, beat.generation, self._log.served_version())
        return [self._log.end(entry, Outcome.READY)]

    def _take_slots(self, deployment: Deployment, beat: Heartbeat) -> None:
        """Note in the Deployment the slots of a driver that cannot change them: advice is based on it."""
        name, slots = self._pipeline, beat.driver.slots
        app = deployment.apps[name]
        if app.slots == slots:
            return
        sentence = f"The attached driver has {slots} slots and cannot change them: {beat.driver.unable}"
        content = replace(deployment, apps={name: replace(app, slots=slots)}, author=AUTHOR, reason=sentence)
        with suppress(Conflict):  # the next call finds what came first
            self._tables.deployments.commit(
                replace(content, decision_id=None, contingencies=None, origin=None), deployment.version
            )

    def _resize(self, deployment: Deployment, beat: Heartbeat, leave_at_s: float) -> tuple[Reconfiguration, ...]:
        """Wait until a driver has the executors that a Deployment wants."""
        entry = next(iter(self._log.open_entries()), None)
        superseded: tuple[Reconfiguration, ...] = ()
        if entry is not None and entry.to_version != deployment.version:
            superseded = (self._log.end(entry, Outcome.FAILED, f"superseded by version {deployment.version}"),)
            entry = None
        if entry is None:
            if not self._is_due(deployment, beat):
                return superseded
            entry = self._log.begin_live(deployment, beat.generation, self._log.served_version())
        return (*superseded, self._await(entry, deployment, leave_at_s))

    def _is_due(self, deployment: Deployment, beat: Heartbeat) -> bool:
        """Return whether a version is not on record yet with this driver."""
        wanted, tried = deployment.apps[self._pipeline], self._log.newest_version(beat.generation)
        if tried is None:
            return False
        if tried == deployment.version:
            changes = self._tables.reconfigurations.recent(self._pipeline)
            live = any(c.tier == LIVE and c.to_version == tried and c.generation == beat.generation for c in changes)
            return not live and beat.driver.version < tried and beat.driver.slots != wanted.slots
        before = self._tables.deployments.get(self._pipeline, tried)
        return before is not None and before.apps != deployment.apps

    def _await(self, entry: Reconfiguration, deployment: Deployment, leave_at_s: float) -> Reconfiguration:
        wanted = deployment.apps[self._pipeline].slots
        while True:
            beat = self._alive()
            if beat is None or beat.generation != entry.generation:
                return self._log.end(entry, Outcome.FAILED, "the driver ended during the change")
            driver = beat.driver
            if driver.version > deployment.version:
                return entry  # the next call reads that version
            if driver.version == deployment.version:
                if driver.slots != wanted:
                    return self._log.end(entry, Outcome.FAILED, short_of(driver.slots, wanted, driver.awaits))
                return self._log.end(entry, Outcome.READY, downtime_s=0.0, ended=driver.resized)
            late = too_late((self._clock() - entry.started).total_seconds(), self._deadline_s, driver.awaits)
            if late is not None:
                return self._log.end(entry, Outcome.FAILED, late)
            if time.monotonic() > leave_at_s:
                return entry
            self._sleep(POLL_S)


def _left_open(spec: PipelineSpec) -> dict[str, str]:
    """Return the settings of sizes that a spec does not set, by name, with the defaults that a Deployment gets."""
    own, of_executor = spec.model_fields_set, spec.executor.model_fields_set
    sizes = {DRIVER_MEMORY: "memory_mb" in own, EXECUTOR_CORES: "cores" in of_executor}
    sizes[EXECUTOR_MEMORY] = "memory_mb" in of_executor
    defaults = settings_of(spec.first_app())
    return {name: defaults[name] for name, is_set in sizes.items() if name in defaults and not is_set}
