"""When to report a batch that still runs: if more arrives than last reported, or the batch is overdue."""

from __future__ import annotations

from datetime import datetime

from millrace.model.telemetry import BatchMetrics

RISE = 1.25
"""Factor over the last reported rate from which a rate is reported before the batch ends."""
OVERDUE = 1.5
"""Factor over the previous batch's duration from which a batch is overdue."""


def rate_since(row: BatchMetrics, end: int | None, time: datetime) -> float | None:
    """Return the rows per second that have arrived since a row; None if unknown.

    Args:
        row: A batch or a marker.
        end: Rows ever committed to the sources at ``time``.
        time: End of the period (UTC).
    """
    seconds = (time - row.time).total_seconds()
    return None if end is None or row.source_end is None or seconds <= 0 else (end - row.source_end) / seconds


def has_risen(rate: float | None, reported: float | None) -> bool:
    """Return whether a rate is clearly above the last reported one, rows per second; False if either is unknown."""
    return rate is not None and reported is not None and rate > RISE * reported


def is_overdue(ran_s: float, usual_s: float) -> bool:
    """Return whether a batch has run much longer than usual, seconds."""
    return ran_s > OVERDUE * usual_s
