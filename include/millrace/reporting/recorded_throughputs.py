"""Estimate an app's throughput at any number of slots from its recording.

At levels that ran, it is the mean of the measurements there. Between levels, log PA is interpolated over log p. Beyond
them it continues as p^0.9, the prior that tuners start with, because a recording cannot show what never ran. The fixed
cost of a batch is also interpolated over log p. Beyond the outermost level it is constant, as it barely depends on p.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np

from millrace.model.row_wait import throughput
from millrace.model.signals import AppSignals, Capacity, Signals

EXPONENT = 0.9
"""e in PA(p) ~ p^e beyond the levels that ran."""

UNKNOWN_ERROR = 0.05
"""Relative standard error of a throughput if the recorded points have none."""


@dataclass(frozen=True)
class RecordedThroughput:
    """One app's throughput by level.

    Attributes:
        rates: Mean PA by the p that ran, rows per second, > 0.
        fixed_s: Mean o(p) by the p that ran, seconds, >= 0.
        error_ratio: Mean relative standard error of a measured PA, > 0.
        batch_rows: Rows of a full batch if the source is read in limited batches; None if it is not.
        tasks: Most tasks that the source's splits gave; None if they were never fewer than the slots.
        busy_per_use: slot_busy_ratio at a utilisation of 1: useful time covers only part of a batch.
    """

    rates: Mapping[int, float] = field(default_factory=dict)
    fixed_s: Mapping[int, float] = field(default_factory=dict)
    error_ratio: float = UNKNOWN_ERROR
    batch_rows: float | None = None
    tasks: int | None = None
    busy_per_use: float = 1.0

    def ran(self, slots: int) -> int:
        """Return the p that really runs on a number of slots, >= 1."""
        return slots if self.tasks is None else min(slots, self.tasks)

    def rate(self, p: int) -> float | None:
        """Return PA(p), rows per second; None if no level was ever measured."""
        if not self.rates or p in self.rates:
            return self.rates.get(p)
        levels = sorted(self.rates)
        nearest = min(max(p, levels[0]), levels[-1])
        log_rate = np.interp(math.log(nearest), np.log(levels), np.log([self.rates[q] for q in levels]))
        return float(math.exp(log_rate) * (p / nearest) ** EXPONENT)

    def fixed(self, p: int) -> float:
        """Return o(p), seconds; 0 if no level was ever measured."""
        if not self.fixed_s:
            return 0.0
        levels = sorted(self.fixed_s)
        return float(np.interp(math.log(p), np.log(levels), [self.fixed_s[q] for q in levels]))

    def capacity(self, p: int, batches: int) -> Capacity | None:
        """Return the capacity that an evaluation would have fitted at p; None if no level was ever measured."""
        rate = self.rate(p)
        return None if rate is None else Capacity(p, self.fixed(p), rate, rate * self.error_ratio, max(1, batches))

    def sustained(self, capacity: Capacity) -> float:
        """Return the rate that an app sustains, rows per second: below PA if each limited batch costs o(p)."""
        return throughput(capacity.rows_per_s, capacity.fixed_s, self.batch_rows)


def throughputs(app: str, evaluations: Sequence[Signals]) -> RecordedThroughput:
    """Return an app's throughput by level from its recorded evaluations.

    Args:
        app: Its name.
        evaluations: Recorded signals, oldest first. Levels that none of them fitted come from their observations,
            which reach back further.
    """
    seen = [a for evaluation in evaluations for a in evaluation.apps if a.app == app]
    fits = [c for c in (a.capacity for a in seen) if c is not None and _sound(c.rows_per_s) and c.parallelism >= 1]
    points = [
        o for o in (evaluations[-1].observations if evaluations else ()) if o.operator == app and o.parallelism >= 1
    ]
    older = [(o.parallelism, o.throughput) for o in points if _sound(o.throughput)]
    rates = {**_means(older), **_means((c.parallelism, c.rows_per_s) for c in fits)}
    errors = [e for c in fits if 0 < (e := c.rows_per_s_error / c.rows_per_s) < math.inf]
    limits = [a.batch_rows_limit for a in seen if a.batch_rows_limit]
    few = [a.parallelism for a in seen if a.source_splits and a.parallelism]
    uses = [u for a in seen if (u := _busy_per_use(a)) is not None]
    return RecordedThroughput(
        rates=rates,
        fixed_s=_means((c.parallelism, c.fixed_s) for c in fits if 0 <= c.fixed_s < math.inf),
        error_ratio=fmean(errors) if errors else UNKNOWN_ERROR,
        batch_rows=fmean(limits) if limits else None,
        tasks=max(few) if few else None,
        busy_per_use=median(uses) if uses else 1.0,
    )


def _busy_per_use(app: AppSignals) -> float | None:
    if app.capacity is None or not app.slot_busy_ratio or not app.processed_rows_per_s:
        return None
    if not _sound(app.capacity.rows_per_s):
        return None
    utilisation = app.processed_rows_per_s / app.capacity.rows_per_s * app.capacity.parallelism / app.slots
    return app.slot_busy_ratio / utilisation if 0 < utilisation < math.inf else None


def _means(points: Iterable[tuple[int, float]]) -> dict[int, float]:
    by_level: dict[int, list[float]] = {}
    for p, value in points:
        by_level.setdefault(p, []).append(value)
    return {p: fmean(values) for p, values in by_level.items()}


def _sound(rate: float) -> bool:
    return math.isfinite(rate) and rate > 0
