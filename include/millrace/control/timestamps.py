"""Points in time as people write them: a date, a time, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from millrace.model.errors import MillraceError

UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
DURATION = r"^(\d+[dhms])+$"
PATTERN = rf"{DURATION}|^\d{{4}}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?)?$"
"""What a form accepts; :func:`parse_timestamp` accepts any ISO 8601."""
ALLOWED = "a time such as 2026-03-01T12:00 (UTC), or how long ago: 90m, 2h, 1d12h"


def parse_timestamp(text: str, now: datetime, key: str) -> datetime:
    """Return the point in time (UTC) that a person wrote.

    Args:
        text: ISO 8601, in UTC if it has no zone; or a duration before now, in days, hours, minutes and seconds.
        now: The present (UTC).
        key: The person's name for it, for the error.

    Raises:
        MillraceError: If it is neither, or earlier than any date.
    """
    given = text.strip()
    try:
        if re.match(DURATION, given):
            parts = {unit: int(number) for number, unit in re.findall(r"(\d+)([dhms])", given)}
            return now - timedelta(**{UNITS[unit]: number for unit, number in parts.items()})
        time = datetime.fromisoformat(given)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise MillraceError(key, text, ALLOWED, "Write it like one of these.") from None
