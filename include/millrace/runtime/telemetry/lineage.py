"""Names of what queries read and write, the same on both sides, and the rows that a batch read from each.

Spark describes a table, a folder or a topic differently in a source and in a sink. A name here depends only on the data
itself: if one app's sink has the name of another app's source, the second app reads what the first one writes.

A path is ``path:/data/silver`` or ``path:s3://bucket/silver``, a Kafka topic is ``kafka:topic``. Names do not contain
brokers, so topics of the same name on two clusters look like one. A table of a catalog is named by its path, which
Spark shows for Delta and file tables. Other sources and sinks have no name: a wrong name would connect the wrong apps.

Spark internals: pinned to its version, covered by tests.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from millrace.lake.object_stores import OF_SPARK

SOURCE_WITH_PATH = re.compile(r"^(?:DeltaSource|FileStreamSource)\[(.*)\]$", re.DOTALL)
SINK_WITH_PATH = re.compile(r"^(?:DeltaSink|FileSink)\[(.*)\]$", re.DOTALL)
KAFKA_SOURCE = re.compile(r"^Kafka\w*\[")
URI = re.compile(r"^(?:([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?)?(/.*)?$", re.DOTALL)
"""Scheme, authority and path."""
GLOB = re.compile(r"/[^/]*[*?\[{].*$", re.DOTALL)
"""From the first part of a path that is a pattern."""
MOST_SOURCES = 100
"""Maximum number of names per batch: one query may read a thousand topics."""


def sources(entries: Sequence[Mapping[str, Any]], rows: int) -> dict[str, int]:
    """Return the rows of a batch by the name of their source; sources without a name are left out.

    Spark counts rows again if a query or its ``foreachBatch`` reads them twice, so its counts serve only as shares.

    Args:
        entries: The ``sources`` of the batch's progress event.
        rows: Rows that the batch read from all of them.
    """
    found: dict[str, int] = {}
    shares = _shares(rows, [int(entry.get("numInputRows") or 0) for entry in entries])
    for entry, share in zip(entries, shares, strict=True):
        for name, part in _named(entry, share).items():
            found[name] = found.get(name, 0) + part
    return dict(sorted(found.items(), key=lambda source: (-source[1], source[0]))[:MOST_SOURCES])


def sink(description: str) -> str:
    """Return the name of a sink, from its description in a progress event; "" if it does not show it."""
    match = SINK_WITH_PATH.match(description)
    return path(match[1]) if match else ""


def path(uri: str) -> str:
    """Return the name of a file or folder; "" if the path is relative, as it depends on the process.

    Args:
        uri: A path as Hadoop writes it: with a scheme, or an absolute local path.
    """
    match = URI.match(uri)
    if match is None or not (match[2] or match[3]):
        return ""
    scheme, authority = (match[1] or "file").lower(), match[2] or ""
    folder = posixpath.normpath("/" + (match[3] or "").lstrip("/"))
    if scheme == "file":
        return f"path:{folder}"
    scheme = OF_SPARK.get(scheme, scheme)
    return f"path:{scheme}://{authority}{folder.rstrip('/')}" if authority else f"path:{scheme}:{folder}"


def topic(name: str) -> str:
    """Return the name of a Kafka topic; "" for no topic."""
    return f"kafka:{name}" if name else ""


def _named(entry: Mapping[str, Any], rows: int) -> dict[str, int]:
    """Return the rows of one source by name: several names if it reads several topics."""
    description = str(entry.get("description", ""))
    if KAFKA_SOURCE.match(description):
        return _topics(entry.get("startOffset"), entry.get("endOffset"), rows)
    match = SOURCE_WITH_PATH.match(description)
    if match is None:
        return {}
    # a pattern reads what was written to the folder that it searches; a table has no patterns
    searched = GLOB.sub("/", match[1]) if description.startswith("FileStreamSource") else match[1]
    name = path(searched)
    return {name: rows} if name else {}


def _topics(start: Any, end: Any, rows: int) -> dict[str, int]:
    """Return the rows by topic, in proportion to the offsets that the batch passed.

    A query's first batch has no start: then a topic's share is all that it ever contained up to the batch's end.
    """
    try:
        before = start or {}
        passed = [
            sum(max(0, int(n) - int(before.get(name, {}).get(part, 0))) for part, n in parts.items())
            for name, parts in end.items()
        ]
    except (AttributeError, TypeError, ValueError):  # not Kafka's offsets
        return {}
    return dict(zip(map(topic, end), _shares(rows, passed), strict=True))


def _shares(rows: int, weights: Sequence[int]) -> list[int]:
    """Divide rows by weight into whole numbers that add up to ``rows``; a part without weight gets none.

    If nothing has weight, the only part gets all rows, and several parts get none, as their shares are unknown.
    """
    total = sum(weights)
    if not total:
        return [rows] if len(weights) == 1 else [0] * len(weights)
    whole = [rows * weight // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda n: -(rows * weights[n] % total))
    for n in by_remainder[: rows - sum(whole)]:
        whole[n] += 1
    return whole
