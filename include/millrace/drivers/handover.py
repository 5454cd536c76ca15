"""From one driver of an app to the next: the successor waits at its gate before the predecessor is stopped."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from millrace.fleet import status
from millrace.run_folder import driver_records
from millrace.run_folder.discovery import LiveDriver, find, python_driver
from millrace.run_folder.driver_records import ENDED, PENDING_S, DriverRecord, DriverState

POLL_S = 0.05
DRIVER_ENDED = "the driver ended during the change"
MISSING_S = 1800.0
"""Time after which a change fails although its driver waits for executors, seconds.

An agent that has at least one executor gives up earlier, and reports the slots that it has.
"""
GONE_S = 10.0
"""A killed process leaves the process table within this time, unless the machine has other problems."""


@dataclass(frozen=True)
class Wait:
    """The result of waiting for a driver.

    Attributes:
        pending: True if the driver's work goes on, and the caller could not wait any longer.
        error: The error; None if there was none.
    """

    pending: bool = False
    error: str | None = None

    @property
    def reached(self) -> bool:
        """True if the driver reached the awaited state."""
        return not self.pending and self.error is None


@dataclass(frozen=True)
class HandOver:
    """Moves an app between drivers.

    Attributes:
        run_dir: Folder of records and locks.
        pipeline: Name of the pipeline.
        ready_deadline_s: Longest time in which a driver that is not ready may show no progress, seconds. A start that
            makes progress may take any time: a first batch with a backlog or much state to load is not cancelled. One
            that waits for executors has at least :data:`~millrace.run_folder.driver_records.PENDING_S`.
        stop_deadline_s: Time from TERM to kill -9, seconds.
        leave_at_s: Time on the monotonic clock after which starts in progress are no longer awaited.
    """

    run_dir: Path
    pipeline: str
    ready_deadline_s: float
    stop_deadline_s: float
    leave_at_s: float = math.inf

    def await_gate(self, driver: LiveDriver) -> Wait:
        """Wait until a driver waits at its gate or has passed it."""
        past = (DriverState.WAITING, DriverState.RUNNING, DriverState.COMPLETED)
        return self._await(driver, "able to take over", lambda r: r.state in past or is_ready(r))

    def await_ready(self, driver: LiveDriver) -> Wait:
        """Wait for a driver's first commit, or its first idle trigger."""
        return self._await(driver, "ready", is_ready)

    def await_slots(self, driver: LiveDriver, version: int, slots: int, since: datetime) -> Wait:
        """Wait until a driver reports that it has applied a version, or how many slots a full cluster granted.

        If it reports a later version, the caller has yet to read that one.
        """
        while True:
            gone = not driver.alive()
            record = self._record(driver)
            if record is not None and record.version > version:
                return Wait(pending=True)
            if record is not None and record.version == version:
                return Wait(error=None if record.slots == slots else short_of(record.slots, slots, record.awaits))
            if gone or record is None or record.state in ENDED:
                return Wait(error=DRIVER_ENDED)
            late = too_late((datetime.now(UTC) - since).total_seconds(), self.ready_deadline_s, record.awaits)
            if late is not None:
                return Wait(error=late)
            if time.monotonic() > self.leave_at_s:
                return Wait(pending=True)
            time.sleep(POLL_S)

    def await_moves(self, drivers: Sequence[LiveDriver]) -> Wait:
        """Wait until other nodes run all streams of a fleet's node that is no longer needed; it may take any time."""
        give_up = min(self.leave_at_s, time.monotonic() + self.stop_deadline_s)
        while any(self._streams(driver) for driver in drivers):
            if time.monotonic() > give_up:
                return Wait(pending=True)
            time.sleep(POLL_S)
        return Wait()

    def end(self, drivers: Sequence[LiveDriver]) -> None:
        """Stop drivers at a batch boundary, kill them after the deadline, and return when all have ended."""
        give_up = time.monotonic() + self.stop_deadline_s
        for driver in drivers:
            python = python_driver(self._record(driver))
            if python is None or not python.signal(signal.SIGTERM):
                self.kill([driver])  # the script has not started yet, or its Python process is gone
        while any(driver.alive() for driver in drivers):
            if time.monotonic() > give_up:
                self.kill(drivers)
                return
            time.sleep(POLL_S)

    def kill(self, drivers: Sequence[LiveDriver]) -> None:
        """End all processes of some drivers at once and wait until they are gone, or for :data:`GONE_S`."""
        ended = {(d.arguments.app, d.generation) for d in drivers}
        give_up = time.monotonic() + GONE_S
        while time.monotonic() < give_up:
            # searched each time: a driver that is starting creates new processes
            left = [d for d in find(self.run_dir, self.pipeline) if (d.arguments.app, d.generation) in ended]
            if not left:
                return
            for process in (p for d in left for p in d.processes):
                process.signal(signal.SIGKILL)
            time.sleep(POLL_S)

    def _await(self, driver: LiveDriver, what: str, reached: Callable[[DriverRecord], bool]) -> Wait:
        while True:
            gone = not driver.alive()  # checked before the record is read: the final record counts
            record = self._record(driver)
            if record is not None and reached(record):
                return Wait()
            if record is not None and record.state in ENDED:
                return Wait(error=record.error or f"ended before it was {what}")
            if gone:
                return Wait(error=f"ended before it was {what}")
            if record is not None and record.awaits:
                if driver.still_s(record) > max(PENDING_S, self.ready_deadline_s):
                    return Wait(error=f"not {what}: {record.awaits.rstrip('.')}")
            elif driver.still_s(record) > self.ready_deadline_s:
                return Wait(error=f"not {what}: no progress for {self.ready_deadline_s:g} s")
            if time.monotonic() > self.leave_at_s:
                return Wait(pending=True)
            time.sleep(POLL_S)

    def _streams(self, driver: LiveDriver) -> bool:
        """Return whether a driver is a node of a fleet that runs streams, or has to.

        A start that was abandoned does not count: the user's function may never return.
        """
        told = status.read(self.run_dir, self.pipeline, driver.arguments.app)
        if told is None or told.generation != driver.generation:
            return False
        return not all(stream.abandoned for stream in told.streams) and driver.alive()

    def _record(self, driver: LiveDriver) -> DriverRecord | None:
        return driver_records.read(self.run_dir, self.pipeline, driver.arguments.app, driver.generation)


