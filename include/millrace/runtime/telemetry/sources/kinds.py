"""Find the class of each source of a query.

To add a kind of source, write it next to the others and add it to :data:`KINDS`, or install a package with an entry
point in the group ``millrace.sources`` (``docs/add_source.md``). Packages cannot replace a built-in kind.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from millrace.runtime.telemetry.sources.api import Kind, Source, SourcePosition
from millrace.runtime.telemetry.sources.delta import DeltaPosition
from millrace.runtime.telemetry.sources.kafka import KafkaPosition
from millrace.runtime.telemetry.sources.limited import LimitedPosition, read_limit
from millrace.runtime.telemetry.sources.unread_files import UnreadFiles

KINDS: tuple[Kind, ...] = (DeltaPosition.of, KafkaPosition.of, UnreadFiles.of)
GROUP = "millrace.sources"
"""Group of the entry points that are kinds of sources."""
LOG = logging.getLogger(__name__)


def find(source: Source) -> SourcePosition:
    """Return the position of a source, by the first kind that takes it; otherwise only its limit counts."""
    for kind in _all():
        try:
            position = kind(source)
            if position is not None:
                return position
        except Exception as error:  # a source that cannot be counted is no reason to stop
            LOG.warning("The backlog of %s is unknown: %s", source.description, error)
    return LimitedPosition(source.limit)


def _all() -> Iterator[Kind]:
    """Yield the built-in kinds, then those of installed packages, which are imported when they are called."""
    yield from KINDS
    yield from (partial(_installed, entry) for entry in entry_points(group=GROUP))


def _installed(entry: EntryPoint, source: Source) -> SourcePosition | None:
    position: SourcePosition | None = entry.load()(source)
    return position


def spark_sources(
    query: Any, gateway: Any = None, interval_s: float = 0.0, kept: dict[Any, Any] | None = None
) -> list[Source]:
    """Return the sources of a query, one per description.

    Args:
        query: Spark's own query, ``StreamExecution``, that has planned a batch or found none to plan.
        gateway: Py4J's gateway of the session; without it, limits are unknown and files are not followed.
        interval_s: Minimum time between two expensive checks of a source, seconds.
        kept: Counts of the query's sources that its next run in this driver continues.
    """
    sources = query.sources().distinct()  # as in progress events
    streams: dict[str, list[Any]] = {}
    for stream in (sources.apply(n) for n in range(sources.size())):
        streams.setdefault(str(stream.toString()), []).append(stream)
    kept = {} if kept is None else kept
    return [
        Source(name, same, gateway, _limit(same[-1], gateway), interval_s, kept, query)
        for name, same in streams.items()
    ]


def _limit(stream: Any, gateway: Any) -> float | None:
    if gateway is None:
        return math.nan
    try:
        return read_limit(stream, gateway)
    except Exception as error:
        LOG.warning("The limit of %s is unknown: %s", stream.toString(), error)
        return math.nan
