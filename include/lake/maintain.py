"""Keep tables small and quick to open: compact, vacuum, checkpoint. Writers go on meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from include.contracts.errors import Conflict, MillraceError
from include.lake.schemas import TABLES
from include.lake.store import Lake

MANY_FILES = 32
"""Files of the present day (or of a table without days) before compacting them is worth the rewriting."""

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
    """Compact past days, and the present one where it has many files; vacuum, checkpoint and shorten the log.

    Args:
        lake: The lake.
        table: Name of an existing table.
        today: The present day (UTC).

    Raises:
        Conflict: If somebody else compacted the same files at the same moment.
        MillraceError: If the table cannot be read or written.
    """
    path = lake.path(table)
    try:
        handle = DeltaTable(str(path))
        before = len(handle.file_uris())
        _compact(handle, today, by_day=TABLES[table].growing)
        # also what a killed writer left behind, which no version ever named
        deleted = handle.vacuum(RETENTION_HOURS, dry_run=False, full=True)
        handle.create_checkpoint()
        handle.cleanup_metadata()
        handle.update_incremental()
        return Upkeep(before, len(handle.file_uris()), len(deleted), handle.version())
    except CommitFailedError as error:
        raise Conflict(f"{table}: {error}") from error
    except (OSError, DeltaError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]
        remedy = f"Free space, or check the folder and its _delta_log ({reason})."
        raise MillraceError("lake", str(path), "a readable and writable Delta table", remedy) from error


def _compact(handle: DeltaTable, today: date, *, by_day: bool) -> None:
    if not by_day:
        if len(handle.file_uris()) > MANY_FILES:
            handle.optimize.compact()
        return
    actions = handle.get_add_actions(flatten=True)
    for day, files in sorted(Counter(map(str, actions["partition.date"].to_pylist())).items()):
        if files > (MANY_FILES if day >= today.isoformat() else 1):
            handle.optimize.compact(partition_filters=[("date", "=", day)])
