"""Where a query stands in its sources: rows waiting, rows ever committed, rows read, each exact or None.

Delta sources are counted in the table's log. Kafka's progress names the end of every partition as of when the batch was
planned. Of other sources it is known whether a batch took all there was: where their read is not limited, or the limit
was not reached. Unread files of limited file sources are listed. Several sources are summed; one that does not tell its
rows makes the sum None, as half a backlog would mislead.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from millrace.lake.backlog import DeltaOffset, DeltaSource, local_path
from millrace.model.arrival import ArrivalBasis
from millrace.runtime.telemetry.unread_files import UnreadFiles

DELTA = re.compile(r"^DeltaSource\[(.*)\]$")
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Position:
    """A query's place in one or all of its sources, in rows.

    Attributes:
        backlog: Committed and not yet read.
        end: Ever committed.
        read: Read by the batch.
        basis: How what arrives is known from it; None if it is not.
        lag: Rows waiting in each partition (``topic/partition``); empty where the source has none.
    """

    backlog: int | None = None
    end: int | None = None
    read: int | None = None
    basis: ArrivalBasis | None = None
    lag: Mapping[str, int] = field(default_factory=dict)


UNKNOWN = Position()
COUNTS = (ArrivalBasis.COUNTED, ArrivalBasis.PLANNED)


class Positions:
    """Follows the sources of one query run.

    Args:
        limits: Rows that a batch takes of each source at most (:func:`~millrace.runtime.telemetry.read_limits`).
        files: What follows limited file sources, by description.
        open_source: Opens a Delta table's log; a double in tests.
    """

    def __init__(
        self,
        limits: Mapping[str, float | None] = MappingProxyType({}),
        files: Mapping[str, UnreadFiles] = MappingProxyType({}),
        open_source: Callable[..., DeltaSource] = DeltaSource,
    ) -> None:
        self._limits, self._files, self._open = limits, dict(files), open_source
        self._tables: dict[tuple[str, str], DeltaSource] = {}
        self._reported: set[str] = set()

    def of(self, sources: Sequence[Mapping[str, Any]]) -> Position:
        """Return the place after a batch, from the ``sources`` of its progress event."""
        each = [self._counted(source) for source in sources]
        basis = self._basis(sources, each)
        if basis in COUNTS:
            return _total(each, basis)
        if basis is not ArrivalBasis.LISTED:
            return Position(basis=basis)
        waiting = [self._estimated(s) if p.end is None else p.backlog for s, p in zip(sources, each, strict=True)]
        return Position(backlog=_sum(waiting), basis=basis)

    def at_rest(self, sources: Sequence[Mapping[str, Any]]) -> Position:
        """Return the place of a query that found nothing new after the batch whose ``sources`` are given."""
        each = [self._counted({**s, "startOffset": None, "latestOffset": s.get("endOffset")}) for s in sources]
        basis = self._basis(sources, each)
        if basis in COUNTS:
            return _total(each, basis)
        if basis is None:
            return UNKNOWN
        return Position(backlog=0, basis=basis if basis is ArrivalBasis.LISTED else ArrivalBasis.TAKEN)

    def _basis(self, sources: Sequence[Mapping[str, Any]], each: Sequence[Position]) -> ArrivalBasis | None:
        names = [str(source.get("description")) for source in sources]
        untold = [name for name, position in zip(names, each, strict=True) if position.end is None]
        if names and not untold:
            planned = any(position.basis is ArrivalBasis.PLANNED for position in each)
            return ArrivalBasis.PLANNED if planned else ArrivalBasis.COUNTED
        if names and all(name in self._files and self._files[name].active for name in untold):
            return ArrivalBasis.LISTED
        if not names or not self._limits.keys() >= set(names):
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
        description = str(source.get("description", ""))
        try:
            if table := DELTA.match(description):
                return self._delta(table[1], source)
            if description.startswith("Kafka"):
                return kafka(source)
        except Exception as error:
            self._report(description, error)
        return UNKNOWN

    def _report(self, description: str, error: Exception) -> None:
        if description not in self._reported:  # a source that cannot be counted is no reason to stop
            self._reported.add(description)
            LOG.warning("No backlog of %s: %s", description, error)

    def _delta(self, uri: str, source: Mapping[str, Any]) -> Position:
        end = source.get("endOffset")
        path = local_path(uri)
        if path is None or not isinstance(end, Mapping):
            return UNKNOWN
        key = (uri, str(end["reservoirId"]))  # a table that was made anew has another id
        if key not in self._tables:
            self._tables[key] = self._open(path)
        table, offset = self._tables[key], DeltaOffset.from_plain(dict(end))
        table.refresh()
        backlog = table.rows_after(offset)
        result = Position(backlog, table.total_rows, _read(table, source, offset, backlog))
        table.forget_before(offset.version)
        return result


def _read(table: DeltaSource, source: Mapping[str, Any], end: DeltaOffset, backlog: int | None) -> int | None:
    """Return the rows between a batch's offsets."""
    start = source.get("startOffset")
    if isinstance(start, Mapping):
        before = table.rows_after(DeltaOffset.from_plain(dict(start)))
        return None if before is None or backlog is None else before - backlog
    # a query's first batch: from the table's snapshot, or from a version that only the query's options tell
    first = DeltaOffset(end.version if end.snapshot else end.version - 1, -1, True)
    before = table.rows_after(first) if first.version >= 0 else None
    if before is None or backlog is None or before <= backlog:
        return None
    counted = int(source.get("numInputRows", 0))
    return before - backlog if counted and counted % (before - backlog) == 0 else None


def kafka(source: Mapping[str, Any]) -> Position:
    """Return the place in Kafka topics: offsets by topic and partition, counted as rows.

    Deviation: offsets of compacted or transactional topics also count what is no row.
    """
    start, end, latest = (_offsets(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset"))
    if end is None or latest is None:
        return UNKNOWN
    read = None if start is None else sum(max(0, n - start.get(k, 0)) for k, n in end.items())
    lag = {"/".join(k): max(0, n - end.get(k, 0)) for k, n in latest.items()}
    return Position(sum(lag.values()), sum(latest.values()), read, ArrivalBasis.PLANNED, lag)


def _offsets(value: object) -> dict[tuple[str, str], int] | None:
    if not isinstance(value, Mapping):
        return None
    return {(topic, part): int(n) for topic, parts in value.items() for part, n in parts.items()}


def _total(each: Sequence[Position], basis: ArrivalBasis) -> Position:
    backlog, end, read = (_sum([getattr(p, name) for p in each]) for name in ("backlog", "end", "read"))
    lag = {partition: rows for position in each for partition, rows in position.lag.items()}
    return Position(backlog, end, read, basis, lag)


def _sum(rows: Sequence[int | None]) -> int | None:
    return None if None in rows else sum(r for r in rows if r is not None)


def newest_batch(query: Any) -> tuple[int, list[Any]]:
    """Return number and end offsets of a query's newest batch, -1 and none before the first.

    From the query's own log of offsets (internal to Spark: pinned with its version, held by tests).

    Args:
        query: Spark's own query, ``StreamExecution``.
    """
    batch = query.offsetLog().getLatest()
    if batch.isEmpty():
        return -1, []
    offsets = batch.get()._2().offsets()
    ends = [offsets.apply(n) for n in range(offsets.size())]
    return int(batch.get()._1()), [json.loads(end.get().json()) if end.isDefined() else None for end in ends]


def source_names(query: Any) -> list[str]:
    """Return the sources of a query as its progress names them, in the order of its offsets."""
    sources = query.sources()
    return [str(sources.apply(n).toString()) for n in range(sources.size())]
