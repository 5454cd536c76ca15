"""A published tuner's own last step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from millrace.optimizers.memory import mapping, numbers, whole


@dataclass(frozen=True)
class LastStep:
    """A tuner's own last step, which stays as long as the load is the one that it was made for.

    Attributes:
        levels: p that it set, by operator.
        rates: Rows per second that it was made for, by operator.
    """

    levels: Mapping[str, int]
    rates: Mapping[str, float]

    def holds(self, levels: Mapping[str, int], rates: Mapping[str, float], change: float) -> bool:
        """Return whether a job still has the levels of the step, and the load that it was made for.

        Args:
            levels: Present p by operator.
            rates: Present load by operator, rows per second; unknown loads count as unchanged.
            change: Relative change of a rate that makes it another load, >= 0.
        """
        if any(self.levels.get(name) != p for name, p in levels.items()):
            return False
        pairs = [(rate, self.rates[name]) for name, rate in rates.items() if name in self.rates]
        return all(abs(now - then) <= change * max(now, then) for now, then in pairs)

    @classmethod
    def read(cls, stored: object) -> Self | None:
        """Return a stored step; None if there is none."""
        step = mapping(stored)
        levels = {name: p for name, v in mapping(step.get("levels")).items() if (p := whole(v)) > 0}
        return cls(levels, numbers(step.get("rates"), 0.0)) if levels else None

    def to_json(self) -> Mapping[str, Any]:
        """Return the step as a JSON value."""
        return {"levels": dict(self.levels), "rates": dict(self.rates)}
