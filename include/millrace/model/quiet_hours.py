"""Spans of the day, UTC, in which nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

DAY = 24 * 60
"""Minutes."""


def quiet_span(now: datetime, spans: Iterable[str]) -> str | None:
    """Return the span that contains a time; None if none does.

    Args:
        now: The time.
        spans: Such as ``22:00-06:00``, UTC, the end excluded; a span that ends before it starts ends on the next day.
    """
    time = now.astimezone(UTC)
    minute = time.hour * 60 + time.minute
    for span in spans:
        start, end = (_minute(text) for text in span.split("-"))
        if start <= minute < end if start <= end else minute >= start or minute < end:
            return span
    return None


def is_empty(span: str) -> bool:
    """Return whether a span contains no time, such as ``00:00-00:00``; ``00:00-24:00`` is the whole day."""
    start, end = (_minute(text) for text in span.split("-"))
    return end <= start and (start - end) % DAY == 0


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
