"""Rows of Delta tables on local disks, counted in the table's log with the options of the query.

Spark and Delta internals: pinned to their versions, covered by tests.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from millrace.lake.backlog import DeltaOffset, DeltaSource, local_path
from millrace.lake.source_commits import DeltaRead
from millrace.runtime.telemetry.sources.api import UNKNOWN, ArrivalBasis, Position, Progress, Source, SourcePosition

DESCRIPTION = re.compile(r"^DeltaSource\[(.*)\]$")
LOG = logging.getLogger(__name__)

Tables = dict[tuple[str, str, DeltaRead], DeltaSource]
"""Counted tables, by the source's description, the table's id and the read options."""


class DeltaPosition(SourcePosition):
    """Counts the rows of a Delta source.

    Args:
        description: The source's name in progress events.
        read: How the query reads the table; None if unknown.
        tables: Tables that earlier runs of the query have counted in this driver: rows are counted from the same start.
    """

    def __init__(self, description: str, read: DeltaRead | None, tables: Tables | None = None) -> None:
        self._description, self._read, self._tables = description, read, {} if tables is None else tables
        match = DESCRIPTION.match(description)
        self._path = None if match is None else local_path(match[1])

    @classmethod
    def of(cls, source: Source) -> DeltaPosition | None:
        """Return the position of a Delta source; None for other sources.

        Sources with the same description but different options are not counted.
        """
        if not DESCRIPTION.match(source.description):
            return None
        reads = {delta_read(s) for s in source.streams if str(s.getClass().getSimpleName()) == "DeltaSource"}
        return cls(source.description, reads.pop() if len(reads) == 1 else None, source.kept)

    def after(self, progress: Progress) -> Position:
        """Return the position in the table as it is now."""
        return self._counted(progress.get("startOffset"), progress.get("endOffset"))

    def at_rest(self, end: Any) -> Position:
        """Return the position in the table as it is now."""
        return self._counted(end, end)

    def _counted(self, first: Any, last: Any) -> Position:
        if self._path is None or self._read is None or not isinstance(last, dict):
            return UNKNOWN
        end = DeltaOffset.from_plain(last)
        start = DeltaOffset.from_plain(first) if isinstance(first, dict) else _first_offset(end, self._read)
        key = (self._description, str(last["reservoirId"]), self._read)  # a recreated table has another id
        if key not in self._tables:
            self._tables[key] = DeltaSource(self._path, self._read, min(start.version, end.version))
        table = self._tables[key]
        table.refresh()
        self._report_loss(table)
        before, backlog, total = table.rows_after(start), table.rows_after(end), table.total_rows
        table.forget_before(end.version)
        if before is None or backlog is None:  # then arrival since the last batch is unknown too
            return UNKNOWN
        return Position(backlog, total, before - backlog, ArrivalBasis.COUNTED)

    def _report_loss(self, table: DeltaSource) -> None:
        if table.lost is not None:
            LOG.warning(
                "%s: versions %d to %d were deleted from the log before their rows were counted. The arrival rate of "
                "this batch is unknown; counting continues with the next batch",
                self._path,
                *table.lost,
            )
            table.lost = None


def delta_read(stream: Any) -> DeltaRead:
    """Return how a query reads a Delta source.

    Args:
        stream: Spark's own source, of a query that has planned a batch.
    """
    options = stream.options()
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
        first_version=first_version,
    )


def _first_offset(end: DeltaOffset, read: DeltaRead) -> DeltaOffset:
    """Return where a query's first batch started to read."""
    version = read.first_version()
    if version is not None:
        return DeltaOffset(version, -1, False)
    return DeltaOffset(end.version if end.snapshot else end.version - 1, -1, True)