def short_of(slots: int, wanted: int, awaits: str) -> str:
    """Return what is said of a change that got fewer executors than it wanted.

    Args:
        slots: Slots that the app has.
        wanted: Slots that it wants.
        awaits: What its driver says of the missing executors; empty if it does not know.
    """
    return f"{slots} of {wanted} slots: {awaits.rstrip('.') or 'the cluster has no room for more executors'}"


def too_late(waited_s: float, deadline_s: float, awaits: str) -> str | None:
    """Return why a change has failed that its driver has not reported; None if it may still succeed.

    Args:
        waited_s: Time since the change started, seconds.
        deadline_s: Longest time without executors that the driver waits for, seconds.
        awaits: What its driver says of missing executors; empty if none is missing.
    """
    limit_s = max(deadline_s, MISSING_S) if awaits else deadline_s
    if waited_s <= limit_s:
        return None
    why = awaits.rstrip(".") or "read its log"
    return f"the driver did not apply the change within {limit_s:g} s; {why}"


def is_ready(record: DriverRecord) -> bool:
    """Return whether a driver has been ready; a script that ended by itself was."""
    return record.ready_at is not None or record.state is DriverState.COMPLETED


def downtime_s(before: DriverRecord | None, after: DriverRecord | None) -> float | None:
    """Return the time without service between two drivers; None if either never served.

    From the predecessor's last commit (or its end, if it was idle) to the successor's first commit (or its first idle
    trigger), seconds.
    """
    end = _end_of_service(before)
    if end is None or after is None or after.ready_at is None:
        return None
    return max(0.0, (after.ready_at - end).total_seconds())


def _end_of_service(record: DriverRecord | None) -> datetime | None:
    if record is None:
        return None
    return record.served_until or record.last_commit_at or record.ready_at
