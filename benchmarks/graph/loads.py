"""How many rows the feed commits each second, and when the rate changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from benchmarks.simulation.workload import PAPERS_EXAMPLE

STEP_LOW = 1.5
"""Load before a step of :func:`step_x4`, in units: ``wordcount`` fits on the fewest slots; after it, each of its apps
needs twice as many."""
STEP = 4.0
RATES = 8
"""Rates of a sequence; the paper's has ten."""


@dataclass(frozen=True)
class Load:
    """Rates, each held for some time.

    Attributes:
        rows_per_s: The rates.
        hold_s: How long each is held, whole seconds.
    """

    rows_per_s: tuple[float, ...]
    hold_s: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of each second."""
        per_s = np.repeat(self.rows_per_s, self.hold_s)
        return tuple(np.diff(np.floor(np.cumsum(per_s) + 1e-9), prepend=0.0).astype(int).tolist())

    @property
    def length_s(self) -> int:
        """Length of the whole load, seconds."""
        return sum(self.hold_s)

    @property
    def changes_s(self) -> tuple[float, ...]:
        """When the rate changes, seconds from the start; the start itself is no change."""
        ends = accumulate(self.hold_s)
        return tuple(float(end) for end, (a, b) in zip(ends, pairwise(self.rows_per_s), strict=False) if a != b)


def step_x4(unit: float, hold_s: Sequence[int]) -> Load:
    """Return a load that rises to four times its rate at once, and falls back.

    Args:
        unit: The workload's unit rate, rows per second.
        hold_s: Seconds before, during and after.
    """
    low = STEP_LOW * unit
    return Load((low, STEP * low, low), tuple(hold_s))


def papers_sequence(unit: float, hold_s: int, seed: int) -> Load:
    """Return the first rates of the paper's permutation, in units; of another permutation for seeds other than 0.

    Args:
        unit: The workload's unit rate, rows per second.
        hold_s: Seconds per rate.
        seed: Seed of the permutation.
    """
    order = np.random.default_rng(seed).permutation(np.arange(1, 11)) if seed else np.array(PAPERS_EXAMPLE)
    return Load(tuple(float(n) * unit for n in order[:RATES]), (hold_s,) * RATES)
