"""How an app's arrival rate is known: some sources count rows, others only show what is read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ArrivalBasis(StrEnum):
    """How arrival is known, the most certain first."""

    COUNTED = "counted"
    """From the source itself: the rows of its log, its offsets."""
    PLANNED = "planned"
    """From the source, as of when the batch was planned: rows that came during the batch show with the next."""
    TAKEN = "taken"
    """From batches that read everything there is when they start: each reads what arrived since the last start."""
    LISTED = "listed"
    """From listed files that are still unread, with their rows estimated from their bytes."""
    READ = "read"
    """From what was read: nothing waited for long, as there was idle time, or batches were not full."""
    FED = "fed"
    """From the other apps of its pipeline: what they will pass on if none of them is behind."""
    AT_LEAST = "at_least"
    """From what was read: every batch was full and followed by the next, so more may have arrived."""


PHRASES: Mapping[ArrivalBasis, str] = {
    ArrivalBasis.COUNTED: "{rate} rows/s {arrive}",
    ArrivalBasis.PLANNED: "{rate} rows/s {arrive}",
    ArrivalBasis.TAKEN: "{rate} rows/s {arrive} (each batch reads everything available)",
    ArrivalBasis.LISTED: "about {rate} rows/s {arrive} (estimated from the size of unread files)",
    ArrivalBasis.READ: "{rate} rows/s {arrive} (everything was read, with time to spare)",
    ArrivalBasis.FED: "{rate} rows/s have to be processed once the apps that feed it keep up",
    ArrivalBasis.AT_LEAST: "at least {rate} rows/s {arrive} (every batch was full; the source reports no backlog)",
}


def arrival_phrase(basis: ArrivalBasis, rate: str, span_s: float | None = None) -> str:
    """Say how much arrives, and how that is known.

    Args:
        basis: How it is known.
        rate: Rows per second, as text.
        span_s: Length of the span up to now in which they were counted, seconds; None if unknown.
    """
    arrive = "arrive" if span_s is None else f"arrived in the last {max(1, round(span_s)):,} s"
    return PHRASES[basis].format(rate=rate, arrive=arrive)
