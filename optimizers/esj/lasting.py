"""What esj remembers between looks: for how long utilisation has been high or low."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from math import isfinite

from include.model.decision import Memory
from include.model.join import JoinSignals
from optimizers.esj.thresholds import Thresholds

STALE = 3
"""Periods without a look after which nothing is known to have lasted."""


@dataclass(frozen=True)
class Lasting:
    """What has lasted until now, times in seconds since 1970-01-01 UTC.

    Attributes:
        seen: When it was looked last.
        workers: m at that look.
        full_since: Since when utilisation is tau2 or more; None if it is not.
        over_since: Since when it is tau3 or more; None if it is not.
        under_since: Since when it is tau0 or less; None if it is not.
        most: Most tuples of the whole window since then.
    """

    seen: float
    workers: int
    full_since: float | None = None
    over_since: float | None = None
    under_since: float | None = None
    most: float = 0.0

    def full(self, at_least_s: float) -> bool:
        """Say whether utilisation has been tau2 or more for so long."""
        return self.full_since is not None and self.seen - self.full_since >= at_least_s

    def over(self, at_least_s: float) -> bool:
        """Say whether utilisation has been tau3 or more for so long."""
        return self.over_since is not None and self.seen - self.over_since >= at_least_s

    def under(self, at_least_s: float) -> bool:
        """Say whether utilisation has been tau0 or less for so long."""
        return self.under_since is not None and self.seen - self.under_since >= at_least_s


def read(memory: Memory) -> Lasting | None:
    """Return what was remembered; None for a memory that is empty, or of another making."""
    values = {field.name: memory.get(field.name) for field in fields(Lasting)}
    for name, value in values.items():
        unknown = value is None and name.endswith("_since")
        number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        if not (unknown or number):
            return None
    return Lasting(**values)  # type: ignore[arg-type]


def write(lasting: Lasting | None) -> Memory:
    """Return what is remembered as a JSON value."""
    return {} if lasting is None else asdict(lasting)


def interrupted(lasting: Lasting | None) -> Lasting | None:
    """Return what still counts after a period of which nothing is known: more may have come than was seen."""
    return None if lasting is None else replace(lasting, under_since=None, most=0.0)


def until(at: float, seen: JoinSignals, tuples: float, limits: Thresholds, before: Lasting | None) -> Lasting:
    """Return what has lasted until a look; it begins anew where the number of workers has changed.

    Args:
        at: Time of the look, seconds since 1970-01-01 UTC.
        seen: What it measured.
        tuples: Load of the whole window.
        limits: tau0, tau2 and tau3.
        before: What had lasted at the look before; None at the first.
    """
    m = seen.workers
    if before is None or before.workers != m or not 0 <= at - before.seen <= STALE * seen.period_s:
        before = Lasting(at, m)
    utilisation = tuples / (m * seen.capacity)
    full = _since(before.full_since, at) if utilisation >= limits.tau2 else None
    over = _since(before.over_since, at) if utilisation >= limits.tau3 else None
    under = _since(before.under_since, at) if utilisation <= limits.tau0 else None
    return Lasting(at, m, full, over, under, 0.0 if under is None else max(tuples, before.most))


def _since(before: float | None, at: float) -> float:
    return at if before is None else before
