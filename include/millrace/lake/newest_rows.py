"""The newest rows of a growing table, at a cost that does not grow with its age.

The log is walked backwards from the newest version, and the data files that its commits name are read directly. Rows
that were compacted later are read from their original files, which stay for hours. If the log was cleaned, or so
little arrived that the walk would not end, the files of the newest version are read instead, newest first.

A file that cannot be read is skipped and named: its rows count as missing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from millrace.lake.log import AddedFile, Commit, DeltaLog
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.lake.table_errors import unreadable

LOG = logging.getLogger(__name__)

MOST_COMMITS = 20_000
"""Maximum number of log entries for a read with a bound in time or versions; an entry costs 20 to 60 us."""

COMMITS_OF_ROWS = 2_000
"""Log entries for a read of a number of rows, before it turns to the files of the newest version."""

MOST_FILES = 3_000
"""Maximum number of files of the newest version to read."""

OLD_FILES = 3
"""Files in a row with only rows before the bound, after which nothing newer is expected: one file may be late."""

CLOCK_MARGIN = timedelta(minutes=10)
"""Maximum difference between the clocks of those who commit."""

TRUNCATION = timedelta(milliseconds=1)
"""Statistics contain times in whole milliseconds."""

_NEVER = datetime.max.replace(tzinfo=UTC)
READ_ERRORS = (OSError, pa.ArrowException, KeyError)


@dataclass(frozen=True)
class RecentRows:
    """The newest rows of a table.

    Attributes:
        rows: Rows in the order of commits, oldest first; columns as the files have them.
        whole: True if there are no more rows: none was left out because of the limit or its distance.
        unreadable: Files that could not be read, relative to the lake, newest first.
        by_version: False if the newest version's files were read: they include rows of commits outside the range, as
            files do not say when their rows were committed.
    """

    rows: pa.Table
    whole: bool
    unreadable: tuple[str, ...] = ()
    by_version: bool = True


@dataclass(frozen=True)
class RowQuery:
    """Which rows of a table to return.

    Attributes:
        table: The table's name.
        pipeline: Name of the pipeline; None for all pipelines.
        limit: Maximum number of rows, the newest.
        after: Only rows of commits after this version.
        through: Only rows of commits up to this version; None for the newest.
        not_before: Rows of earlier times are not needed (UTC). Some may be returned, as whole files are read.
        equal: Text that columns of the rows have. Files whose statistics exclude it are not opened.
        where: A further condition on the rows.
        transaction: Only rows of commits with this application transaction.
    """

    table: str
    pipeline: str | None
    limit: int
    after: int = -1
    through: int | None = None
    not_before: datetime | None = None
    equal: Mapping[str, str] = field(default_factory=dict)
    where: pc.Expression | None = None
    transaction: str | None = None

    @property
    def bounded(self) -> bool:
        """Whether the bound is a time or a version, not only a number of rows."""
        return self.after >= 0 or self.not_before is not None

    def may_be_in(self, file: AddedFile) -> bool:
        """Return whether a file can have such rows by its partition and statistics, times aside."""
        if self.pipeline is not None and not file.may_hold(self.pipeline):
            return False
        return all(file.may_have(column, text) for column, text in self.equal.items())

    def select(self, rows: pa.Table, file: AddedFile) -> pa.Table:
        """Return the rows of a file that match the query, times aside."""
        equal = self.equal if self.pipeline is None else {**self.equal, "pipeline": self.pipeline}
        for column, text in equal.items():
            if not file.has_only(column, text):
                rows = rows.filter(pc.equal(rows[column], text))
        return rows if self.where is None else rows.filter(self.where)


class _LogEndsError(Exception):
    """The log does not lead back far enough."""


@dataclass
class _Reading:
    """A read in progress: its rows so far, newest first."""

    lake: Lake
    query: RowQuery
    pieces: list[pa.Table] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    count: int = 0
    whole: bool = True
    by_version: bool = True

    def take(self, file: AddedFile) -> None:
        """Read a file and keep the rows of the query; a file that cannot be read is only named."""
        name = self._name(file)
        try:
            rows = self.query.select(self._read(file), file)
        except READ_ERRORS as error:
            LOG.warning("%s cannot be read; its rows count as missing: %s", self.lake.location / name, error)
            self.unreadable.append(name)
            self.lake.unreadable[name] = " ".join(str(error).split())[:200]
            return
        if len(rows):
            self.pieces.append(rows)
            self.count += len(rows)

    @cached_property
    def log(self) -> DeltaLog:
        """The table's log."""
        return self.lake.log(self.query.table)

    @cached_property
    def reads_ahead(self) -> bool:
        """Whether files are read several at once, as they are far away."""
        return self.lake.location.folder is None

    def fetch(self, file: AddedFile) -> AddedFile:
        """Read a file ahead of :meth:`take`, which gets the same error."""
        with suppress(*READ_ERRORS):
            if self.reads_ahead and self.query.may_be_in(file):
                self._read(file)
        return file

    def entry(self, version: int) -> Commit | None:
        """Return an entry of the log, with its files read ahead; None if it was cleaned."""
        commit = self.log.commit(version)
        if commit is None:
            return None
        if self.query.transaction is not None and self.query.transaction not in commit.transactions:
            commit = replace(commit, added=())
        if self.reads_ahead:
            for file in commit.added:
                self.fetch(file)
        return commit

    def has(self, file: AddedFile) -> bool:
        """Return whether a file still exists; if that cannot be determined, the read names the file."""
        try:
            return self.lake.location.exists(self._name(file))
        except OSError:
            return True

    def _read(self, file: AddedFile) -> pa.Table:
        return self.lake.files.read(self._name(file), file.partition, TABLES[self.query.table].columns)

    def _name(self, file: AddedFile) -> str:
        return f"{self.query.table}/{file.path}"

    def sort(self) -> None:
        """Order the rows by time: compacted files have lost the order of commits."""
        if self.pieces:
            rows = pa.concat_tables(self.pieces, promote_options="permissive")
            self.pieces = [rows.sort_by("time")]

    def oldest_needed(self) -> datetime:
        """Return the time that a row needs to be among the newest so far."""
        times = pa.chunked_array([piece["time"] for piece in self.pieces]).sort(order="descending")
        return times[self.query.limit - 1].as_py() - TRUNCATION  # type: ignore[no-any-return]

    def result(self) -> RecentRows:
        """Return what was read."""
        if not self.pieces:
            return RecentRows(pa.table({}), self.whole, tuple(self.unreadable), self.by_version)
        rows = pa.concat_tables(reversed(self.pieces), promote_options="permissive")
        whole = self.whole and self.count <= self.query.limit
        newest = rows.slice(max(0, len(rows) - self.query.limit))
        return RecentRows(newest, whole, tuple(self.unreadable), self.by_version)


