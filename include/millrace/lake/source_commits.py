"""Rows of each file of a Delta table's commit that a streaming query reads, given the query's options.

The files are in the order in which Spark's source numbers them (Delta 4.4, ``DeltaSource`` and
``DeltaSourceCDCSupport``). Files that are numbered but not read count 0 rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from millrace.lake.location import Location

MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
"""Metrics of a MERGE. If all are 0, the change feed leaves out the files of its commit."""


@dataclass(frozen=True)
class Count:
    """A number of rows, and how many files of unknown rows it includes."""

    rows: int = 0
    unknown: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.rows + other.rows, self.unknown + other.unknown)

    def __sub__(self, other: Count) -> Count:
        return Count(self.rows - other.rows, self.unknown - other.unknown)

    @property
    def known(self) -> int | None:
        """The rows; None if a file's rows are unknown."""
        return self.rows if self.unknown == 0 else None


Counts = tuple[Count, ...]


@dataclass(frozen=True)
class DeltaRead:
    """How a query reads a Delta table.

    Without options, and with ``ignoreChanges`` or ``ignoreDeletes``, Spark reads every file that a commit adds, whole.

    Attributes:
        skip_changes: ``skipChangeCommits``: commits that remove rows are not read.
        change_feed: ``readChangeFeed``: rows of change files are read; if there are none, all added and removed rows.
        exclude: ``excludeRegex``, or None.
        excludes: Returns whether ``exclude`` leaves out a path, by Java's rules.
        start: ``startingVersion`` and ``startingTimestamp`` as Spark's text.
        first_version: Returns the version of ``startingVersion`` or ``startingTimestamp``; None without either.
    """

    skip_changes: bool = False
    change_feed: bool = False
    exclude: str | None = None
    excludes: Callable[[str], bool] = field(default=lambda path: False, compare=False)
    start: str = ""
    first_version: Callable[[], int | None] = field(default=lambda: None, compare=False)

    def counted(self, files: Iterable[tuple[str, int | None]]) -> Counts:
        """Return the rows to read of each file.

        Args:
            files: Path as in the log, and rows; None if unknown.
        """
        each = (0 if self.exclude is not None and self.excludes(path) else rows for path, rows in files)
        return tuple(Count(0, 1) if rows is None else Count(int(rows)) for rows in each)


def commit_files(entry: bytes, table: Location, read: DeltaRead) -> Counts:
    """Return the rows to read of each file of a commit, in the order in which Spark numbers the files.

    Args:
        entry: The commit as in the log.
        table: Where the table is.
        read: How the query reads the table.
    """
    actions = [json.loads(line) for line in entry.splitlines() if line]
    if read.change_feed:
        return read.counted(_changes(actions, table))
    changes = [kind for action in actions for kind, a in action.items() if kind == "remove" and _changes_data(a)]
    if changes and read.skip_changes:
        return ()
    return read.counted((add["path"], _logged_rows(add)) for kind, add in _data(actions) if kind == "add")


def _changes(actions: Iterable[Mapping[str, Any]], table: Location) -> list[tuple[str, int | None]]:
    """Return the path and rows of each file of the change feed."""
    feed = [action["cdc"] for action in actions if "cdc" in action]
    if feed:
        return [(change["path"], _rows(change, table)) for change in feed]
    data = list(_data(actions))
    if any(_changed_nothing(action["commitInfo"]) for action in actions if "commitInfo" in action):
        return [(file["path"], 0) for _, file in data]
    added = {file["path"]: bool(file.get("deletionVector")) for kind, file in data if kind == "add"}

    def read_as_added(kind: str, file: Mapping[str, Any]) -> bool:
        # a file that is removed and added has a new deletion vector: with two vectors, Spark reads both differences
        path = file["path"]
        return kind == "remove" and path in added and not (added[path] and file.get("deletionVector"))

    return [(file["path"], 0 if read_as_added(kind, file) else _rows(file, table)) for kind, file in data]


def _data(actions: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for action in actions:
        for kind in ("add", "remove"):
            if kind in action and _changes_data(action[kind]):
                yield kind, action[kind]


def _changes_data(action: Mapping[str, Any]) -> bool:
    return bool(action.get("dataChange", True))


def _changed_nothing(info: Mapping[str, Any]) -> bool:
    metrics = info.get("operationMetrics") or {}
    return info.get("operation") == "MERGE" and all(str(metrics.get(name)) == "0" for name in MERGED)


def _rows(action: Mapping[str, Any], table: Location) -> int | None:
    """Return a file's rows from the log, or else from the file: change files have no statistics."""
    rows = _logged_rows(action)
    if rows is not None:
        return rows
    try:
        with table.files.open(unquote(action["path"])) as file:  # only its end is read
            return int(pq.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException):  # vacuumed
        return None


def _logged_rows(action: Mapping[str, Any]) -> int | None:
    try:
        rows = json.loads(action.get("stats") or "{}").get("numRecords")
    except (ValueError, AttributeError):
        return None
    return None if rows is None else int(rows)
