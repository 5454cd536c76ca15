"""A driver's own record, updated from several threads."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from millrace.model.errors import MillraceError
from millrace.model.query_failure import QueryFailure
from millrace.run_folder import driver_records as records
from millrace.run_folder.arguments import DriverArguments
from millrace.run_folder.driver_records import (
    ENDED,
    KEPT_FAILURES,
    DriverRecord,
    DriverState,
    QueryCheckpoint,
)
from millrace.run_folder.process import this_process

LOG = logging.getLogger(__name__)
COMMIT_INTERVAL_S = 1.0
"""Minimum time between writes for commits after the first: each write is synced to disk."""


class Journal:
    """Writes the record of this process.

    Args:
        arguments: The driver's arguments.

    Attributes:
        record: Present content of the record, written now or with the next change.
        triggered_s: When Spark last reported a trigger, on the monotonic clock; None before the first.
    """

    def __init__(self, arguments: DriverArguments) -> None:
        self._run_dir: Path = arguments.run_dir
        self._mutex = threading.Lock()
        self._written_s = 0.0
        self._idle = self._waits = False
        self.triggered_s: float | None = None
        process = this_process()
        self.record = DriverRecord(
            pipeline=arguments.pipeline,
            app=arguments.app,
            generation=arguments.generation,
            version=arguments.version,
            slots=arguments.slots,
            pid=process.pid,
            process_started=process.started,
            boot_id=process.boot_id,
            start_ticks=process.start_ticks,
            state=DriverState.STARTING,
            since=datetime.now(UTC),
            advanced_s=time.monotonic(),
        )
        records.write(self._run_dir, self.record)

    def move(self, state: DriverState, error: str | None = None) -> None:
        """Enter a state; an end state is final."""
        with self._mutex:
            if self.record.state in ENDED or self.record.state is state:
                return
            now = datetime.now(UTC)
            served = self._served_until(now) if state in ENDED else None
            self._write(state=state, since=now, error=error, served_until=served)

    def committed(self, at: datetime) -> None:
        """Record a committed batch that ended at ``at``; the first one makes the driver ready."""
        with self._mutex:
            self._idle = False
            self.triggered_s = time.monotonic()
            first = self.record.ready_at is None
            self._note(urgent=first, ready_at=self.record.ready_at or at, last_commit_at=at)

    def idle(self, at: datetime) -> None:
        """Record a trigger without new rows: a running query with nothing to do is ready too."""
        with self._mutex:
            self._idle = True
            self.triggered_s = time.monotonic()
            self._note(urgent=self.record.ready_at is None, ready_at=self.record.ready_at or at)

    def resized(self, version: int, slots: int) -> None:
        """Record the version that is now in effect, and its slots."""
        with self._mutex:
            if self.record.state not in ENDED:
                self._write(version=version, slots=slots, resize_ended=datetime.now(UTC))

    def awaits(self, sentence: str) -> None:
        """Record why requested executors are missing; an empty text if none is."""
        with self._mutex:
            if self.record.state not in ENDED:
                self._write(awaits=sentence)

    def keeps(self, checkpoints: tuple[QueryCheckpoint, ...]) -> None:
        """Record where the queries keep their state."""
        with self._mutex:
            if self.record.state not in ENDED:
                self._write(checkpoints=checkpoints)

    def query_failed(self, failure: QueryFailure) -> None:
        """Record a failed query in place of its earlier failure."""
        with self._mutex:
            if self.record.state not in ENDED:
                self._write(failed_queries=(*self._other_failures(failure.query), failure)[-KEPT_FAILURES:])

    def query_started(self, query: str) -> None:
        """Record that a query runs, which clears its earlier failure."""
        with self._mutex:
            others = self._other_failures(query)
            if self.record.state not in ENDED and others != self.record.failed_queries:
                self._write(failed_queries=others)

    def advanced(self) -> None:
        """Record that the driver's work advances."""
        with self._mutex:
            self._note(urgent=False)

    def _other_failures(self, query: str) -> tuple[QueryFailure, ...]:
        return tuple(failure for failure in self.record.failed_queries if failure.query != query)

    def _served_until(self, now: datetime) -> datetime | None:
        if self.record.ready_at is None:
            return None
        return now if self._idle else self.record.last_commit_at

    def _note(self, *, urgent: bool, **fields: Any) -> None:
        if urgent or time.monotonic() - self._written_s >= COMMIT_INTERVAL_S:
            self._write(**fields)
        else:  # written with the next change
            self.record = replace(self.record, advanced_s=time.monotonic(), **fields)

    def _write(self, **fields: Any) -> None:
        """Write the record. If that fails, for example because the disk is full, the next change writes it."""
        self.record = replace(self.record, advanced_s=time.monotonic(), **fields)
        try:
            records.write(self._run_dir, self.record)
        except MillraceError as error:
            if not self._waits:
                LOG.warning("The driver's record cannot be written yet; the stream continues: %s", error)
            self._waits = True
        else:
            self._waits, self._written_s = False, time.monotonic()
