"""Keep tables small and quick to open: compact each hour, vacuum and checkpoint each night; writers go on meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from include.lake.repartition import repartition
from include.lake.store import Lake
from include.lake.table_errors import unwritable
from include.model.errors import Conflict

MANY_FILES = 32
"""Files of a pipeline's present day (or of a table without days) before compacting them is worth the rewriting."""

RETENTION_HOURS = 24
"""Age a file that no version needs must have: no reader and no writer takes a day."""


@dataclass(frozen=True)
class Upkeep:
    """What was done to one table.

    Attributes:
        files_before: Files of the newest version before.
        files_after: Files of the newest version after.
        deleted: Files removed from the folder.
        version: The newest version, which has a checkpoint.
    """

    files_before: int
    files_after: int
    deleted: int
    version: int


def maintain(lake: Lake, table: str, today: date) -> Upkeep:
    """Compact as :func:`compact` does; vacuum, checkpoint and shorten the log.

    A table that was written under other partitions is moved over to those of its schema first.

    Args:
        lake: The lake.
        table: Name of an existing table.
        today: The present day (UTC).

    Raises:
        Conflict: If somebody else compacted the same files at the same moment.
        MillraceError: If the table cannot be read or written.
    """
    with _named(lake, table):
        repartition(lake, table)
        handle = DeltaTable(str(lake.path(table)))
        before = len(handle.file_uris())
        _compact(handle, today)
        # also what a killed writer left behind, which no version ever named
        deleted = handle.vacuum(RETENTION_HOURS, dry_run=False, full=True)
        handle.create_checkpoint()
        handle.cleanup_metadata()
        handle.update_incremental()
        return Upkeep(before, len(handle.file_uris()), len(deleted), handle.version())


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
        handle = DeltaTable(str(lake.path(table)))
        before, version = len(handle.file_uris()), handle.version()
        _compact(handle, today)
        if handle.version() > version:
            handle.create_checkpoint()  # who opens the table next need not read of the files that are gone
        return before - len(handle.file_uris())


@contextmanager
def _named(lake: Lake, table: str) -> Iterator[None]:
    path = lake.path(table)
    try:
        yield
    except CommitFailedError as error:
        raise Conflict(f"{table}: {error}") from error
    except (OSError, DeltaError) as error:
        raise unwritable(path, error) from error


def _compact(handle: DeltaTable, today: date) -> None:
    columns = handle.metadata().partition_columns
    if "date" not in columns:
        if len(handle.file_uris()) > MANY_FILES:
            handle.optimize.compact()
        return
    parts = zip(*(handle.get_add_actions(flatten=True)[f"partition.{c}"].to_pylist() for c in columns), strict=True)
    for part, files in sorted(Counter(tuple(map(str, part)) for part in parts).items()):
        day = dict(zip(columns, part, strict=True))["date"]
        if files > (MANY_FILES if day >= today.isoformat() else 1):
            handle.optimize.compact(partition_filters=[(c, "=", v) for c, v in zip(columns, part, strict=True)])
