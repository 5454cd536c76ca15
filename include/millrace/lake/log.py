"""A Delta table's log, one commit at a time: the newest version, and what each commit added and removed.

Opening a table through ``deltalake`` loads the names and statistics of all its files. This module opens only the
entries that are needed, so reading the last half hour costs the same however long the table has grown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millrace.lake.location import Location
from millrace.lake.table_errors import unreadable

NOTHING = -1
"""Version of a table that does not exist."""
MOST_KEPT = 50_000
"""Entries kept in memory: one evaluation reads the last half hour several times."""
_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\..*)")
Stamp = tuple[float, int]
"""When an entry was written, and its size: the entry of the same version of another table has others."""


@dataclass(frozen=True)
class AddedFile:
    """A data file that a commit added.

    Attributes:
        path: Relative to the table's folder.
        partition: Values of its partition columns as text; null for a missing value.
        stats: The writer's statistics of its columns, as JSON.
    """

    path: str
    partition: Mapping[str, str | None]
    stats: str = "{}"

    @cached_property
    def least(self) -> Mapping[str, Any]:
        """Least value of each column that the statistics contain."""
        return self._statistics.get("minValues") or {}

    @cached_property
    def greatest(self) -> Mapping[str, Any]:
        """Greatest value of each column that the statistics contain."""
        return self._statistics.get("maxValues") or {}

    @property
    def rows(self) -> int | None:
        """Number of rows; None if the statistics do not contain it."""
        rows = self._statistics.get("numRecords")
        return None if rows is None else int(rows)

    @cached_property
    def _statistics(self) -> Mapping[str, Any]:
        try:
            statistics = json.loads(self.stats)
        except ValueError:
            return {}
        return statistics if isinstance(statistics, dict) else {}

    def may_hold(self, pipeline: str) -> bool:
        """Return whether it may contain rows of a pipeline."""
        if "pipeline" in self.partition:
            return self.partition["pipeline"] == pipeline
        return self.may_have("pipeline", pipeline)

    def may_have(self, column: str, text: str) -> bool:
        """Return whether a text column may contain a value."""
        least, greatest = self.least.get(column), self.greatest.get(column)
        if not isinstance(least, str) or not isinstance(greatest, str):
            return True
        return least <= text <= greatest

    def has_only(self, column: str, text: str) -> bool:
        """Return whether the statistics show that a text column has the same value in all rows."""
        if column in self.partition:
            return self.partition[column] == text
        nulls = (self._statistics.get("nullCount") or {}).get(column, 1)
        return self.least.get(column) == text == self.greatest.get(column) and not nulls

    @cached_property
    def newest_time(self) -> datetime | None:
        """Time of its newest row, accurate to a millisecond; None if the statistics do not contain it."""
        greatest = self.greatest.get("time")
        try:
            time = datetime.fromisoformat(greatest) if isinstance(greatest, str) else None
        except ValueError:
            return None
        if time is None:
            return None
        return time if time.tzinfo else time.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Commit:
    """One entry of the log.

    Attributes:
        version: Its version.
        time: When it was made (UTC); None if the entry does not say.
        added: Files with rows that are new to the table, in the order of the entry.
        removed: Paths of files whose rows it deleted.
        rewritten: Paths of files whose rows are in other files now: they may be gone from the folder.
        transactions: Ids of its application transactions.
        moved: Files with rows that were in other files before, such as those of ``rewritten``.
    """

    version: int
    time: datetime | None
    added: tuple[AddedFile, ...] = ()
    removed: frozenset[str] = frozenset()
    rewritten: frozenset[str] = frozenset()
    transactions: frozenset[str] = frozenset()
    moved: tuple[AddedFile, ...] = ()


class DeltaLog:
    """Reads the log of one table.

    Args:
        table: Location of the table; it need not exist.

    Attributes:
        location: Location of the log.
        restarts: How often :meth:`newest` no longer found the entry that was the newest before: the table was
            recreated, or the log was cleaned. Results that were read by version before are out of date.
    """

    def __init__(self, table: str | Path | Location) -> None:
        self.location = Location.of(table) / "_delta_log"
        self.restarts = 0
        self._newest = NOTHING
        self._stamp: Stamp | None = None
        self._commits: dict[int, Commit] = {}

    def has(self, version: int) -> bool:
        """Return whether the log has an entry.

        Raises:
            OSError: If that cannot be determined.
        """
        return self.stamp(version) is not None

    def stamp(self, version: int) -> Stamp | None:
        """Return what distinguishes an entry from that of another table; None if the log has no such entry.

        Raises:
            OSError: If that cannot be determined.
        """
        try:
            if self.location.folder is not None:
                found = os.stat(f"{self.location.uri}/{_name(version)}")  # noqa: PTH116 - see Location.read
                return found.st_mtime_ns, found.st_size
            entry = self.location.files.entry(_name(version))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return 0.0 if entry.changed is None else entry.changed.timestamp(), entry.size

    def text(self, version: int) -> bytes:
        """Return the text of an entry.

        Raises:
            OSError: If it does not exist or cannot be read.
        """
        return self.location.read(_name(version))

    def newest(self) -> int:
        """Return the newest version; -1 without a table. The folder is listed only if nothing else leads to it.

        Raises:
            MillraceError: If it cannot be read.
        """
        try:
            version, stamp = self._known()
            if stamp is not None:
                version, stamp = self._last_from(version, stamp)
            elif (version := max(chain(*self.versions()), default=NOTHING)) >= 0:
                stamp = self.stamp(version)
        except OSError as error:
            raise unreadable(self.location, error) from error
        self._newest, self._stamp = version, stamp
        return version

    def commit(self, version: int) -> Commit | None:
        """Return an entry of the log; None if it was cleaned before it was read.

        An entry that was read stays the same until :meth:`newest` finds another table in its place.

        Raises:
            MillraceError: If it cannot be read.
        """
        known = self._commits.get(version)
        if known is not None:
            return known
        try:
            commit = _commit(version, self.text(version))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise unreadable(self.location / _name(version), error) from error
        if len(self._commits) >= MOST_KEPT:
            self._commits.clear()
        self._commits[version] = commit
        return commit

    def versions(self) -> tuple[list[int], list[int]]:
        """Return the versions that have an entry in the folder, and those with a checkpoint; empty without a table.

        Raises:
            MillraceError: If the folder cannot be read.
        """
        try:
            names = [match for name in self._names() if (match := _VERSION.fullmatch(name))]
        except OSError as error:
            raise unreadable(self.location, error) from error
        entries = [int(name[1]) for name in names if name[2] == "json"]
        return entries, [int(name[1]) for name in names if name[2] != "json"]

    def table_id(self) -> str | None:
        """Return the table's id, which changes only if the table is recreated; None without a table.

        Raises:
            MillraceError: If the log cannot be read.
        """
        try:
            if self.has(0):
                actions = (json.loads(line) for line in self.text(0).splitlines() if line)
                return next((str(action["metaData"]["id"]) for action in actions if "metaData" in action), None)
            return self._id_in_checkpoint()
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise unreadable(self.location / _name(0), error) from error

    def _id_in_checkpoint(self) -> str | None:
        for name in self._checkpoints():
            content = pa.BufferReader(self.location.read(name))
            column = pq.ParquetFile(content).read(columns=["metaData.id"])["metaData"].combine_chunks()
            ids = pc.struct_field(column.drop_null(), "id").drop_null()
            if len(ids):
                return str(ids[0].as_py())
        return None

    def _checkpoints(self) -> Iterator[str]:
        """Yield checkpoint files, newest first; the folder is listed only if the last checkpoint is not enough."""
        last = f"{self._checkpoint():020d}.checkpoint.parquet"
        if self.location.exists(last):
            yield last
        yield from sorted((name for name in self._names() if ".checkpoint" in name), reverse=True)

    def _names(self) -> list[str]:
        return [entry.name for entry in self.location.files.list()]

    def _known(self) -> tuple[int, Stamp | None]:
        """Return a version with an entry from which to search for the newest one; without a stamp if none is known."""
        if self._newest >= 0:
            stamp = self.stamp(self._newest)
            if stamp != self._stamp:
                self._commits.clear()
                self.restarts += 1
            if stamp is not None:
                return self._newest, stamp
        for version in (self._checkpoint(), 0):
            stamp = self.stamp(version) if version >= 0 else None
            if stamp is not None:
                return version, stamp
        return NOTHING, None

    def _checkpoint(self) -> int:
        try:
            return int(json.loads(self.location.read("_last_checkpoint"))["version"])
        except (OSError, ValueError, KeyError, TypeError):
            return NOTHING

    def _last_from(self, version: int, stamp: Stamp) -> tuple[int, Stamp]:
        """Return the last existing version and its stamp, searching from an existing one: entries have no gaps."""
        step = 1
        while (found := self.stamp(version + step)) is not None:
            version, stamp, step = version + step, found, 2 * step
        while step > 1:
            step //= 2
            if (found := self.stamp(version + step)) is not None:
                version, stamp = version + step, found
        return version, stamp


def _name(version: int) -> str:
    return f"{version:020d}.json"


def _commit(version: int, text: bytes) -> Commit:
    actions = [json.loads(line) for line in text.splitlines() if line]

    def of(kind: str) -> list[Any]:
        return [action[kind] for action in actions if kind in action]

    stamp = next((info["timestamp"] for info in of("commitInfo") if "timestamp" in info), None)
    gone = {unquote(r["path"]): r.get("dataChange", True) for r in of("remove")}
    return Commit(
        version,
        None if stamp is None else datetime.fromtimestamp(int(stamp) / 1000, UTC),
        tuple(_added(add) for add in of("add") if add.get("dataChange", True)),
        frozenset(path for path, changed in gone.items() if changed),
        frozenset(path for path, changed in gone.items() if not changed),
        frozenset(txn["appId"] for txn in of("txn")),
        tuple(_added(add) for add in of("add") if not add.get("dataChange", True)),
    )


def _added(add: Mapping[str, Any]) -> AddedFile:
    return AddedFile(unquote(add["path"]), add.get("partitionValues") or {}, add.get("stats") or "{}")
