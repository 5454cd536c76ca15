"""Keeps tables small and quick to open: compacts hourly; expires, vacuums and checkpoints nightly. Writers continue."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from millrace.lake.commits import PROPERTIES
from millrace.lake.migration import migrate
from millrace.lake.retention import expire
from millrace.lake.store import Lake
from millrace.lake.table_errors import unwritable
from millrace.model.errors import Conflict

MANY_FILES = 32
"""Files of a pipeline's present day (or of a table without days) above which compacting is worth the rewriting."""

RETENTION_HOURS = 24
"""Age at which files are deleted. Files that versions of the last two hours need stay (``table_schema.LOG_HOURS``)."""

NOTE = "_maintenance.json"
"""Readers and the vacuum skip names that start with ``_``."""


@dataclass(frozen=True)
class Upkeep:
    """What maintenance did to one table.

    Attributes:
        expired: Rows deleted because they had been kept long enough.
        files_before: Files of the newest version before.
        files_after: Files of the newest version after.
        deleted: Files removed from the folder: no version of the last hours needs them.
        version: The newest version, which has a checkpoint.
    """

    expired: int
    files_before: int
    files_after: int
    deleted: int
    version: int


def maintain(lake: Lake, table: str, today: date, keep_days: int | None = None) -> Upkeep:
    """Delete expired rows, compact as :func:`compact` does, vacuum, checkpoint and shorten the log.

    A table of an earlier version first gets the columns and properties of its schema. A note in the table's folder
    records the result (:func:`last_upkeep`).

    Args:
        lake: The lake.
        table: Name of an existing table.
        today: Current day (UTC).
        keep_days: Days to keep rows, >= 1; None keeps them permanently.

    Raises:
        Conflict: If another process compacted the same files at the same moment.
        MillraceError: If the table cannot be read or written.
    """
    with _named(lake, table):
        migrate(lake, table)
        handle = lake.at(table).table()
        before = len(handle.file_uris())
        expired = expire(lake, table, today - timedelta(days=keep_days)) if keep_days else 0
        handle.update_incremental()
        _compact(handle, today)
        # also files that a killed writer left behind, which no version ever named
        deleted = handle.vacuum(RETENTION_HOURS, dry_run=False, full=True)
        handle.create_checkpoint()
        handle.cleanup_metadata()
        handle.update_incremental()
        done = Upkeep(expired, before, len(handle.file_uris()), len(deleted), handle.version())
        lake.at(table).files.write(NOTE, json.dumps(asdict(done)).encode())
        return done


def last_upkeep(lake: Lake, table: str) -> tuple[datetime, Upkeep] | None:
    """Return when :func:`maintain` last finished (UTC) and what it did; None if it never finished."""
    files = lake.at(table).files
    with suppress(OSError, ValueError, TypeError):
        changed = files.entry(NOTE).changed
        return None if changed is None else (changed, Upkeep(**json.loads(files.read(NOTE))))
    return None


def compact(lake: Lake, table: str, today: date) -> int:
    """Compact past days, and the present day if it has many files; return by how many files there are fewer.

    Files that writers append in the meantime stay as they are. Compacted files stay in the folder, so readers that
    already know them can continue.

    Args:
        lake: The lake.
        table: Name of an existing table.
        today: Current day (UTC).

    Raises:
        Conflict: If another process compacted the same files at the same moment; the next hour is early enough.
        MillraceError: If the table cannot be read or written.
    """
    with _named(lake, table):
        handle = lake.at(table).table()
        before, version = len(handle.file_uris()), handle.version()
        _compact(handle, today)
        if handle.version() > version:
            handle.create_checkpoint()  # whoever opens the table next need not read about the removed files
        handle.cleanup_metadata()
        return before - len(handle.file_uris())


@contextmanager
def _named(lake: Lake, table: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise Conflict(f"{table}: {error}") from error
    except (OSError, DeltaError) as error:
        raise unwritable(lake.at(table), error) from error


def _compact(handle: DeltaTable, today: date) -> None:
    columns = handle.metadata().partition_columns
    if "date" not in columns:
        if len(handle.file_uris()) > MANY_FILES:
            handle.optimize.compact(commit_properties=PROPERTIES)
        return
    parts = zip(*(handle.get_add_actions(flatten=True)[f"partition.{c}"].to_pylist() for c in columns), strict=True)
    for part, files in sorted(Counter(tuple(map(str, part)) for part in parts).items()):
        day = dict(zip(columns, part, strict=True))["date"]
        if files > (MANY_FILES if day >= today.isoformat() else 1):
            filters = [(c, "=", v) for c, v in zip(columns, part, strict=True)]
            handle.optimize.compact(partition_filters=filters, commit_properties=PROPERTIES)
