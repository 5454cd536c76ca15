"""Allowed values of ContTune's options."""

from __future__ import annotations

import math
from dataclasses import dataclass

from include.contracts.errors import MillraceError


@dataclass(frozen=True)
class _Range:
    low: float
    high: float
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below

    def __str__(self) -> str:
        high = ", " + f"{self.high:g}" if math.isfinite(self.high) or not self.high_open else ", inf"
        return f"{'(' if self.low_open else '['}{self.low:g}{high}{')' if self.high_open else ']'}"


_RATIO = _Range(0, 1)
_POSITIVE = _Range(0, math.inf, low_open=True, high_open=True)
_NOT_NEGATIVE = _Range(0, math.inf, high_open=True)
_WORDS = {"small": ("cbo", "linear", "none"), "acquisition": ("safe", "cei"), "surrogate": ("power_law", "rbf")}
_RANGES = {
    "alpha": _Range(0, math.inf),
    "decision_thr": _NOT_NEGATIVE,
    "backpressure_thr": _RATIO,
    "core_min_thr": _Range(0, 1, high_open=True),
    "core_max_thr": _Range(0, 1, low_open=True),
    "slack": _Range(0, 1, high_open=True),
    "hysteresis": _NOT_NEGATIVE,
    "tolerance": _NOT_NEGATIVE,
    "confidence": _Range(0.5, 1, high_open=True),
    "ineffective_thr": _RATIO,
    "ineffective_for_s": _POSITIVE,
    "exponent": _Range(0, 1.5, low_open=True),
    "exponent_sd": _Range(0, 1, low_open=True),
}


def check(name: str, value: object) -> None:
    """Refuse a value of a wrong type or out of range.

    Args:
        name: Name of the option; one without words or range is a switch.
        value: What was given.

    Raises:
        MillraceError: With the option, its value, the allowed range and the remedy.
    """
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise MillraceError(key(name), value, ", ".join(_WORDS[name]), "Choose one of these.")
    elif name == "top_k":
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise MillraceError(key(name), value, "a whole number >= 1", "Set the number of observations to average.")
    elif name in _RANGES:
        if isinstance(value, bool) or not isinstance(value, int | float) or value not in _RANGES[name]:
            raise MillraceError(key(name), value, f"a number in {_RANGES[name]}", "Set a value within the range.")
    elif not isinstance(value, bool):
        raise MillraceError(key(name), value, "true or false", "Switch it on or off.")


def key(name: str) -> str:
    """Return an option's name as the spec has it."""
    return f"tuner.options.{name}"
