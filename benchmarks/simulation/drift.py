"""Processing ability that changes over time: more state, a slower disk, a neighbour on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One change of ability.

    Attributes:
        at_s: Start, seconds.
        factor: Ability afterwards divided by ability before, > 0.
        over_s: Duration; 0 for a step.
        operators: The affected operators; empty for all.
    """

    at_s: float
    factor: float = 0.75
    over_s: float = 0.0
    operators: tuple[str, ...] = ()

    def factor_at(self, time: float) -> float:
        """Return the factor at a time; a gradual change is linear."""
        if time < self.at_s:
            return 1.0
        done = 1.0 if self.over_s <= 0 else min(1.0, (time - self.at_s) / self.over_s)
        return 1.0 + (self.factor - 1.0) * done


@dataclass(frozen=True)
class Drift:
    """All changes of ability in a run."""

    events: tuple[Event, ...] = ()

    def factors(self, operators: Sequence[str], time: float) -> tuple[float, ...]:
        """Return the ratio of each operator's ability to its original one at a time."""
        found = dict.fromkeys(operators, 1.0)
        for event in self.events:
            factor = event.factor_at(time)
            for name in event.operators or operators:
                found[name] *= factor
        return tuple(found.values())


NONE = Drift()
