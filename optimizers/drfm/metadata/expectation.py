"""The rates that metadata let one expect.

Three cases, by what is known of a stream:
    levels, durations and phase     the cycle itself
    levels and durations            a two-state chain that leaves high after ``up`` periods and low after ``down`` on
                                    average; where it is now is seen from its last rate
    less                            a forecast

Symbols: H periods ahead, S streams. For the chain, with q = 1/up, r = 1/down, a = 1 - q - r, share of high
s = r / (q + r): P(high in h | high) = s + (1 - s) a^h, P(high in h | low) = s - s a^h.

Reference: [DRFM] Section 2.5, the metadata-based expectation X^m. The paper does not say how it follows from the
characteristics; the chain is the on-off model that its Section 6.1.1 makes bursts by.
"""

from __future__ import annotations

import numpy as np

from optimizers.drfm.metadata.table import Table
from optimizers.drfm.problem import Floats


def cycle(table: Table, now: float, periods: int) -> Floats:
    """Return the rates in periods now + 1 .. now + H of streams with a known phase, shape (H, S); NaN for the others.

    The rate of a period is that of its middle.
    """
    at = now + np.arange(1.0, periods + 1)[:, None] + 0.5
    inside = np.mod(at - table.phase, table.up + table.down)
    falling = inside >= table.up
    begun = np.where(falling, inside - table.up, inside)
    with np.errstate(divide="ignore", invalid="ignore"):
        done = np.where(table.ramp > 0, np.minimum(begun / table.ramp, 1.0), 1.0)
    found: Floats = table.low + (table.high - table.low) * np.where(falling, 1 - done, done)
    return np.where(table.cyclic, found, np.nan)


def chain(table: Table, rate: Floats, periods: int) -> tuple[Floats, Floats]:
    """Return mean and variance of the rates of streams with levels and durations, shape (H, S) each.

    Args:
        table: What is known.
        rate: Last rate of each stream, shape (S,); NaN for one that was not seen yet.
        periods: H.
    """
    q, r = 1 / np.maximum(table.up, 1.0), 1 / np.maximum(table.down, 1.0)
    share = r / (q + r)
    high = np.where(np.isnan(rate), share, rate > (table.low + table.high) / 2)
    fading = (1 - q - r) ** np.arange(1, periods + 1)[:, None]
    p = np.clip(share + (high - share) * fading, 0.0, 1.0)  # rounding: a stream that is high once is low for sure
    gap = table.high - table.low
    return table.low + gap * p, gap**2 * p * (1 - p)


def expect(table: Table, now: float, rate: Floats, forecast: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the rates of all streams, shape (H, S) each, without noise.

    Args:
        table: What is known.
        now: Number of the period that ended.
        rate: Rate of each stream in it, shape (S,); NaN for one that was not seen yet.
        forecast: What one would expect without metadata, shape (H, S).
    """
    periods = len(forecast)
    on_off, variance = chain(table, rate, periods)
    mean = np.where(table.cyclic, cycle(table, now, periods), np.where(table.two_level, on_off, forecast))
    variance = np.where(table.two_level & ~table.cyclic, variance, 0.0)
    gone = now + np.arange(1.0, periods + 1)[:, None] >= table.ends
    return np.where(gone, 0.0, mean), np.where(gone, 0.0, variance)
