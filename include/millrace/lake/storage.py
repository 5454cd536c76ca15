"""How much each table contains, from its log and its folder: no data file is opened."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from millrace.lake.location import Location
from millrace.lake.maintenance import Upkeep, last_upkeep
from millrace.lake.store import Lake
from millrace.lake.table_errors import unreadable


@dataclass(frozen=True)
class TableStorage:
    """What a table contains.

    Attributes:
        rows: Rows of the newest version.
        files: Its data files.
        bytes: Their size.
        disk_bytes: Size of the whole folder, including the log and files of former versions that wait for the vacuum.
        oldest: Day of its oldest row (UTC); None if it has no rows or the log does not show it.
        log_entries: Entries of the log in the folder.
        maintained: When maintenance last finished (UTC); None if it never did.
        upkeep: Its result.
    """

    rows: int
    files: int
    bytes: int
    disk_bytes: int
    oldest: date | None
    log_entries: int
    maintained: datetime | None
    upkeep: Upkeep | None


def table_storage(lake: Lake, table: str) -> TableStorage:
    """Return what an existing table contains.

    Raises:
        MillraceError: If its log cannot be read.
    """
    location, upkeep = lake.at(table), last_upkeep(lake, table)
    try:
        files: dict[str, list[Any]] = pa.table(location.table().get_add_actions(flatten=True)).to_pydict()
    except (OSError, DeltaError) as error:
        raise unreadable(location, error, table) from error
    days = [_day(value) for value in files.get("partition.date") or files.get("min.time") or () if value is not None]
    return TableStorage(
        rows=sum(rows or 0 for rows in files["num_records"]),
        files=len(files["path"]),
        bytes=sum(files["size_bytes"]),
        disk_bytes=_stored_bytes(location),
        oldest=min(days, default=None),
        log_entries=len(lake.log(table).versions()[0]),
        maintained=None if upkeep is None else upkeep[0],
        upkeep=None if upkeep is None else upkeep[1],
    )


def _stored_bytes(location: Location) -> int:
    if location.folder is not None:
        return folder_bytes(location.folder)
    return sum(entry.size for entry in location.files.list(recursive=True))


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder; 0 if it does not exist. Files that disappear do not count."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(parent, name).lstat().st_size
    return size


def _day(value: date | datetime) -> date:
    if not isinstance(value, datetime):
        return value
    return (value.astimezone(UTC) if value.tzinfo else value).date()
