"""Rows of Kafka topics, counted as offsets.

Kafka's progress reports the end of every partition when the batch was planned. With ``availableNow`` that is the end
when the query started, so the broker is asked after each batch. Rows that Kafka deleted before they were read do not
count. Deviation: offsets of compacted or transactional topics also count entries that are not rows.

Spark internals: pinned to its version, covered by tests.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from millrace.runtime.telemetry.sources.api import UNKNOWN, ArrivalBasis, Position, Progress, Source, SourcePosition
from millrace.runtime.triggers import is_available_now

OFFSET = re.compile(r"^(.*)-(\d+) -> (\d+)$")
"""Topic, partition and offset."""
LOG = logging.getLogger(__name__)

Offsets = Mapping[tuple[str, str], int]
"""Offsets by topic and partition."""


class KafkaPosition(SourcePosition):
    """Counts the offsets of a Kafka source.

    Args:
        description: The source's name in progress events.
        latest: Returns the newest offset that the source has seen, as its JSON value; None if unknown.
        earliest: Returns the first offset that each partition still holds.
        newest: Returns the end of each partition now, for a query that takes all its batches from the ends at its
            start; nothing if it cannot be known, and None once the query has ended. None for other queries.
    """

    reads_all_below_limit = False  # a repeated batch, or one that lost rows, may be small while rows wait

    def __init__(
        self,
        description: str,
        latest: Callable[[], Any] = lambda: None,
        earliest: Callable[[], Offsets] = dict,
        newest: Callable[[], Offsets | None] | None = None,
    ) -> None:
        self._description, self._latest, self._earliest, self._newest = description, latest, earliest, newest
        self._seen: Offsets | None = None

    @classmethod
    def of(cls, source: Source) -> KafkaPosition | None:
        """Return the position of a Kafka source; None for other sources."""
        if not source.description.startswith("Kafka"):
            return None
        if not source.streams:
            return cls(source.description)
        stream = source.streams[-1]
        newest = partial(newest_offsets, stream, source) if is_available_now(source.query) else None
        return cls(source.description, partial(latest_offset, stream), partial(earliest_offsets, stream), newest)

    def after(self, progress: Progress) -> Position:
        """Return the position as of when the batch was planned; with ``availableNow`` as it is now."""
        start, end = _offsets(progress.get("startOffset")), _offsets(progress.get("endOffset"))
        position, rows = self._position(start, end, progress), progress.get("numInputRows")
        if not position.read or rows is None or int(rows) >= position.read:
            return position
        # fewer rows than offsets: transactions and compaction leave such gaps, and so does retention
        first, start = self._earliest(), start or {}
        if not any(min(n, first.get(k, 0)) > start.get(k, 0) for k, n in (end or {}).items()):
            return position
        LOG.warning(
            "%s: Kafka deleted rows before they were read. The arrival rate of this batch is unknown; counting "
            "continues with the next batch",
            self._description,
        )
        return UNKNOWN

    def at_rest(self, end: Any) -> Position:
        """Return the position as of the last trigger. Below ``minOffsetsPerTrigger``, rows wait without a batch."""
        return UNKNOWN if self._newest else _position(None, _offsets(end), _offsets(self._latest()))

    def _position(self, start: Offsets | None, end: Offsets | None, progress: Progress) -> Position:
        if self._newest is not None:
            asked = self._newest()
            self._seen = self._seen if asked is None else asked
        if self._seen is None:
            return _position(start, end, _offsets(progress.get("latestOffset")))
        return _position(start, end, self._seen, ArrivalBasis.COUNTED)


def latest_offset(stream: Any) -> Any:
    """Return the end of a Kafka source's topics as the source last saw it; None if it has not looked.

    A source checks at each trigger, even if it then starts no batch.

    Args:
        stream: Spark's own source.
    """
    try:
        offset = stream.reportLatestOffset()
    except Py4JJavaError:  # a NullPointerException if it has not looked
        return None
    return None if offset is None else json.loads(offset.json())


def earliest_offsets(stream: Any) -> Offsets:
    """Return the first offset that a Kafka source's broker still holds, by topic and partition.

    This asks the broker. Empty if the source cannot be asked from a second thread.

    Args:
        stream: Spark's own source, of a query that has planned a batch.
    """
    reader = _reader(stream)
    return {} if reader is None else _listed(reader.fetchEarliestOffsets())


def newest_offsets(stream: Any, source: Source) -> Offsets | None:
    """Return the ends of a Kafka source's topics now, by topic and partition; None if its query has ended.

    This asks the broker. Empty if the source cannot be asked from a second thread.

    Args:
        stream: Spark's own source, of a query that has planned a batch.
        source: The same source, with its query.
    """
    reader = _reader(stream)
    if reader is None:
        return {}
    if not source.query.isActive():
        return None
    try:
        return _listed(reader.fetchLatestOffsets(source.gateway.jvm.scala.Option.empty()))
    finally:
        if not source.query.isActive():
            reader.close()  # an ended query has closed it before, so this call has connected again


def _reader(stream: Any) -> Any:
    """Return what asks a Kafka source's broker; None if the source cannot be asked from a second thread."""
    if not str(stream.toString()).startswith("KafkaV2"):
        return None
    reader = stream.kafkaOffsetReader()
    return reader if str(reader.getClass().getSimpleName()) == "KafkaOffsetReaderAdmin" else None


def _listed(offsets: Any) -> Offsets:
    lines = str(offsets.mkString("\n")).splitlines()
    return {(m[1], m[2]): int(m[3]) for m in map(OFFSET.match, lines) if m}


def _position(
    start: Offsets | None, end: Offsets | None, latest: Offsets | None, basis: ArrivalBasis = ArrivalBasis.PLANNED
) -> Position:
    if end is None or latest is None or not end.keys() <= latest.keys():
        return UNKNOWN  # a partition without metadata may have rows
    read = None if start is None else sum(max(0, n - start.get(k, 0)) for k, n in end.items())
    lag = {"/".join(k): max(0, n - end.get(k, 0)) for k, n in latest.items()}
    return Position(sum(lag.values()), sum(latest.values()), read, basis, lag)


def _offsets(value: object) -> Offsets | None:
    if not isinstance(value, Mapping):
        return None
    return {(topic, part): int(n) for topic, parts in value.items() for part, n in parts.items()}
