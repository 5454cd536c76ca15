"""How a query reads its sources, from Spark's own source objects, which hold the options that the script set.

Spark and Delta internals: pinned to their versions, covered by tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from millrace.lake.source_commits import DeltaRead

FIRST_OFFSET = re.compile(r"^(.*)-(\d+) -> (\d+)$")
"""Topic, partition and offset."""


def delta_reads(query: Any) -> Mapping[str, DeltaRead]:
    """Return how a query reads its Delta sources, by their description.

    Sources with the same description but different options are left out.

    Args:
        query: Spark's own query, ``StreamExecution``, that has planned a batch.
    """
    reads = dict[str, DeltaRead]()
    ambiguous = set[str]()
    for source in _sources(query):
        if str(source.getClass().getSimpleName()) == "DeltaSource":
            name, read = str(source.toString()), _delta_read(source)
            if reads.setdefault(name, read) != read:
                ambiguous.add(name)
    return {name: read for name, read in reads.items() if name not in ambiguous}


def latest_offsets(query: Any) -> Mapping[str, Any]:
    """Return the end of each Kafka source's topics as the source last saw it, by description.

    A source checks at each trigger, even if it then starts no batch.

    Args:
        query: Spark's own query, ``StreamExecution``.
    """
    # other sources are not asked: they may list their files or have side effects
    kafka = [source for source in _sources(query) if str(source.toString()).startswith("Kafka")]
    reported = {str(source.toString()): source.reportLatestOffset() for source in kafka}
    return {name: json.loads(offset.json()) for name, offset in reported.items() if offset is not None}


def earliest_offsets(query: Any, description: str) -> Mapping[tuple[str, str], int]:
    """Return the first offset that a Kafka source's broker still holds, by topic and partition.

    This asks the broker. Empty if the source cannot be asked from a second thread.

    Args:
        query: Spark's own query, ``StreamExecution``, that has planned a batch.
        description: The source's description.
    """
    for source in _sources(query):
        if str(source.toString()) == description and description.startswith("KafkaV2"):
            reader = source.kafkaOffsetReader()
            if str(reader.getClass().getSimpleName()) == "KafkaOffsetReaderAdmin":
                lines = str(reader.fetchEarliestOffsets().mkString("\n")).splitlines()
                return {(m[1], m[2]): int(m[3]) for m in map(FIRST_OFFSET.match, lines) if m}
    return {}


def _sources(query: Any) -> list[Any]:
    sources = query.sources()
    return [sources.apply(n) for n in range(sources.size())]


def _delta_read(source: Any) -> DeltaRead:
    options = source.options()
    regex = options.excludeRegex()
    pattern = None if regex.isEmpty() else regex.get().pattern()
    starts = options.containsStartingVersionOrTimestamp()

    def first_version() -> int | None:
        # Spark evaluates it once, at a query's first batch: "latest" and timestamps keep their meaning
        return int(source.getStartingVersion().get()) if starts else None

    return DeltaRead(
        skip_changes=bool(options.skipChangeCommits()),
        change_feed=bool(options.readChangeFeed()),
        exclude=None if pattern is None else str(pattern.pattern()),
        excludes=lambda path: pattern is not None and bool(pattern.matcher(path).find()),
        first_version=first_version,
    )