def read_recent(lake: Lake, query: RowQuery) -> RecentRows:
    """Return the newest rows of a growing table.

    Args:
        lake: The lake.
        query: The rows to return.

    Raises:
        MillraceError: If the table's log cannot be read; an unreadable data file is no error.
    """
    newest = lake.version(query.table)
    if newest < 0 or _has_no_rows(lake, query):
        return RecentRows(pa.table({}), True)
    reading = _Reading(lake, query)
    try:
        _walk(reading, newest)
    except _LogEndsError:
        reading = _Reading(lake, query, whole=query.after < 0, by_version=False)
        _read_snapshot(reading)
    return reading.result()


def _has_no_rows(lake: Lake, query: RowQuery) -> bool:
    """Return whether the folder shows that a table by pipelines has no rows of the pipeline."""
    location = lake.at(query.table)
    if query.pipeline is None:
        return False
    try:
        if location.exists(f"pipeline={query.pipeline}"):
            return False
        return all(entry.name.startswith(("pipeline=", "_")) for entry in location.files.list())
    except OSError:
        return False


def _walk(reading: _Reading, newest: int) -> None:
    """Read the files that the log leads to, newest first.

    Raises:
        _LogEndsError: If the log does not lead back far enough.
    """
    query = reading.query
    removed: set[str] = set()
    rewritten: set[str] = set()
    limit = _AgeLimit(query.not_before)
    for commit in _commits(reading, newest):
        removed |= commit.removed
        rewritten |= commit.rewritten
        if query.through is not None and commit.version > query.through:
            continue
        if limit.excludes(commit):
            return
        for file in commit.added:
            if file.path in removed or not query.may_be_in(file) or limit.is_old(file):
                continue
            if file.path in rewritten and not reading.has(file):
                raise _LogEndsError  # vacuumed: the compacted files have its rows
            reading.take(file)
        if reading.count >= query.limit:
            reading.whole = commit.version == query.after + 1 and reading.count == query.limit
            return
        if limit.is_reached:
            return


