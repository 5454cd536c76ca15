"""A query's position in its sources: rows waiting, rows ever committed, rows read, each exact or None.

Delta sources are counted in the table's log, with the options of the query. Kafka's progress reports the end of every
partition when the batch was planned. Rows that Kafka deleted before they were read do not count. For other sources,
only one thing can be known: whether a batch read everything, because reads are unlimited or the limit was not reached.
Unread files of limited file sources are listed. Several sources are added up. If the rows of one are unknown, the sum
is None, as half a backlog would mislead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from millrace.lake.backlog import DeltaOffset, DeltaSource, local_path
from millrace.lake.source_commits import DeltaRead
from millrace.model.arrival import ArrivalBasis
from millrace.runtime.telemetry.unread_files import UnreadFiles

REST = object()
"""Stands for the start of a batch that did not run."""
DELTA = re.compile(r"^DeltaSource\[(.*)\]$")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Position:
    """A query's position in one or all of its sources, in rows.

    Attributes:
        backlog: Committed and not yet read.
        end: Ever committed.
        read: Read by the batch.
        basis: How the position shows what arrives; None if it does not.
        lag: Rows waiting per partition (``topic/partition``); empty if the source has no partitions.
    """

    backlog: int | None = None
    end: int | None = None
    read: int | None = None
    basis: ArrivalBasis | None = None
    lag: Mapping[str, int] = field(default_factory=dict)


UNKNOWN = Position()
Offsets = Mapping[tuple[str, str], int]
"""Kafka's offsets by topic and partition."""
Tables = dict[tuple[str, str, DeltaRead], DeltaSource]
"""Counted tables, by location, id and read options."""
COUNTS = (ArrivalBasis.COUNTED, ArrivalBasis.PLANNED)


class Positions:
    """Follows the sources of one query run.

    Args:
        limits: Maximum rows per batch of each source (:func:`~millrace.runtime.telemetry.read_limits`).
        files: Followers of limited file sources, by description.
        reads: How the query reads its Delta sources, by description; a source without an entry is not counted.
        latest: Returns the newest offset that each source has seen, by description.
        earliest: Returns the first offset that each partition of a Kafka source still holds.
        open_source: Opens a Delta table's log; replaced in tests.
        tables: Tables that earlier runs of the query have counted in this driver: rows are counted from the same start.
    """

    def __init__(
        self,
        limits: Mapping[str, float | None] = MappingProxyType({}),
        files: Mapping[str, UnreadFiles] = MappingProxyType({}),
        reads: Mapping[str, DeltaRead] = MappingProxyType({}),
        latest: Callable[[], Mapping[str, Any]] = dict,
        earliest: Callable[[str], Offsets] = lambda _: {},
        open_source: Callable[..., DeltaSource] = DeltaSource,
        tables: Tables | None = None,
    ) -> None:
        self._limits, self._files, self._open = limits, dict(files), open_source
        self._reads, self._latest, self._earliest = reads, latest, earliest
        self._tables = {} if tables is None else tables
        self._reported: set[str] = set()

    def of(self, sources: Sequence[Mapping[str, Any]]) -> Position:
        """Return the position after a batch, from the ``sources`` of its progress event."""
        each = [self._counted(source) for source in sources]
        basis = self._basis(sources, each)
        if basis in COUNTS:
            return _total(each, basis)
        if basis is not ArrivalBasis.LISTED:
            return Position(basis=basis)
        waiting = [self._estimated(s) if p.end is None else p.backlog for s, p in zip(sources, each, strict=True)]
        return Position(backlog=_sum(waiting), basis=basis)

    def at_rest(self, sources: Sequence[Mapping[str, Any]]) -> Position:
        """Return the position of a query that has run no batch since the one with these ``sources``.

        Rows may wait anyway: Kafka's source starts no batch below ``minOffsetsPerTrigger``.
        """
        latest = self._latest()
        each = [self._counted({**s, "startOffset": REST, "latestOffset": latest.get(_name(s))}) for s in sources]
        basis = self._basis(sources, each)
        if basis in COUNTS:
            return _total(each, basis)
        if basis is None:
            return UNKNOWN
        return Position(backlog=0, basis=basis if basis is ArrivalBasis.LISTED else ArrivalBasis.TAKEN)

    def _basis(self, sources: Sequence[Mapping[str, Any]], each: Sequence[Position]) -> ArrivalBasis | None:
        names = [_name(source) for source in sources]
        untold = [name for name, position in zip(names, each, strict=True) if position.end is None]
        if names and not untold:
            planned = any(position.basis is ArrivalBasis.PLANNED for position in each)
            return ArrivalBasis.PLANNED if planned else ArrivalBasis.COUNTED
        if names and all(name in self._files and self._files[name].active for name in untold):
            return ArrivalBasis.LISTED
        # a repeated Kafka batch, or one that lost rows, may be small while rows wait
        if not names or not self._limits.keys() >= set(names) or any(name.startswith("Kafka") for name in untold):
            return None
        return ArrivalBasis.TAKEN if all(map(self._took_all, sources)) else ArrivalBasis.READ

    def _estimated(self, source: Mapping[str, Any]) -> int | None:
        description = str(source["description"])
        try:
            return self._files[description].rows_waiting(source)
        except Exception as error:
            del self._files[description]
            self._report(description, error)
            return None

    def _took_all(self, source: Mapping[str, Any]) -> bool:
        limit = self._limits[str(source["description"])]
        return limit is not None and int(source.get("numInputRows", 0)) < limit

    def _counted(self, source: Mapping[str, Any]) -> Position:
        description = _name(source)
        try:
            if table := DELTA.match(description):
                return self._delta(table[1], source, self._reads.get(description))
            if description.startswith("Kafka"):
                return self._kafka(source)
        except Exception as error:
            self._report(description, error)
        return UNKNOWN

    def _report(self, description: str, error: Exception) -> None:
        if description not in self._reported:  # a source that cannot be counted is no reason to stop
            self._reported.add(description)
            LOG.warning("The backlog of %s is unknown: %s", description, error)

    def _delta(self, uri: str, source: Mapping[str, Any], read: DeltaRead | None) -> Position:
        plain, path = source.get("endOffset"), local_path(uri)
        if path is None or read is None or not isinstance(plain, Mapping):
            return UNKNOWN
        end = DeltaOffset.from_plain(dict(plain))
        start = _delta_start(source, end, read)
        key = (uri, str(plain["reservoirId"]), read)  # a recreated table has another id
        if key not in self._tables:
            self._tables[key] = self._open(path, read, min(start.version, end.version))
        table = self._tables[key]
        table.refresh()
        self._report_loss(uri, table)
        before, backlog, total = table.rows_after(start), table.rows_after(end), table.total_rows
        table.forget_before(end.version)
        if before is None or backlog is None:  # then arrival since the last batch is unknown too
            return UNKNOWN
        return Position(backlog, total, before - backlog, ArrivalBasis.COUNTED)

    def _kafka(self, source: Mapping[str, Any]) -> Position:
        position, rows = kafka(source), source.get("numInputRows")
        if not position.read or rows is None or int(rows) >= position.read:
            return position
        # fewer rows than offsets: transactions and compaction leave such gaps, and so does retention
        start, end = _offsets(source["startOffset"]) or {}, _offsets(source["endOffset"]) or {}
        first = self._earliest(_name(source))
        if not any(min(n, first.get(k, 0)) > start.get(k, 0) for k, n in end.items()):
            return position
        LOG.warning(
            "%s: Kafka deleted rows before they were read. The arrival rate of this batch is unknown; counting "
            "continues with the next batch",
            _name(source),
        )
        return UNKNOWN

    def _report_loss(self, uri: str, table: DeltaSource) -> None:
        if table.lost is not None:
            LOG.warning(
                "%s: versions %d to %d were deleted from the log before their rows were counted. The arrival rate of "
                "this batch is unknown; counting continues with the next batch",
                uri,
                *table.lost,
            )
            table.lost = None


