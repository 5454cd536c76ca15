"""Rows of Delta tables in folders and buckets, counted in the table's log with the options of the query.

A bucket is opened with the keys in the driver's environment, not with those in Spark's own settings.

Spark and Delta internals: pinned to their versions, covered by tests.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from millrace.lake.backlog import DeltaOffset, DeltaSource, location_of
from millrace.lake.source_commits import DeltaRead
from millrace.model.errors import MillraceError
from millrace.runtime.telemetry.sources.api import UNKNOWN, ArrivalBasis, Position, Progress, Source, SourcePosition

DESCRIPTION = re.compile(r"^DeltaSource\[(.*)\]$")
LOG = logging.getLogger(__name__)
RETRY_S = 300.0
"""Time until a bucket that could not be read is asked again: each attempt may take half a minute of Spark's events."""

Tables = dict[tuple[str, str, DeltaRead], DeltaSource]
"""Counted tables, by the source's description, the table's id and the read options."""


class DeltaPosition(SourcePosition):
    """Counts the rows of a Delta source.

    Args:
        description: The source's name in progress events.
        read: How the query reads the table; None if unknown.
        tables: Tables that earlier runs of the query have counted in this driver: rows are counted from the same start.
        interval_s: Minimum time between two looks into a bucket while no batch ends, seconds.
        environment: Variables with the options of buckets.
        clock: A monotonic clock, seconds.
        entries: Number of the query's sources with this name, >= 1; it may read a table twice.

    Raises:
        MillraceError: If the environment lacks what the table's bucket needs.
    """

    def __init__(
        self,
        description: str,
        read: DeltaRead | None,
        tables: Tables | None = None,
        interval_s: float = 0.0,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
        entries: int = 1,
    ) -> None:
        self._description, self._read, self._tables = description, read, {} if tables is None else tables
        match = DESCRIPTION.match(description)
        self._table = None if match is None else location_of(match[1], environment)
        self._clock, self._due_s, self._barred_until_s = clock, float("-inf"), float("-inf")
        self._ends: deque[int] = deque(maxlen=entries)  # of the newest batch of each
        self._interval_s = 0.0 if self._table is None or self._table.folder is not None else interval_s

    @classmethod
    def of(cls, source: Source) -> DeltaPosition | None:
        """Return the position of a Delta source; None for other sources.

        Sources with the same description but different options are not counted.
        """
        if not DESCRIPTION.match(source.description):
            return None
        reads = {delta_read(s) for s in source.streams if str(s.getClass().getSimpleName()) == "DeltaSource"}
        read, entries = reads.pop() if len(reads) == 1 else None, max(1, len(source.streams))
        return cls(source.description, read, source.kept, source.interval_s, entries=entries)

    def after(self, progress: Progress) -> Position:
        """Return the position in the table as it is now."""
        self._due_s = float("-inf")
        return self._asked(progress.get("startOffset"), progress.get("endOffset"))

    def at_rest(self, end: Any) -> Position:
        """Return the position in the table as it is now; one in a bucket is not looked at every second."""
        return self._asked(end, end)

    def _asked(self, first: Any, last: Any) -> Position:
        if self._clock() < self._barred_until_s:
            return UNKNOWN
        try:
            return self._counted(first, last)
        except (OSError, MillraceError):
            if self._table is not None and self._table.folder is None:
                self._barred_until_s = self._clock() + RETRY_S
            raise

    def _counted(self, first: Any, last: Any) -> Position:
        if self._table is None or self._read is None or not isinstance(last, dict):
            return UNKNOWN
        end = DeltaOffset.from_plain(last)
        start = DeltaOffset.from_plain(first) if isinstance(first, dict) else _first_offset(end, self._read)
        key = (self._description, str(last["reservoirId"]), self._read)  # a recreated table has another id
        if key not in self._tables:
            self._tables[key] = DeltaSource(self._table, self._read, min(start.version, end.version))
        table = self._tables[key]
        if self._clock() >= self._due_s:
            table.refresh()
            self._due_s = self._clock() + self._interval_s
        self._report_loss(table)
        before, backlog, total = table.rows_after(start), table.rows_after(end), table.total_rows
        self._ends.append(end.version)
        table.forget_before(min(self._ends))
        if before is None or backlog is None:  # then arrival since the last batch is unknown too
            return UNKNOWN
        return Position(backlog, total, before - backlog, ArrivalBasis.COUNTED)

    def _report_loss(self, table: DeltaSource) -> None:
        if table.lost is not None:
            LOG.warning(
                "%s: versions %d to %d were deleted from the log before their rows were counted. The arrival rate of "
                "this batch is unknown; counting continues with the next batch",
                self._table,
                *table.lost,
            )
            table.lost = None


def delta_read(stream: Any) -> DeltaRead:
    """Return how a query reads a Delta source.

    Args:
        stream: Spark's own source, of a query that has planned a batch.
    """
    options = stream.options()
    start = f"{options.startingVersion().toString()} {options.startingTimestamp().toString()}"
    regex = options.excludeRegex()
    pattern = None if regex.isEmpty() else regex.get().pattern()
    starts = options.containsStartingVersionOrTimestamp()

    def first_version() -> int | None:
        # Spark evaluates it once, at a query's first batch: "latest" and timestamps keep their meaning
        return int(stream.getStartingVersion().get()) if starts else None

    return DeltaRead(
        skip_changes=bool(options.skipChangeCommits()),
        change_feed=bool(options.readChangeFeed()),
        exclude=None if pattern is None else str(pattern.pattern()),
        excludes=lambda path: pattern is not None and bool(pattern.matcher(path).find()),
        start=start,
        first_version=first_version,
    )


def _first_offset(end: DeltaOffset, read: DeltaRead) -> DeltaOffset:
    """Return where a query's first batch started to read."""
    version = read.first_version()
    if version is not None:
        return DeltaOffset(version, -1, False)
    return DeltaOffset(end.version if end.snapshot else end.version - 1, -1, True)
