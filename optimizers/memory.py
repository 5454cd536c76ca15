"""Read what an optimizer stored in its Memory; treat unreadable values as missing."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """Return a stored object by name; empty if the value is not an object."""
    return {str(name): item for name, item in value.items()} if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Any]:
    """Return a stored list; empty if the value is not a list."""
    return tuple(value) if isinstance(value, list | tuple) else ()


def number(value: object, least: float = -math.inf) -> float | None:
    """Return a stored finite number >= ``least``; None if the value is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # a whole number may be too large for a float; comparisons with NaN are false
    return float(value) if least <= value and abs(value) <= sys.float_info.max else None


def numbers(value: object, least: float = -math.inf) -> Mapping[str, float]:
    """Return the finite numbers >= ``least`` in a stored object, by name."""
    return {name: n for name, v in mapping(value).items() if (n := number(v, least)) is not None}


def whole(value: object, least: int = 0) -> int:
    """Return a stored whole number >= ``least``; ``least`` if the value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= least else least
