"""Lengths of time as Spark writes them, in microseconds."""

from __future__ import annotations

import re
from datetime import timedelta

from include.model.errors import MillraceError

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
"""Length of each unit. Months have none: Spark refuses them too."""
_TERM = re.compile(r"([+-]?\d+)\s*([a-z]+?)s?(?=[\s\d+-]|$)")


def microseconds(key: str, duration: str | timedelta) -> int:
    """Return a duration's length in microseconds.

    Args:
        key: The argument's name, for the error.
        duration: Such as ``"1 hour 30 minutes"``, or a timedelta.

    Raises:
        MillraceError: If it is no such text, or has months or years.
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    text = duration.strip().lower().removeprefix("interval").strip() if isinstance(duration, str) else ""
    terms = _TERM.findall(text)
    rest = _TERM.sub("", text).strip()
    if not terms or rest or any(unit not in MICROSECONDS for _, unit in terms):
        allowed = f"whole numbers of {', '.join(MICROSECONDS)}"
        raise MillraceError(key, duration, allowed, 'Write it as "60 minutes".')
    return sum(int(number) * MICROSECONDS[unit] for number, unit in terms)


def text(length_us: int) -> str:
    """Return a length in microseconds as Spark reads it."""
    return f"{length_us} microseconds"
