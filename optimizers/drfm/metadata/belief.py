"""What is believed of streams that were seen: what is told of them bounds and completes what was learned of them.

Of each stream, the first of these that came true lately (:mod:`metadata.trust`):
    1. the cycle that is told, unless a learned one came true more often, or a forecast errs less
    2. what was learned: a cycle, or levels and durations
    3. levels and durations that are told without a phase, until both levels were seen
    4. nothing: a forecast

Bounds hold for learned levels, and for what is expected of a stream before it was seen; a forecast follows what was
seen and gains nothing by them. A rate beyond a bound has proven it wrong: bounds reach as far as what was seen. So does
a stream that is still there when its lifetime is over.

Reference: ours; [DRFM] Section 2.5 has metadata in place of forecasts, whatever was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optimizers.drfm.metadata.table import Table, unknown
from optimizers.drfm.metadata.trust import Trust
from optimizers.drfm.problem import Bools, Floats, Ints

TOLD, LEARNED, FORECAST = range(3)
SOURCES = 3


@dataclass(frozen=True)
class Bounds:
    """Lowest and highest rates, shape (S,) each; NaN for none."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, told: Table, seen: Floats) -> Bounds:
        """Return the bounds that are told, or as far as what was seen.

        Args:
            told: What is told.
            seen: Rates, shape (T, S), T >= 1; NaN where none was seen.
        """
        low, high = np.fmin.reduce(seen, axis=0), np.fmax.reduce(seen, axis=0)
        return cls(
            np.where(np.isnan(told.low), np.nan, np.fmin(told.low, low)),
            np.where(np.isnan(told.high), np.nan, np.fmax(told.high, high)),
        )

    def clip(self, rates: Floats) -> Floats:
        """Return rates, shape (..., S), within the bounds."""
        return np.where(np.isnan(rates), rates, np.fmin(np.fmax(rates, self.low), self.high))


@dataclass(frozen=True)
class Source:
    """Characteristics of streams, and how often those of each came true lately.

    Attributes:
        table: The characteristics.
        trust: Share of recent periods in which they told the truth, shape (S,).
        error: Mean squared error of late of what they let one expect, shape (S,).
    """

    table: Table
    trust: Floats
    error: Floats


@dataclass(frozen=True)
class Belief:
    """What is believed, and where it is from.

    Attributes:
        table: Characteristics.
        source: TOLD, LEARNED or FORECAST, shape (S,); FORECAST where the table knows no levels and durations.
    """

    table: Table
    source: Ints

    def or_else(self, other: Belief, where: Bools) -> Belief:
        """Return this belief where ``where``, shape (S,), and the other elsewhere."""
        return Belief(self.table.choose(other.table, where), np.where(where, self.source, other.source))


def told_cycles(told: Source, learned: Source, forecast: Floats, rule: Trust) -> Bools:
    """Say which streams are expected to go through the cycle that is told, shape (S,).

    Args:
        told: What is told.
        learned: What was learned.
        forecast: Mean squared error of forecasts, shape (S,). A wrong cycle comes true now and then, but errs more; an
            error that trust forgives is no reason to leave it.
        rule: What counts as true.
    """
    better = learned.table.cyclic & rule.believed(learned.trust) & (learned.trust > told.trust)
    forgiven = (rule.tolerance * (told.table.high - told.table.low)) ** 2
    good = told.error <= np.maximum(forecast, forgiven)
    return told.table.cyclic & rule.believed(told.trust) & good & ~better


def believe(told: Source, learned: Source, forecast: Floats, rule: Trust, bounds: Bounds, now: float) -> Belief:
    """Return what is believed.

    Args:
        told: What is told.
        learned: What was learned.
        forecast: Mean squared error of forecasts, shape (S,).
        rule: What counts as true.
        bounds: Of learned levels.
        now: Number of the period that ended.
    """
    table = learned.table
    bounded = replace(table, low=bounds.clip(table.low), high=bounds.clip(table.high))
    taught, known = _all_from(LEARNED, bounded), _all_from(TOLD, told.table)
    prior = told.table.two_level & ~told.table.cyclic & rule.believed(told.trust)
    found = known.or_else(_all_from(FORECAST, unknown(len(prior))), prior)
    found = taught.or_else(found, table.two_level & rule.believed(learned.trust))
    found = known.or_else(found, told_cycles(told, learned, forecast, rule))
    ends = np.where(told.table.ends > now, told.table.ends, np.nan)
    return replace(found, table=replace(found.table, ends=ends))


def _all_from(source: int, table: Table) -> Belief:
    return Belief(table, np.full(len(table.low), source, dtype=np.intp))
