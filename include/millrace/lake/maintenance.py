"""Keep tables small and quick to open: compact each hour, expire, vacuum and checkpoint each night; writers go on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from millrace.lake.migration import migrate
from millrace.lake.repartition import repartition
from millrace.lake.retention import expire
from millrace.lake.store import PROPERTIES, Lake
from millrace.lake.table_errors import unwritable
from millrace.model.errors import Conflict

MANY_FILES = 32
"""Files of a pipeline's present day (or of a table without days) before compacting them is worth the rewriting."""

RETENTION_HOURS = 24
"""Age of the files that are deleted; what a version of the last two hours needed stays (``table_schema.LOG_HOURS``)."""

NOTE = "_maintenance.json"
"""Readers and the vacuum pass over names that begin so."""


@dataclass(frozen=True)
class Upkeep:
    """What was done to one table.

    Attributes:
        expired: Rows that were deleted, as they had been kept long enough.
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
    """Delete what has been kept long enough, compact as :func:`compact` does; vacuum, checkpoint and shorten the log.

    A table of an earlier version gets the partitions, columns and properties of its schema first. What was done is
    noted in the table's folder (:func:`last_upkeep`).

    Args:
        lake: The lake.
        table: Name of an existing table.
        today: The present day (UTC).
        keep_days: Days that rows are kept, >= 1; None for good.

    Raises:
        Conflict: If somebody else compacted the same files at the same moment.
        MillraceError: If the table cannot be read or written.
    """
    with _named(lake, table):
        repartition(lake, table)
        migrate(lake, table)
        handle = lake.at(table).table()
        before = len(handle.file_uris())
        expired = expire(lake, table, today - timedelta(days=keep_days)) if keep_days else 0
        handle.update_incremental()
        _compact(handle, today)
        # also what a killed writer left behind, which no version ever named
        deleted = handle.vacuum(RETENTION_HOURS, dry_run=False, full=True)
        handle.create_checkpoint()
        handle.cleanup_metadata()
        handle.update_incremental()
        done = Upkeep(expired, before, len(handle.file_uris()), len(deleted), handle.version())
        with lake.at(table).files.open_output_stream(NOTE) as note:
            note.write(json.dumps(asdict(done)).encode())
        return done


def last_upkeep(lake: Lake, table: str) -> tuple[datetime, Upkeep] | None:
    """Return when :func:`maintain` ended last (UTC) and what it did; None if it never came to its end."""
    location = lake.at(table)
    with suppress(OSError, ValueError, TypeError):
        return location.files.get_file_info(NOTE).mtime, Upkeep(**json.loads(location.read(NOTE)))
    return None


def compact(lake: Lake, table: str, today: date) -> int:
    """Compact past days, and the present one where it has many files; return how many files fewer there are.

    What writers append meanwhile stays as it is. The files that are compacted stay in the folder: readers that came to
    know them before go on.

    Args:
        lake: The lake.
        table: Name of an existing table.
        today: The present day (UTC).

    Raises:
        Conflict: If somebody else compacted the same files at the same moment; the next hour will do.
        MillraceError: If the table cannot be read or written.
    """
    with _named(lake, table):
        handle = lake.at(table).table()
        before, version = len(handle.file_uris()), handle.version()
        _compact(handle, today)
        if handle.version() > version:
            handle.create_checkpoint()  # who opens the table next need not read of the files that are gone
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
