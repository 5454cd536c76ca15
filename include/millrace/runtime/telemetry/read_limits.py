"""Maximum rows per batch of each source, as the source itself reports it to Spark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

CONNECTOR = "org.apache.spark.sql.connector.read.streaming"


def read_limits(query: Any, gateway: Any) -> Mapping[str, float | None]:
    """Return the limit of each source by its description: rows, ``inf`` if unlimited, None if not in rows.

    A source without ``SupportsAdmissionControl`` is always read to its end.

    Args:
        query: Spark's own query, ``StreamExecution``, that has planned a batch.
        gateway: Py4J's gateway of the session.
    """
    sources, limits = query.sources(), dict[str, float | None]()
    for source in (sources.apply(n) for n in range(sources.size())):
        admits = is_instance_of(gateway, source, f"{CONNECTOR}.SupportsAdmissionControl")
        limits[str(source.toString())] = _rows(source.getDefaultReadLimit()) if admits else math.inf
    return limits


def _rows(limit: Any) -> float | None:
    match str(limit.getClass().getSimpleName()):
        case "ReadAllAvailable" | "ReadMinRows":
            return math.inf
        case "ReadMaxRows":
            return float(limit.maxRows())
        case "CompositeReadLimit":
            rows = [_rows(part) for part in limit.getReadLimits()]
            return None if None in rows else min(r for r in rows if r is not None)
        case _:
            return None
