"""Allowed values of a tuner's options, and the error that names what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from include.contracts.errors import MillraceError

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Numbers between two ends, which belong to it unless they are open."""

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        """Say whether a number lies within."""
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below

    def __str__(self) -> str:
        """Return the range as people write it."""
        high = ", " + f"{self.high:g}" if math.isfinite(self.high) or not self.high_open else ", inf"
        return f"{'(' if self.low_open else '['}{self.low:g}{high}{')' if self.high_open else ']'}"


Allowed = Range | tuple[str, ...] | type[int] | None
"""A range of numbers, one of some words, a whole number >= 1 (``int``), or a switch (None)."""


def check(name: str, value: object, allowed: Allowed) -> None:
    """Refuse a value of a wrong type or out of range.

    Args:
        name: Name of the option.
        value: What was given.
        allowed: What may be given.

    Raises:
        MillraceError: With the option, its value, the allowed range and the remedy.
    """
    if allowed is None:
        if not isinstance(value, bool):
            raise MillraceError(key(name), value, "true or false", "Switch it on or off.")
    elif isinstance(allowed, tuple):
        if value not in allowed:
            raise MillraceError(key(name), value, ", ".join(allowed), "Choose one of these.")
    elif isinstance(allowed, Range):
        if isinstance(value, bool) or not isinstance(value, int | float) or value not in allowed:
            raise MillraceError(key(name), value, f"a number in {allowed}", "Set a value within the range.")
    elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MillraceError(key(name), value, "a whole number >= 1", "Set a whole number.")


def parse_fields(kind: type[T], options: Mapping[str, Any], extra: tuple[str, ...] = ()) -> T:
    """Return an options dataclass from a spec's ``tuner.options``; what is absent has its default.

    Args:
        kind: The dataclass.
        options: By name.
        extra: Further names that the caller took out before, told among the allowed ones.

    Raises:
        MillraceError: If an option is unknown, or a value of a wrong type or out of range.
    """
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            allowed = ", ".join(sorted({*known, *extra}))
            raise MillraceError(key(str(name)), options[name], allowed, "Remove the option or correct its name.")
    return kind(**options)


def key(name: str) -> str:
    """Return an option's name as the spec has it."""
    return f"tuner.options.{name}"
