"""The newest rows of a growing table, at a cost that its age does not matter to.

The log is walked backwards from the newest version, and the data files that its commits name are read directly. What
was compacted since is read from the files as they were written, which stay for a day. Where the log was cleaned, or
nothing came for so long that the walk would not end, the files of the newest version are read instead, newest first.

A file that cannot be read is left out and named: its rows count as missing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from include.lake.log import AddedFile, Commit
from include.lake.schemas import TABLES
from include.lake.store import Lake
from include.model.errors import MillraceError

LOG = logging.getLogger(__name__)

MOST_COMMITS = 20_000
"""Entries of the log that a read with a bound in time or versions goes back at most; one costs 20 to 60 us."""

COMMITS_OF_ROWS = 2_000
"""Entries that a read of a number of rows goes back before it asks the newest version for its files."""

MOST_FILES = 3_000
"""Files of the newest version that are read at most."""

OLD_FILES = 3
"""Files in a row with nothing but rows before the bound, after which there is nothing newer: one can be late."""

CLOCK_MARGIN = timedelta(minutes=10)
"""How far the clocks of those who commit may differ."""

TRUNCATION = timedelta(milliseconds=1)
"""Statistics tell times in whole milliseconds."""

_NEVER = datetime.max.replace(tzinfo=UTC)
READ_ERRORS = (OSError, pa.ArrowException, KeyError)


@dataclass(frozen=True)
class Recent:
    """The newest rows of a table.

    Attributes:
        rows: They, in the order in which they were committed, oldest first; columns as the files have them.
        whole: True if there are no more that were asked for: none was left out for its number or its distance.
        unreadable: Files that could not be read, relative to the lake, newest first.
        by_version: False if the newest version's files were read: rows of commits that were not asked for are among
            these, as files do not tell when their rows were committed.
    """

    rows: pa.Table
    whole: bool
    unreadable: tuple[str, ...] = ()
    by_version: bool = True


@dataclass(frozen=True)
class RowQuery:
    """Which rows of a table are wanted.

    Attributes:
        table: The table's name.
        pipeline: Whose; None for all pipelines'.
        limit: How many at most, the newest.
        after: Only rows of commits after this version.
        through: Only rows of commits up to this version; None for the newest.
        not_before: No rows of earlier times are needed (UTC). Some may come, as whole files are read.
        equal: Text that columns of the rows have: files whose statistics rule that out are not opened.
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
        """Whether the bound is one of time or of versions, not only a number of rows."""
        return self.after >= 0 or self.not_before is not None

    def may_be_in(self, file: AddedFile) -> bool:
        """Say whether a file can have such rows, by its partition and statistics; times apart."""
        if self.pipeline is not None and not file.may_hold(self.pipeline):
            return False
        return all(file.may_have(column, text) for column, text in self.equal.items())

    def of(self, rows: pa.Table, file: AddedFile) -> pa.Table:
        """Return those rows of a file that are wanted; times apart."""
        equal = self.equal if self.pipeline is None else {**self.equal, "pipeline": self.pipeline}
        for column, text in equal.items():
            if not file.has_only(column, text):
                rows = rows.filter(pc.equal(rows[column], text))
        return rows if self.where is None else rows.filter(self.where)


class _LogEndsError(Exception):
    """The log does not lead back as far as was asked."""


@dataclass
class _Reading:
    """One read under way: what was found so far, newest first."""

    lake: Lake
    wanted: RowQuery
    pieces: list[pa.Table] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    count: int = 0
    whole: bool = True
    by_version: bool = True

    def take(self, file: AddedFile) -> None:
        """Read a file and keep what is wanted of it; one that cannot be read is only named."""
        wanted = self.wanted
        path = self.lake.path(wanted.table) / file.path
        try:
            rows = wanted.of(self.lake.files.read(path, file.partition, TABLES[wanted.table].columns), file)
        except READ_ERRORS as error:
            LOG.warning("%s cannot be read, its rows count as missing: %s", path, error)
            name = f"{wanted.table}/{file.path}"
            self.unreadable.append(name)
            self.lake.unreadable[name] = " ".join(str(error).split())[:200]
            return
        if len(rows):
            self.pieces.append(rows)
            self.count += len(rows)

    def sort(self) -> None:
        """Order the rows by their times: files that were compacted have lost the commits' order."""
        if self.pieces:
            rows = pa.concat_tables(self.pieces, promote_options="permissive")
            self.pieces = [rows.sort_by("time")]

    def oldest_needed(self) -> datetime:
        """Return the time that a row must have to be among the newest so far."""
        times = pa.chunked_array([piece["time"] for piece in self.pieces]).sort(order="descending")
        return times[self.wanted.limit - 1].as_py() - TRUNCATION  # type: ignore[no-any-return]

    def result(self) -> Recent:
        """Return what was read."""
        if not self.pieces:
            return Recent(pa.table({}), self.whole, tuple(self.unreadable), self.by_version)
        rows = pa.concat_tables(reversed(self.pieces), promote_options="permissive")
        whole = self.whole and self.count <= self.wanted.limit
        newest = rows.slice(max(0, len(rows) - self.wanted.limit))
        return Recent(newest, whole, tuple(self.unreadable), self.by_version)


