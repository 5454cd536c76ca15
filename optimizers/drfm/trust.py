"""Beliefs about streams that were seen: declared characteristics, learned ones, or a forecast.

For each stream, the first of these that came true lately:
    1. the declared cycle, unless a learned one came true more often, or a forecast errs less
    2. learned characteristics: a cycle, or levels and durations
    3. declared levels and durations without a phase, until both levels were seen
    4. nothing: a forecast

Trust in characteristics is the share of recent periods in which they came true: the rate was within a tolerance of the
expected one or, without a known phase, of one of the levels. Below a threshold other sources are believed instead;
characteristics that come true again are believed again.

Declared bounds hold for learned levels, and for the expectation of a stream before it was seen. A forecast follows the
observed rates and gains nothing from bounds. A rate beyond a bound disproves it: bounds extend to all observed rates. A
stream that is still there at the end of its lifetime disproves the lifetime.

Reference: ours; [DRFM] Section 2.5 takes metadata as true, in place of forecasts, whatever was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from millrace.optimizers.arrays import Bools, Floats, Ints
from millrace.optimizers.drfm.characteristics import Characteristics, unknown

DECLARED, LEARNED, FORECAST = range(3)
SOURCES = 3
WEIGHT = 0.1
"""Weight of a new period in the trust."""
LEAST = 0.7
"""Trust from which characteristics are believed."""
TOLERANCE = 0.15
"""Error over the difference of levels that is forgiven."""


def update_trust(trust: Floats, table: Characteristics, expected: Floats, rate: Floats) -> Floats:
    """Return the trust after another period, shape (S,).

    Args:
        trust: The previous trust, shape (S,), 1 for streams never seen.
        table: The characteristics.
        expected: Rates expected from them in that period, shape (S,); NaN if they do not say.
        rate: Actual rates, shape (S,); NaN for missed ones, which change nothing.
    """
    gap = np.where(table.high > table.low, table.high - table.low, table.high)
    allowed = TOLERANCE * gap + np.finfo(float).tiny
    # between levels there is always a step of a ramp that was sampled a little early or late
    off = np.where(table.cyclic, abs(rate - expected), np.minimum(abs(rate - table.low), abs(rate - table.high)))
    judged = np.isfinite(off) & table.two_level
    return np.where(judged, trust + WEIGHT * ((off <= allowed) - trust), trust)


@dataclass(frozen=True)
class RateBounds:
    """Lowest and highest rates, shape (S,) each; NaN for none."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, declared: Characteristics, seen: Floats) -> RateBounds:
        """Return the declared bounds, extended to all observed rates.

        Args:
            declared: Declared characteristics.
            seen: Rates, shape (T, S), T >= 1; NaN for missed ones.
        """
        low, high = np.fmin.reduce(seen, axis=0), np.fmax.reduce(seen, axis=0)
        return cls(
            np.where(np.isnan(declared.low), np.nan, np.fmin(declared.low, low)),
            np.where(np.isnan(declared.high), np.nan, np.fmax(declared.high, high)),
        )

    def clip(self, rates: Floats) -> Floats:
        """Return rates, shape (..., S), within the bounds."""
        return np.where(np.isnan(rates), rates, np.fmin(np.fmax(rates, self.low), self.high))


@dataclass(frozen=True)
class Source:
    """Characteristics of streams, and how reliable they are.

    Attributes:
        table: The characteristics.
        trust: Share of recent periods in which they came true, shape (S,).
        error: Recent mean squared error of the rates expected from them, shape (S,).
    """

    table: Characteristics
    trust: Floats
    error: Floats


@dataclass(frozen=True)
class Belief:
    """The characteristics that are believed.

    Attributes:
        table: Characteristics.
        source: DECLARED, LEARNED or FORECAST, shape (S,); FORECAST if the table has no levels and durations.
    """

    table: Characteristics
    source: Ints

    def where(self, mask: Bools, other: Belief) -> Belief:
        """Return this belief if ``mask``, shape (S,), and the other elsewhere."""
        return Belief(self.table.where(mask, other.table), np.where(mask, self.source, other.source))


def trusts_declared_cycle(declared: Source, learned: Source, forecast: Floats) -> Bools:
    """Return which streams are expected to go through their declared cycle, shape (S,).

    Args:
        declared: The declared source.
        learned: The learned source.
        forecast: Mean squared error of forecasts, shape (S,). A wrong cycle comes true now and then, but errs more; an
            error within the tolerance is no reason to leave the cycle.
    """
    better = learned.table.cyclic & (learned.trust >= LEAST) & (learned.trust > declared.trust)
    forgiven = (TOLERANCE * (declared.table.high - declared.table.low)) ** 2
    good = declared.error <= np.maximum(forecast, forgiven)
    return declared.table.cyclic & (declared.trust >= LEAST) & good & ~better


def believe(declared: Source, learned: Source, forecast: Floats, bounds: RateBounds, now: float) -> Belief:
    """Return the characteristics that are believed.

    Args:
        declared: The declared source.
        learned: The learned source.
        forecast: Mean squared error of forecasts, shape (S,).
        bounds: Bounds of learned levels.
        now: Number of the period that ended.
    """
    table = learned.table
    bounded = replace(table, low=bounds.clip(table.low), high=bounds.clip(table.high))
    by_declared, by_learned = _all_from(DECLARED, declared.table), _all_from(LEARNED, bounded)
    no_phase = declared.table.two_level & ~declared.table.cyclic & (declared.trust >= LEAST)
    belief = by_declared.where(no_phase, _all_from(FORECAST, unknown(len(no_phase))))
    belief = by_learned.where(table.two_level & (learned.trust >= LEAST), belief)
    belief = by_declared.where(trusts_declared_cycle(declared, learned, forecast), belief)
    ends = np.where(declared.table.ends > now, declared.table.ends, np.nan)
    return replace(belief, table=replace(belief.table, ends=ends))


def _all_from(source: int, table: Characteristics) -> Belief:
    return Belief(table, np.full(len(table.low), source, dtype=np.intp))
