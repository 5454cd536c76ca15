"""Exact number of rows that wait in a Delta source table, from its log.

Spark's Delta source reports no backlog. Its offset is a position in the table's log: (version, index) is the last file
read of a commit, whose files are numbered from 0 (:mod:`millrace.lake.source_commits`). If ``isStartingVersion`` is
set, index counts the files of the version's whole snapshot, ordered by modification time and path
(``DeltaSourceSnapshot``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake.exceptions import DeltaError

from millrace.lake.location import ESCAPE, Location, environment_of
from millrace.lake.log import NOTHING, DeltaLog
from millrace.lake.object_stores import store_of, uri_of_spark
from millrace.lake.source_commits import Count, Counts, DeltaRead, commit_files

EVERY_ADDED_FILE = DeltaRead()


@dataclass(frozen=True)
class DeltaOffset:
    """A position of Spark's Delta source.

    Attributes:
        version: Version of the table, >= 0.
        index: Last file read of that version; below 0 if none was read.
        snapshot: True if ``index`` counts the files of the version's snapshot, not of its commit.
    """

    version: int
    index: int
    snapshot: bool

    @classmethod
    def from_plain(cls, offset: dict[str, Any]) -> DeltaOffset:
        """Return the offset in a progress event.

        Raises:
            KeyError: If it is not an offset of a Delta source.
        """
        return cls(int(offset["reservoirVersion"]), int(offset["index"]), bool(offset["isStartingVersion"]))


class DeltaSource:
    """Counts the rows of one source table that a query reads, from the table's log; each commit is read once.

    If commits were cleaned from the log before they were read here, counting continues after them, and offsets before
    them are unknown. Files without ``numRecords`` in their statistics make every count that includes them None, until
    :meth:`forget_before` drops them.

    Args:
        table: The table's folder, or its place in a bucket.
        read: How the query reads it.
        since: First version to count.

    Attributes:
        table: Where the table is.
        lost: First and last version of the newest gap: versions cleaned from the log before they were counted.

    Raises:
        FileNotFoundError: If there is no Delta table.
    """

    def __init__(self, table: str | Path | Location, read: DeltaRead = EVERY_ADDED_FILE, since: int = 0) -> None:
        self.table, self._read = Location.of(table), read
        self.lost: tuple[int, int] | None = None
        self._log = DeltaLog(self.table)
        self._versions: list[int] = []  # ascending; _files and _through run parallel
        self._files: list[Counts] = []
        self._through: list[Count] = []  # rows counted up to and including the version
        self._snapshots: dict[int, Counts] = {}
        self._base_version, self._base = since - 1, Count()
        if self._log.newest() == NOTHING:
            raise FileNotFoundError(f"{self._log.location} has no commit")
        self.refresh()

    @property
    def version(self) -> int:
        """Newest version read; if none was read, the version before the first one to count."""
        return self._versions[-1] if self._versions else self._base_version

    @property
    def total_rows(self) -> int | None:
        """Rows counted so far; None if unknown."""
        return self._total().known

    def refresh(self) -> None:
        """Read the commits made since the last call."""
        while True:
            while (files := self._committed(self.version + 1)) is not None:
                total = self._total() + sum(files, Count())
                self._versions.append(self.version + 1)
                self._files.append(files)
                self._through.append(total)
            if self._log.newest() <= self.version or not self._pass_gap():
                return

    def rows_after(self, offset: DeltaOffset) -> int | None:
        """Return the rows that follow an offset, up to :attr:`version`; None if unknown.

        Spark gives the end of the log as the next version with an index below 0.
        """
        if offset.version > self.version:
            return 0 if offset.version == self.version + 1 and offset.index < 0 else None
        through = self._through_version(offset.version)
        if through is None:
            return None
        files = self._snapshot(offset.version) if offset.snapshot else self._commit(offset.version)
        if files is None:
            return None
        rest = sum(files[max(offset.index + 1, 0) :], Count())
        return (self._total() - through + rest).known

    def forget_before(self, version: int) -> None:
        """Drop what only offsets before ``version`` need, so a driver that runs for months stays small."""
        keep = bisect_left(self._versions, version)
        if keep > 0:
            self._base_version, self._base = self._versions[keep - 1], Count(self._through[keep - 1].rows)
            unknown = Count(0, self._through[keep - 1].unknown)
            del self._versions[:keep], self._files[:keep], self._through[:keep]
            self._through = [through - unknown for through in self._through]
        for old in [v for v in self._snapshots if v < version]:
            del self._snapshots[old]

    def _pass_gap(self) -> bool:
        """Skip commits that were cleaned from the log; return whether there are commits to continue with."""
        there = sorted(v for v in self._log.versions()[0] if v > self.version)
        if not there or there[0] == self.version + 1:
            return bool(there)
        first = there[-1]
        for version in reversed(there):  # while the log is cleaned, an entry may outlive its neighbours
            if version < first - 1:
                break
            first = version
        self.lost = self.version + 1, first - 1
        self._base_version, self._base = first - 1, Count(self._total().rows)
        del self._versions[:], self._files[:], self._through[:]
        return True

    def _total(self) -> Count:
        return self._through[-1] if self._through else self._base

    def _at(self, version: int) -> int | None:
        """Return the index of a version among those that were read; None if it is not there."""
        at = bisect_left(self._versions, version)
        return at if at < len(self._versions) and self._versions[at] == version else None

    def _through_version(self, version: int) -> Count | None:
        if version == self._base_version:
            return self._base
        at = self._at(version)
        return None if at is None else self._through[at]

    def _commit(self, version: int) -> Counts | None:
        at = self._at(version)
        return self._committed(version) if at is None else self._files[at]

    def _committed(self, version: int) -> Counts | None:
        try:
            return commit_files(self._log.text(version), self.table, self._read)
        except FileNotFoundError:
            return None

    def _snapshot(self, version: int) -> Counts | None:
        if self.table.folder is not None and ESCAPE.search(self.table.uri):
            return None  # deltalake would open another folder
        if version not in self._snapshots:
            try:
                self._snapshots[version] = _snapshot_files(self.table, version, self._read)
            except (OSError, DeltaError):
                return None
        return self._snapshots[version]


def location_of(uri: str, environment: Mapping[str, str]) -> Location | None:
    """Return the location of ``file:/x``, ``file:///x``, ``/x`` or a bucket; None for other file systems.

    Args:
        uri: A path as Hadoop writes it.
        environment: Variables with the options of buckets. A lake's own options are for the lake only.

    Raises:
        MillraceError: If the environment lacks what a bucket needs.
    """
    if uri.startswith("file:"):
        return Location("/" + uri.removeprefix("file:").lstrip("/"))
    if uri.startswith("/"):
        return Location(uri)
    uri = uri_of_spark(uri).rstrip("/")
    store = store_of(uri)
    if store is None:
        return None
    options = environment_of(environment, store)
    store.check(uri, options)
    return Location(uri, options)


def _snapshot_files(table: Location, version: int, read: DeltaRead) -> Counts:
    adds = pa.table(table.table(version).get_add_actions(flatten=True)).to_pylist()
    ordered = sorted(adds, key=lambda a: (a["modification_time"], unquote(a["path"])))
    return read.counted((a["path"], a.get("num_records")) for a in ordered)
