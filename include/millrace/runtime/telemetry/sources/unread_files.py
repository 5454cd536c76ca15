"""Rows that wait in files which a limited source has not read yet, estimated from their bytes.

Spark keeps listing a source's files. The source's log, part of the checkpoint, records which of them each batch read.
Both come from the source's own object, so globs, filters, partitions and file systems are as Spark sees them. Spark
internals: pinned to its version, covered by tests.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyspark

from millrace.runtime.spark_versions import FILE_SIZES, numbers
from millrace.runtime.telemetry.sources.api import UNKNOWN, ArrivalBasis, Position, Progress, Source, SourcePosition

MOST_FILES = 20_000
"""Maximum number of files that are followed. If the folder has more, the waiting rows stay unknown."""

LISTING_RATIO = 0.05
"""Maximum share of the time that listing may take."""

REMEMBERED = 0.7
"""Weight of earlier reads at each new listing: rows per byte change with the files' content."""

FILE = re.compile(r"^NewFileEntry\((.*),(\d+),(\d+)\)$")
"""Path, bytes and time of change (ms)."""
TAKEN = re.compile(r"^FileEntry\((.*),\d+,(\d+)\)$")
"""Path, and number of the log entry that took it."""


class UnreadFiles(SourcePosition):
    """Estimates the rows that wait for a limited file source, while its files can be followed and are not too many.

    Args:
        source: Spark's own source, ``FileStreamSource``.
        gateway: Py4J's gateway of the session.
        interval_s: Minimum time between two listings, seconds.
        clock: A monotonic clock, seconds.
    """

    def __init__(
        self, source: Any, gateway: Any, interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source, self._gateway, self._interval_s, self._clock = source, gateway, interval_s, clock
        self._log = _private(source, "metadataLog", gateway)
        self._due_s = float("-inf")
        self._through = -1
        self._read: set[str] = set()
        self._bytes: dict[str, int] = {}
        self._rows = 0
        self._weighed_rows = self._weighed_bytes = 0.0
        # if only names count, a path that is not in the log may belong to a file that Spark ignores
        self._active = not _private(source, "fileNameOnly", gateway)

    @classmethod
    def of(cls, source: Source) -> UnreadFiles | None:
        """Return the position of a limited file source; None for others, without a gateway, and on Spark before 4.0.

        If a query reads a folder twice, both sources have the same name, and only one of them could be followed.
        """
        if numbers(pyspark.__version__) < FILE_SIZES or len(source.streams) != 1 or source.gateway is None:
            return None
        (stream,) = source.streams
        limited = _class(stream) == "FileStreamSource" and _class(stream.getDefaultReadLimit()) != "ReadAllAvailable"
        return cls(stream, source.gateway, source.interval_s) if limited else None

    def after(self, progress: Progress) -> Position:
        """Return the rows that wait after a batch; None if the files were not listed or nothing is known about them."""
        if not self._active:
            return UNKNOWN
        return Position(backlog=self._rows_waiting(progress), basis=ArrivalBasis.LISTED)

    def at_rest(self, end: Any) -> Position:
        """Return that no rows wait: otherwise Spark would start a batch."""
        return Position(backlog=0, basis=ArrivalBasis.LISTED) if self._active else UNKNOWN

    def _rows_waiting(self, progress: Progress) -> int | None:
        self._rows += int(progress.get("numInputRows", 0))
        begin = self._clock()
        if begin < self._due_s:
            return None
        self._active = False  # permanently, unless the files can be listed
        self._follow(_log_offset(progress.get("startOffset")), _log_offset(progress.get("endOffset")))
        self._due_s = begin + max(self._interval_s, (self._clock() - begin) / LISTING_RATIO)
        if not self._active or not self._weighed_bytes:
            return None
        unread = sum(size for path, size in self._bytes.items() if path not in self._read)
        return round(unread * self._weighed_rows / self._weighed_bytes)

    def _follow(self, start: int, end: int) -> None:
        taken, listed = self._taken(end), self._listed()
        if taken is None or listed is None:
            self._read, self._bytes = set(), {}
            return
        known = {**self._bytes, **listed}
        since = self._through if self._through >= 0 else start
        self._weigh([known.get(path) for path, number in taken.items() if number > since])
        self._through, self._bytes = end, listed
        self._read = (self._read | taken.keys()) & listed.keys()
        self._active = True

    def _weigh(self, taken: Sequence[int | None]) -> None:
        """Learn how many rows a byte holds, unless a file that was read had been moved away before any listing."""
        sizes = [size for size in taken if size is not None]
        if sum(sizes) and self._rows and len(sizes) == len(taken):
            self._weighed_rows = REMEMBERED * self._weighed_rows + self._rows
            self._weighed_bytes = REMEMBERED * self._weighed_bytes + sum(sizes)
        self._rows = 0

    def _listed(self) -> dict[str, int] | None:
        """Return the bytes of each file that Spark has read or will read, by path; None if there are too many."""
        files = _private(self._source, "fetchAllFiles", self._gateway)
        if files.size() > MOST_FILES:
            return None
        oldest = int(_private(self._source.seenFiles(), "lastPurgeTimestamp", self._gateway))
        lines = (FILE.match(line) for line in str(files.mkString("\n")).splitlines())
        return {match[1]: int(match[2]) for match in lines if match and int(match[3]) >= oldest}

    def _taken(self, end: int) -> dict[str, int] | None:
        """Return the files read since the last call by path, with their log number; None if there are too many."""
        if self._through < 0:
            entries = [self._log.allFiles()]
        else:
            got = [self._log.get(number) for number in range(self._through + 1, end + 1)]
            entries = [entry.get() for entry in got if entry.isDefined()]
        wrap = self._gateway.jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray
        taken: dict[str, int] = {}
        for files in map(wrap, entries):
            if files.size() > MOST_FILES:
                return None
            lines = (TAKEN.match(line) for line in str(files.mkString("\n")).splitlines())
            taken |= {m[1]: int(m[2]) for m in lines if m and self._through < int(m[2]) <= end}
        return taken


def _class(target: Any) -> str:
    return str(target.getClass().getSimpleName())


def _log_offset(offset: object) -> int:
    return int(offset["logOffset"]) if isinstance(offset, Mapping) else -1


def _private(target: Any, name: str, gateway: Any) -> Any:
    jvm = gateway.jvm
    method = target.getClass().getDeclaredMethod(name, gateway.new_array(jvm.java.lang.Class, 0))
    method.setAccessible(True)
    return method.invoke(target, gateway.new_array(jvm.java.lang.Object, 0))