def _commits(reading: _Reading, newest: int) -> Iterator[Commit]:
    """Yield the entries of the log, newest first.

    Raises:
        _LogEndsError: If an entry was cleaned, or so many entries gave too few rows.
    """
    query = reading.query
    most = MOST_COMMITS if query.bounded else COMMITS_OF_ROWS
    last = max(query.after, newest - most)
    for commit in reading.lake.location.each(reading.entry, range(newest, last, -1)):
        if commit is None:
            raise _LogEndsError
        yield commit
    if last > query.after:
        if not query.bounded:
            raise _LogEndsError
        reading.whole = False


class _AgeLimit:
    """Detects, by files and by commits, when a walk back has reached rows that are all older than needed."""

    def __init__(self, not_before: datetime | None) -> None:
        self._not_before = not_before
        self._oldest = None if not_before is None else not_before - CLOCK_MARGIN
        self._old_files = 0
        self._newest: datetime | None = None

    @property
    def is_reached(self) -> bool:
        """Whether so many files in a row had only old rows that nothing newer is expected before them."""
        return self._old_files >= OLD_FILES

    def excludes(self, commit: Commit) -> bool:
        """Return whether a commit is too old to contain needed rows.

        This requires that the committers' clock agrees with the clock of the bound: some commit is near it.
        """
        if self._oldest is None or commit.time is None:
            return False
        self._newest = self._newest or commit.time
        return commit.time < self._oldest <= self._newest

    def is_old(self, file: AddedFile) -> bool:
        """Return whether a file has only old rows, by its statistics."""
        time = file.newest_time
        if self._not_before is None or time is None:
            return False
        old = time + TRUNCATION < self._not_before
        self._old_files = self._old_files + 1 if old else 0
        return old


def _read_snapshot(reading: _Reading) -> None:
    """Read files of the newest version, newest first by their statistics, until no newer row can follow."""
    query = reading.query
    for count, file in enumerate(reading.lake.location.each(reading.fetch, _snapshot(reading.lake, query))):
        enough = reading.count >= query.limit and (file.newest_time or _NEVER) < reading.oldest_needed()
        if enough or count >= MOST_FILES:
            reading.whole = False
            break
        reading.take(file)
    reading.sort()


def _snapshot(lake: Lake, query: RowQuery) -> list[AddedFile]:
    location = lake.at(query.table)
    try:
        actions = pa.table(location.table().get_add_actions(flatten=False)).to_pylist()
    except (OSError, DeltaError) as error:
        raise unreadable(location, error, query.table) from error
    files = [file for file in map(_active, actions) if query.may_be_in(file)]
    begin = query.not_before
    in_time = [f for f in files if begin is None or f.newest_time is None or f.newest_time + TRUNCATION >= begin]
    return sorted(in_time, key=lambda file: file.newest_time or _NEVER, reverse=True)


def _active(action: dict[str, Any]) -> AddedFile:
    partition = {k: None if v is None else str(v) for k, v in (action.get("partition") or {}).items()}
    ends = {"minValues": action.get("min") or {}, "maxValues": action.get("max") or {}}
    texts = {name: {c: v for c, v in of.items() if isinstance(v, str | datetime)} for name, of in ends.items()}
    return AddedFile(unquote(action["path"]), partition, json.dumps(texts, default=datetime.isoformat))
