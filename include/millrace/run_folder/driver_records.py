"""A driver's record of itself: one small JSON file per generation, replaced atomically."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from millrace.atomic_file import read_if_there, write_atomically
from millrace.model.codec import from_json, to_json
from millrace.model.errors import MillraceError
from millrace.model.query_failure import QueryFailure

KEPT_GENERATIONS = 20
PENDING_S = 600.0
"""Longest time that executors which are pending are waited for, seconds; they may still come."""
KEPT_FAILURES = 20
"""Failed queries that a record names, the newest: a script may keep starting queries with new names."""


class DriverState(StrEnum):
    """Stage of a driver's life."""

    STARTING = "starting"
    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    COMPLETED = "completed"
    FAILED = "failed"


ENDED = frozenset({DriverState.STOPPED, DriverState.COMPLETED, DriverState.FAILED})
SERVING = frozenset({DriverState.RUNNING, DriverState.STOPPING})


@dataclass(frozen=True)
class QueryCheckpoint:
    """Where a query keeps its progress and its state.

    Attributes:
        query: Its name, or its id if it has no name.
        folder: Address of its checkpoint.
        partitions: Partitions of its state; 0 for a query that keeps none.
        provider: Class of its state store.
        sink: Spark's description of its sink.
    """

    query: str
    folder: str
    partitions: int
    provider: str
    sink: str


@dataclass(frozen=True)
class DriverRecord:
    """One generation of one app.

    Attributes:
        pipeline: Name of the pipeline.
        app: Name of the app.
        generation: Start number, >= 1.
        version: The Deployment version it runs: that of its start, or a later one that only changed its executors.
        slots: Its cores, or those of its executors.
        pid: Process id of the *Python* driver: a signal to the JVM, its parent, would cut a batch.
        process_started: The process's start, seconds since 1970.
        state: Its life-cycle state; ``completed`` means that the script ended without being asked.
        since: When it entered this state (UTC).
        ready_at: When it was ready: end of its first committed batch, or its first idle trigger (UTC).
        last_commit_at: End of its last committed batch (UTC).
        served_until: End of its service, known once it has ended: its last commit, or the time of the stop if it was
            idle then (UTC).
        error: Why it failed, in one line; None otherwise.
        boot_id: Id of the boot in which the process runs; None without a process, as of a driver that did not start.
        start_ticks: The process's start in clock ticks since that boot; None without a process.
        resize_ended: When it reached its current executors (UTC); None before their first change.
        advanced_s: Time of its last progress, seconds of the boot's monotonic clock, which cannot be set.
        checkpoints: Those of its queries; empty until each of them has run a batch.
        failed_queries: Queries that failed and were not started again, oldest first.
        awaits: Why executors that it requested are missing, as a sentence; empty if none is, or if that is not known.
    """

    pipeline: str
    app: str
    generation: int
    version: int
    slots: int
    pid: int
    process_started: float
    state: DriverState
    since: datetime
    ready_at: datetime | None = None
    last_commit_at: datetime | None = None
    served_until: datetime | None = None
    error: str | None = None
    boot_id: str | None = None
    start_ticks: int | None = None
    advanced_s: float | None = None
    resize_ended: datetime | None = None
    checkpoints: tuple[QueryCheckpoint, ...] = ()
    failed_queries: tuple[QueryFailure, ...] = ()
    awaits: str = ""


def app_dir(run_dir: Path, pipeline: str, app: str) -> Path:
    """Return the folder of an app's records, lock and generations."""
    return run_dir / pipeline / app


def write(run_dir: Path, record: DriverRecord) -> None:
    """Replace a driver's record atomically.

    Raises:
        MillraceError: If the folder cannot be written.
    """
    folder = app_dir(run_dir, record.pipeline, record.app)
    write_atomically(folder / _name(record.generation), to_json(record), key="run folder", sync_folder=True)


def read(run_dir: Path, pipeline: str, app: str, generation: int) -> DriverRecord | None:
    """Return one generation's record; None if it has none or it is damaged.

    Raises:
        MillraceError: If it cannot be read, which says nothing about its driver.
    """
    return _load(app_dir(run_dir, pipeline, app) / _name(generation))


def all_of(run_dir: Path, pipeline: str, app: str, *, strict: bool = False) -> tuple[DriverRecord, ...]:
    """Return an app's records, newest generation first, without damaged ones.

    Args:
        run_dir: Folder of records.
        pipeline: Name of the pipeline.
        app: Name of the app.
        strict: Whether each record must be readable; otherwise unreadable ones are left out.

    Raises:
        MillraceError: If ``strict``, and one of them cannot be read.
    """
    return tuple(_newest_first(run_dir, pipeline, app, strict=strict))


def newest(run_dir: Path, pipeline: str, app: str) -> DriverRecord | None:
    """Return an app's newest readable record without reading older ones; None if there is none."""
    return next(_newest_first(run_dir, pipeline, app), None)


def _newest_first(run_dir: Path, pipeline: str, app: str, *, strict: bool = False) -> Iterator[DriverRecord]:
    files = app_dir(run_dir, pipeline, app).glob("generation-*.json")
    for file in sorted(files, key=_number, reverse=True):
        try:
            record = _load(file)
        except MillraceError:
            if strict:
                raise
            continue
        if record is not None:
            yield record


def query_failures(run_dir: Path, pipeline: str, apps: Iterable[str]) -> tuple[QueryFailure, ...]:
    """Return the queries that failed while the drivers that serve a pipeline continued."""
    of_apps = (all_of(run_dir, pipeline, app) for app in sorted(apps))
    serving = (next((r for r in records if r.state in SERVING), None) for records in of_apps)
    return tuple(failure for record in serving if record is not None for failure in record.failed_queries)


def prune(run_dir: Path, pipeline: str, app: str) -> None:
    """Delete an app's records except the newest few."""
    for record in all_of(run_dir, pipeline, app)[KEPT_GENERATIONS:]:
        (app_dir(run_dir, pipeline, app) / _name(record.generation)).unlink(missing_ok=True)


def _name(generation: int) -> str:
    return f"generation-{generation}.json"


def _number(path: Path) -> int:
    text = path.stem.rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def _load(path: Path) -> DriverRecord | None:
    text = read_if_there(path, key="run folder")
    if text is not None:
        with contextlib.suppress(ValueError):
            return from_json(DriverRecord, text)
    return None