def _delta_start(source: Mapping[str, Any], end: DeltaOffset, read: DeltaRead) -> DeltaOffset:
    """Return where a batch started to read."""
    start = source.get("startOffset")
    if start is REST:
        return end
    if isinstance(start, Mapping):
        return DeltaOffset.from_plain(dict(start))
    version = read.first_version()
    if version is not None:
        return DeltaOffset(version, -1, False)
    return DeltaOffset(end.version if end.snapshot else end.version - 1, -1, True)


def kafka(source: Mapping[str, Any]) -> Position:
    """Return the position in Kafka topics: offsets by topic and partition, counted as rows.

    Deviation: offsets of compacted or transactional topics also count entries that are not rows.
    """
    start, end, latest = (_offsets(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
    if end is None or latest is None or not end.keys() <= latest.keys():
        return UNKNOWN  # a partition without metadata may have rows
    read = None if start is None else sum(max(0, n - start.get(k, 0)) for k, n in end.items())
    lag = {"/".join(k): max(0, n - end.get(k, 0)) for k, n in latest.items()}
    return Position(sum(lag.values()), sum(latest.values()), read, ArrivalBasis.PLANNED, lag)


def _offsets(value: object) -> dict[tuple[str, str], int] | None:
    if not isinstance(value, Mapping):
        return None
    return {(topic, part): int(n) for topic, parts in value.items() for part, n in parts.items()}


def _name(source: Mapping[str, Any]) -> str:
    return str(source.get("description", ""))


def _total(each: Sequence[Position], basis: ArrivalBasis) -> Position:
    backlog, end, read = (_sum([getattr(p, name) for p in each]) for name in ("backlog", "end", "read"))
    lag = {partition: rows for position in each for partition, rows in position.lag.items()}
    return Position(backlog, end, read, basis, lag)


def _sum(rows: Sequence[int | None]) -> int | None:
    return None if None in rows else sum(r for r in rows if r is not None)
