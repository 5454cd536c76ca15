"""Allowed values of an optimizer's options, and the error that names what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from include.model.errors import MillraceError

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


POSITIVE = Range(0, math.inf, low_open=True, high_open=True)
"""Finite numbers above 0."""
NOT_NEGATIVE = Range(0, math.inf, high_open=True)
"""Finite numbers from 0."""
SHARE = Range(0, 1, low_open=True)
"""A share that is not nothing."""

Allowed = Range | tuple[str, ...] | type[int] | None
"""A range of numbers, one of some words, a whole number >= 1 (``int``), or a switch (None)."""


TUNER = "tuner.options"
"""Section of the spec that a tuner's options stand in."""
ADMISSION = "admission.options"
"""Section that those of input admission stand in."""


def check(name: str, value: object, allowed: Allowed, section: str = TUNER) -> None:
    """Refuse a value of a wrong type or out of range.

    Args:
        name: Name of the option.
        value: What was given.
        allowed: What may be given.
        section: Where the option stands.

    Raises:
        MillraceError: With the option, its value, the allowed range and the remedy.
    """
    at = key(name, section)
    if allowed is None:
        if not isinstance(value, bool):
            raise MillraceError(at, value, "true or false", "Switch it on or off.")
    elif isinstance(allowed, tuple):
        if value not in allowed:
            raise MillraceError(at, value, ", ".join(allowed), "Choose one of these.")
    elif isinstance(allowed, Range):
        if isinstance(value, bool) or not isinstance(value, int | float) or value not in allowed:
            raise MillraceError(at, value, f"a number in {allowed}", "Set a value within the range.")
    elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MillraceError(at, value, "a whole number >= 1", "Set a whole number.")


def check_fields(options: object, allowed: Mapping[str, Allowed], section: str = TUNER) -> None:
    """Refuse the first field of an options dataclass that is of a wrong type or out of range.

    Args:
        options: The dataclass.
        allowed: What may be given, by field; fields that are not in it are the caller's to check.
        section: Where the options stand.

    Raises:
        MillraceError: With the option, its value, the allowed range and the remedy.
    """
    for field in fields(options):  # type: ignore[arg-type]
        if field.name in allowed:
            check(field.name, getattr(options, field.name), allowed[field.name], section)


def parse_fields(kind: type[T], options: Mapping[str, Any], extra: tuple[str, ...] = (), section: str = TUNER) -> T:
    """Return an options dataclass from a section of a spec; what is absent has its default.

    Args:
        kind: The dataclass.
        options: By name.
        extra: Further names that the caller took out before, told among the allowed ones.
        section: Where the options stand.

    Raises:
        MillraceError: If an option is unknown, or a value of a wrong type or out of range.
    """
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            allowed = ", ".join(sorted({*known, *extra}))
            at, remedy = key(str(name), section), "Remove the option or correct its name."
            raise MillraceError(at, options[name], allowed, remedy)
    return kind(**options)


def key(name: str, section: str = TUNER) -> str:
    """Return an option's name as the spec has it."""
    return f"{section}.{name}"
