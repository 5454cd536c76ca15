"""How it is known what arrives at an app's sources: some sources count it, others only show what is read of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ArrivalBasis(StrEnum):
    """How what arrives is known, the surest first."""

    COUNTED = "counted"
    """The source itself: the rows of its log, its offsets."""
    PLANNED = "planned"
    """The source, but as it was when the batch was planned: what came during the batch shows with the next."""
    TAKEN = "taken"
    """A batch takes all that there is when it starts: what batches read is what arrived between their starts."""
    LISTED = "listed"
    """Files not read yet were listed, and their rows estimated from their bytes."""
    READ = "read"
    """What was read: nothing waited for long, as there was idle time, or batches that were not full."""
    AT_LEAST = "at_least"
    """What was read: every batch was full and followed by the next, so more may have arrived."""


PHRASES: Mapping[ArrivalBasis, str] = {
    ArrivalBasis.COUNTED: "{rate} rows/s {arrive}",
    ArrivalBasis.PLANNED: "{rate} rows/s {arrive}",
    ArrivalBasis.TAKEN: "{rate} rows/s {arrive} (each batch takes all there is)",
    ArrivalBasis.LISTED: "about {rate} rows/s {arrive} (by the bytes of unread files)",
    ArrivalBasis.READ: "{rate} rows/s {arrive} (all was read, with time to spare)",
    ArrivalBasis.AT_LEAST: "at least {rate} rows/s {arrive} "
    "(every batch was full; the source does not tell what waits)",
}


def arrival_phrase(basis: ArrivalBasis, rate: str, span_s: float | None = None) -> str:
    """Return for a person what arrives and how that is known.

    Args:
        basis: How it is known.
        rate: Rows per second, as text.
        span_s: Length of the span, up to now, in which they were counted, seconds; None if it is not known.
    """
    arrive = "arrive" if span_s is None else f"arrived in the last {max(1, round(span_s)):,} s"
    return PHRASES[basis].format(rate=rate, arrive=arrive)
