"""When to report a batch that still runs: if more arrives than was last reported, or the batch is overdue."""

from __future__ import annotations

from datetime import datetime

from millrace.model.telemetry import BatchMetrics

RISE = 1.25
"""Factor by which a rate exceeds the one last reported, from which it is reported before the batch ends."""
OVERDUE = 1.5
"""Factor by which a batch exceeds the one before it, from which it is overdue."""


def rate_since(row: BatchMetrics, end: int | None, time: datetime) -> float | None:
    """Return the rows per second that arrived since a row; None if that is not known.

    Args:
        row: A batch or a marker.
        end: Rows ever committed to the sources by then.
        time: Then (UTC).
    """
    seconds = (time - row.time).total_seconds()
    return None if end is None or row.source_end is None or seconds <= 0 else (end - row.source_end) / seconds


def has_risen(rate: float | None, reported: float | None) -> bool:
    """Say whether a rate is clearly above the one last reported, rows per second; False if one is not known."""
    return rate is not None and reported is not None and rate > RISE * reported


def is_overdue(ran_s: float, usual_s: float) -> bool:
    """Say whether a batch has run for longer than is usual, seconds."""
    return ran_s > OVERDUE * usual_s
