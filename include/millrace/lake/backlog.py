"""Rows waiting in a Delta source table, exactly, from its log alone.

Spark's Delta source reports no backlog. An offset of it names a place in the table's log: (version, index) is the
last file read of a commit, the files of a commit counted from 0 in the order of their ``add`` actions with
``dataChange``; where ``isStartingVersion`` is set, index counts the files of the whole snapshot of that version,
ordered by modification time and path (``DeltaSourceSnapshot``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from millrace.lake.log import DeltaLog


@dataclass(frozen=True)
class DeltaOffset:
    """A position of Spark's Delta source.

    Attributes:
        version: Version of the table, >= 0.
        index: Last file read of that version; below 0 for none of them.
        snapshot: True if ``index`` counts the files of the version's snapshot, not of its commit.
    """

    version: int
    index: int
    snapshot: bool

    @classmethod
    def from_plain(cls, offset: dict[str, Any]) -> DeltaOffset:
        """Return the offset that a progress event shows.

        Raises:
            KeyError: If it is no offset of a Delta source.
        """
        return cls(int(offset["reservoirVersion"]), int(offset["index"]), bool(offset["isStartingVersion"]))


@dataclass(frozen=True)
class _Count:
    """Rows, and how many files of unknown rows are among them."""

    rows: int = 0
    unknown: int = 0

    def __add__(self, other: _Count) -> _Count:
        return _Count(self.rows + other.rows, self.unknown + other.unknown)

    def __sub__(self, other: _Count) -> _Count:
        return _Count(self.rows - other.rows, self.unknown - other.unknown)

    @property
    def known(self) -> int | None:
        return self.rows if self.unknown == 0 else None


class DeltaSource:
    """Counts the rows of one source table; each commit of its log is read once.

    Rows that were deleted, rewritten (compaction) or masked later still count: they were appended once. So does a
    commit that the query's ``skipChangeCommits`` leaves out: the log does not have a query's options. A table whose
    first commits were cleaned from the log counts from the oldest snapshot that can still be read. Files without
    ``numRecords`` in their statistics make every count that includes them None.

    Args:
        path: The table's folder on a local disk.

    Raises:
        FileNotFoundError: If there is no Delta table.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._log = DeltaLog(self.path)
        self._versions: list[int] = []  # ascending; the files of each beside it
        self._files: list[tuple[_Count, ...]] = []
        self._through: list[_Count] = []  # rows appended up to and including the version
        self._snapshots: dict[int, tuple[_Count, ...]] = {}
        self._base_version, self._base = self._oldest()
        self.refresh()

    @property
    def version(self) -> int:
        """Newest version read, -1 for an empty log."""
        return self._versions[-1] if self._versions else self._base_version

    @property
    def total_rows(self) -> int | None:
        """Rows ever appended; None if unknown."""
        return self._total().known

    def refresh(self) -> None:
        """Read the commits made since the last call."""
        while (commit := self._read(self.version + 1)) is not None:
            total = self._total() + sum(commit, _Count())
            self._versions.append(self.version + 1)
            self._files.append(commit)
            self._through.append(total)

    def rows_after(self, offset: DeltaOffset) -> int | None:
        """Return the rows appended after an offset, up to :attr:`version`; None if unknown.

        Spark names the end of the log as the version that comes next, with an index below 0.
        """
        if offset.version > self.version:
            return 0 if offset.version == self.version + 1 and offset.index < 0 else None
        through = self._through_version(offset.version)
        if through is None:
            return None
        files = self._snapshot(offset.version) if offset.snapshot else self._commit(offset.version)
        if files is None:
            return None
        rest = sum(files[max(offset.index + 1, 0) :], _Count())
        return (self._total() - through + rest).known

    def forget_before(self, version: int) -> None:
        """Drop what only offsets before ``version`` need, so that a driver that runs for months stays small."""
        keep = bisect_left(self._versions, version)
        if keep > 0:
            self._base_version, self._base = self._versions[keep - 1], self._through[keep - 1]
            del self._versions[:keep], self._files[:keep], self._through[:keep]
        for old in [v for v in self._snapshots if v < version]:
            del self._snapshots[old]

    def _total(self) -> _Count:
        return self._through[-1] if self._through else self._base

    def _at(self, version: int) -> int | None:
        """Return the place of a version among those that were read, None if it is not there."""
        at = bisect_left(self._versions, version)
        return at if at < len(self._versions) and self._versions[at] == version else None

    def _through_version(self, version: int) -> _Count | None:
        if version == self._base_version:
            return self._base
        at = self._at(version)
        return None if at is None else self._through[at]

    def _commit(self, version: int) -> tuple[_Count, ...] | None:
        at = self._at(version)
        return self._read(version) if at is None else self._files[at]

    def _snapshot(self, version: int) -> tuple[_Count, ...] | None:
        if version not in self._snapshots:
            try:
                self._snapshots[version] = _snapshot_files(self.path, version)
            except (OSError, DeltaError):
                return None
        return self._snapshots[version]

    def _read(self, version: int) -> tuple[_Count, ...] | None:
        """Return the rows of each file of a commit that Spark's source counts; a rewritten file has 0 new rows."""
        commit = self._log.commit(version)
        if commit is None:
            return None
        # A deletion vector is set by removing and adding the same file: nothing was appended.
        replaced = commit.removed | commit.rewritten
        return _counts(0 if file.path in replaced else file.rows for file in commit.added)

    def _oldest(self) -> tuple[int, _Count]:
        """Return the version to count from, and the rows up to it."""
        commits, checkpoints = self._log.versions()
        if 0 in commits:
            return -1, _Count()
        readable = [c for c in checkpoints if not commits or c >= min(commits) - 1]
        if not readable:
            raise FileNotFoundError(f"{self._log.location} holds neither the first commit nor a checkpoint")
        first = min(readable)
        return first, sum(_snapshot_files(self.path, first), _Count())


def local_path(uri: str) -> Path | None:
    """Return the folder that ``file:/x``, ``file:///x`` or ``/x`` names; None for other file systems."""
    if uri.startswith("file:"):
        return Path("/" + uri.removeprefix("file:").lstrip("/"))
    return Path(uri) if uri.startswith("/") else None


def _snapshot_files(path: Path, version: int) -> tuple[_Count, ...]:
    adds = pa.table(DeltaTable(str(path), version=version).get_add_actions(flatten=True)).to_pylist()
    ordered = sorted(adds, key=lambda a: (a["modification_time"], unquote(a["path"])))
    return _counts(a.get("num_records") for a in ordered)


def _counts(rows: Iterable[int | None]) -> tuple[_Count, ...]:
    return tuple(_Count(0, 1) if n is None else _Count(int(n), 0) for n in rows)
