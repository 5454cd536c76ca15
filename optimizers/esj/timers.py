"""Memory of esj between evaluations: for how long utilisation has been high or low."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from math import isfinite

from millrace.model.decision import Memory
from millrace.model.join import JoinSignals
from millrace.optimizers.esj.options import EsjOptions

STALE = 3
"""Periods without an evaluation after which the timers restart."""


@dataclass(frozen=True)
class ThresholdTimers:
    """Since when thresholds have been crossed, times in seconds since 1970-01-01 UTC.

    Attributes:
        seen: When utilisation was last measured.
        workers: m at that time.
        full_since: Since when utilisation is tau2 or more; None if it is not.
        over_since: Since when it is tau3 or more; None if it is not.
        under_since: Since when it is tau0 or less; None if it is not.
        most: Most tuples of the whole window since ``under_since``.
    """

    seen: float
    workers: int
    full_since: float | None = None
    over_since: float | None = None
    under_since: float | None = None
    most: float = 0.0

    def is_full(self, at_least_s: float) -> bool:
        """Return whether utilisation has been tau2 or more for this long."""
        return self.full_since is not None and self.seen - self.full_since >= at_least_s

    def is_over(self, at_least_s: float) -> bool:
        """Return whether utilisation has been tau3 or more for this long."""
        return self.over_since is not None and self.seen - self.over_since >= at_least_s

    def is_under(self, at_least_s: float) -> bool:
        """Return whether utilisation has been tau0 or less for this long."""
        return self.under_since is not None and self.seen - self.under_since >= at_least_s

    def after_gap(self) -> ThresholdTimers:
        """Return the timers that are still valid after an unmeasured period, in which the load may have been higher."""
        return replace(self, under_since=None, most=0.0)

    def to_json(self) -> Memory:
        """Return the timers as a JSON value."""
        return asdict(self)

    @classmethod
    def read(cls, memory: Memory) -> ThresholdTimers | None:
        """Return the stored timers; None if the memory is empty or has another format."""
        values = {field.name: memory.get(field.name) for field in fields(cls)}
        for name, value in values.items():
            unknown = value is None and name.endswith("_since")
            number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
            if not (unknown or number):
                return None
        return cls(**values)  # type: ignore[arg-type]


def update_timers(
    at: float, measured: JoinSignals, tuples: float, options: EsjOptions, before: ThresholdTimers | None
) -> ThresholdTimers:
    """Return the timers after an evaluation; they restart if the number of workers has changed.

    Args:
        at: Time of the evaluation, seconds since 1970-01-01 UTC.
        measured: Its measurements.
        tuples: Load of the whole window.
        options: tau0, tau2 and tau3.
        before: The timers so far; None at the first evaluation.
    """
    m = measured.workers
    if before is None or before.workers != m or not 0 <= at - before.seen <= STALE * measured.period_s:
        before = ThresholdTimers(at, m)
    utilisation = tuples / (m * measured.capacity)
    full = _since(before.full_since, at) if utilisation >= options.tau2 else None
    over = _since(before.over_since, at) if utilisation >= options.tau3 else None
    under = _since(before.under_since, at) if utilisation <= options.tau0 else None
    return ThresholdTimers(at, m, full, over, under, 0.0 if under is None else max(tuples, before.most))


def _since(before: float | None, at: float) -> float:
    return at if before is None else before
