"""Options with which a script limits the batches of its sources."""

from __future__ import annotations

import re

MAX_FILES, MAX_OFFSETS, MAX_BYTES = "maxFilesPerTrigger", "maxOffsetsPerTrigger", "maxBytesPerTrigger"
OPTIONS = (MAX_FILES, MAX_OFFSETS, MAX_BYTES)
SIZE = re.compile(r"(\d+)\s*(?:([kmgt])i?)?b?", re.IGNORECASE)
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def option_named(name: str) -> str | None:
    """Return the option that a reader's option stands for, in any case; None for any other option."""
    return next((option for option in OPTIONS if option.lower() == name.lower()), None)


def plain_value(value: object) -> int | None:
    """Return an option's value as a number: ``64``, ``"64"``, or bytes such as ``"10m"``; None if it is none."""
    match = SIZE.fullmatch(str(value).strip())
    return None if match is None else int(match[1]) * UNITS.get((match[2] or "").lower(), 1)