def read_recent(lake: Lake, wanted: RowQuery) -> Recent:
    """Return the newest rows of a growing table.

    Args:
        lake: The lake.
        wanted: Which rows.

    Raises:
        MillraceError: If the table's log cannot be read; a data file that cannot be read is no error.
    """
    newest = lake.version(wanted.table)
    if newest < 0 or _nobody(lake, wanted):
        return Recent(pa.table({}), True)
    reading = _Reading(lake, wanted)
    try:
        _walk(reading, newest)
    except _LogEndsError:
        reading = _Reading(lake, wanted, whole=wanted.after < 0, by_version=False)
        _read_snapshot(reading)
    return reading.result()


def _nobody(lake: Lake, wanted: RowQuery) -> bool:
    """Say whether the folder alone shows that the pipeline has no rows: a table by pipelines, and none of its own."""
    folder = lake.path(wanted.table)
    if wanted.pipeline is None or (folder / f"pipeline={wanted.pipeline}").exists():
        return False
    try:
        return all(file.name.startswith(("pipeline=", "_")) for file in folder.iterdir())
    except OSError:
        return False


def _walk(reading: _Reading, newest: int) -> None:
    """Read what the log leads to, newest first.

    Raises:
        _LogEndsError: If the log does not lead back far enough.
    """
    wanted = reading.wanted
    removed: set[str] = set()
    rewritten: set[str] = set()
    old = _Old(wanted.not_before)
    for commit in _commits(reading, newest):
        removed |= commit.removed
        rewritten |= commit.rewritten
        if wanted.through is not None and commit.version > wanted.through:
            continue
        if old.commit(commit):
            return
        for file in commit.added:
            if file.path in removed or not wanted.may_be_in(file) or old.file(file):
                continue
            if file.path in rewritten and not (reading.lake.path(wanted.table) / file.path).exists():
                raise _LogEndsError  # vacuumed: the compacted files have its rows
            reading.take(file)
        if reading.count >= wanted.limit:
            reading.whole = commit.version == wanted.after + 1 and reading.count == wanted.limit
            return
        if old.enough:
            return


def _commits(reading: _Reading, newest: int) -> Iterator[Commit]:
    """Yield the entries of the log from the newest on.

    Raises:
        _LogEndsError: If one was cleaned from it, or so many gave too few rows.
    """
    wanted, log = reading.wanted, reading.lake.log(reading.wanted.table)
    most = MOST_COMMITS if wanted.bounded else COMMITS_OF_ROWS
    for version in range(newest, wanted.after, -1):
        if newest - version >= most:
            if not wanted.bounded:
                raise _LogEndsError
            reading.whole = False
            return
        commit = log.commit(version, wanted.pipeline, wanted.transaction)
        if commit is None:
            raise _LogEndsError
        yield commit


class _Old:
    """Tells when a walk back has come to where everything is older than needed, by files and by commits."""

    def __init__(self, not_before: datetime | None) -> None:
        self._not_before = not_before
        self._in_a_row = 0
        self._newest: datetime | None = None

    @property
    def enough(self) -> bool:
        """Whether so many files in a row had nothing but old rows that there is nothing newer before them."""
        return self._in_a_row >= OLD_FILES

    def commit(self, commit: Commit) -> bool:
        """Say whether a commit was made too long ago to bring rows that are needed.

        That can only be told if the committers' clock is the one that the bound comes from: some commit is near it.
        """
        if self._not_before is None or commit.time is None:
            return False
        self._newest = self._newest or commit.time
        oldest = self._not_before - CLOCK_MARGIN
        return self._newest >= oldest and commit.time < oldest

    def file(self, file: AddedFile) -> bool:
        """Say whether a file's statistics tell that it has only old rows."""
        time = file.newest_time
        if self._not_before is None or time is None:
            return False
        old = time + TRUNCATION < self._not_before
        self._in_a_row = self._in_a_row + 1 if old else 0
        return old


def _read_snapshot(reading: _Reading) -> None:
    """Read files of the newest version, newest first by their statistics, until no newer row can come."""
    wanted = reading.wanted
    for count, file in enumerate(_snapshot(reading.lake, wanted)):
        if reading.count >= wanted.limit and (file.newest_time or _NEVER) < reading.oldest_needed():
            reading.whole = False
            break
        if count >= MOST_FILES:
            reading.whole = False
            break
        reading.take(file)
    reading.sort()


def _snapshot(lake: Lake, wanted: RowQuery) -> list[AddedFile]:
    path = lake.path(wanted.table)
    try:
        actions = pa.table(DeltaTable(str(path)).get_add_actions(flatten=False)).to_pylist()
    except (OSError, DeltaError) as error:
        reason = " ".join(str(error).split())[:300]
        remedy = f"Check its _delta_log ({reason})."
        raise MillraceError(wanted.table, str(path), "a readable Delta table", remedy) from error
    files = [file for file in map(_active, actions) if wanted.may_be_in(file)]
    begin = wanted.not_before
    in_time = [f for f in files if begin is None or f.newest_time is None or f.newest_time + TRUNCATION >= begin]
    return sorted(in_time, key=lambda file: file.newest_time or _NEVER, reverse=True)


def _active(action: dict[str, Any]) -> AddedFile:
    partition = {k: None if v is None else str(v) for k, v in (action.get("partition") or {}).items()}
    told = {"minValues": action.get("min") or {}, "maxValues": action.get("max") or {}}
    texts = {name: {c: v for c, v in of.items() if isinstance(v, str | datetime)} for name, of in told.items()}
    return AddedFile(unquote(action["path"]), partition, json.dumps(texts, default=datetime.isoformat))
