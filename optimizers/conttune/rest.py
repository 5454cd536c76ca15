"""When a step was made, for which load: what a tuner that leaves healthy steps alone remembers of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.conttune.stored import mapping, numbers, whole


@dataclass(frozen=True)
class Step:
    """The last own step.

    Attributes:
        levels: p that it set, by operator.
        rates: Rows a second that it was made for, by operator.
    """

    levels: Mapping[str, int]
    rates: Mapping[str, float]

    def still(self, levels: Mapping[str, int], rates: Mapping[str, float], change: float) -> bool:
        """Say whether a job still has the levels of the step, and the load that it was made for.

        Args:
            levels: Present p by operator.
            rates: Present load by operator, rows a second; one that is unknown has not changed.
            change: Relative change of a rate that makes it another load, >= 0.
        """
        if any(self.levels.get(name) != p for name, p in levels.items()):
            return False
        pairs = [(rate, self.rates[name]) for name, rate in rates.items() if name in self.rates]
        return all(abs(now - then) <= change * max(now, then) for now, then in pairs)


def read(stored: object) -> Step | None:
    """Return a stored step; None if there is none."""
    found = mapping(stored)
    levels = {name: p for name, v in mapping(found.get("levels")).items() if (p := whole(v)) > 0}
    return Step(levels, numbers(found.get("rates"), 0.0)) if levels else None


def written(step: Step | None) -> Mapping[str, Any] | None:
    """Return a step as a JSON value."""
    return None if step is None else {"levels": dict(step.levels), "rates": dict(step.rates)}
