"""Any source that does not count its rows: a batch below the source's limit has read everything."""

from __future__ import annotations

import math
from typing import Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

from millrace.runtime.telemetry.sources.api import UNKNOWN, ArrivalBasis, Position, Progress, SourcePosition

CONNECTOR = "org.apache.spark.sql.connector.read.streaming"


class LimitedPosition(SourcePosition):
    """Shows only whether a batch read everything, because reads are unlimited or the limit was not reached.

    Args:
        limit: Maximum rows per batch: ``inf`` if unlimited, None if limited but not in rows, ``nan`` if unknown.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit, self._unknown = limit, limit is not None and math.isnan(limit)

    def after(self, progress: Progress) -> Position:
        """Return whether the batch read everything; the rows are unknown."""
        if self._unknown:
            return UNKNOWN
        all_read = self._limit is not None and int(progress.get("numInputRows", 0)) < self._limit
        return Position(basis=ArrivalBasis.TAKEN if all_read else ArrivalBasis.READ)

    def at_rest(self, end: Any) -> Position:
        """Return that no rows wait: otherwise Spark would start a batch."""
        return UNKNOWN if self._unknown else Position(backlog=0, basis=ArrivalBasis.TAKEN)


def read_limit(stream: Any, gateway: Any) -> float | None:
    """Return the limit that a source itself reports to Spark: rows, ``inf`` if unlimited, None if not in rows.

    A source without ``SupportsAdmissionControl`` is always read to its end.

    Args:
        stream: Spark's own source, of a query that has planned a batch.
        gateway: Py4J's gateway of the session.
    """
    admits = is_instance_of(gateway, stream, f"{CONNECTOR}.SupportsAdmissionControl")
    return _rows(stream.getDefaultReadLimit()) if admits else math.inf


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
