"""Find the class of each source of a query.

To add a kind of source, write it next to the others and add it to :data:`KINDS`.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from millrace.runtime.telemetry.sources.api import Kind, Source, SourcePosition
from millrace.runtime.telemetry.sources.delta import DeltaPosition
from millrace.runtime.telemetry.sources.kafka import KafkaPosition
from millrace.runtime.telemetry.sources.limited import LimitedPosition, read_limit
from millrace.runtime.telemetry.sources.unread_files import UnreadFiles

KINDS: tuple[Kind, ...] = (DeltaPosition.of, KafkaPosition.of, UnreadFiles.of)
LOG = logging.getLogger(__name__)


def find(source: Source) -> SourcePosition:
    """Return the position of a source, by the first kind that takes it; otherwise only its limit counts."""
    for kind in KINDS:
        try:
            position = kind(source)
            if position is not None:
                return position
        except Exception as error:  # a source that cannot be counted is no reason to stop
            LOG.warning("The backlog of %s is unknown: %s", source.description, error)
    return LimitedPosition(source.limit)


def spark_sources(
    query: Any, gateway: Any = None, interval_s: float = 0.0, kept: dict[Any, Any] | None = None
) -> list[Source]:
    """Return the sources of a query, one per description.

    Args:
        query: Spark's own query, ``StreamExecution``, that has planned a batch or found none to plan.
        gateway: Py4J's gateway of the session; without it, limits are unknown and files are not followed.
        interval_s: Minimum time between two expensive checks of a source, seconds.
        kept: What the query's sources keep for its next run in this driver.
    """
    sources = query.sources()
    streams: dict[str, list[Any]] = {}
    for stream in (sources.apply(n) for n in range(sources.size())):
        streams.setdefault(str(stream.toString()), []).append(stream)
    kept = {} if kept is None else kept
    return [Source(name, same, gateway, _limit(same[-1], gateway), interval_s, kept) for name, same in streams.items()]


def _limit(stream: Any, gateway: Any) -> float | None:
    if gateway is None:
        return math.nan
    try:
        return read_limit(stream, gateway)
    except Exception as error:
        LOG.warning("The limit of %s is unknown: %s", stream.toString(), error)
        return math.nan
