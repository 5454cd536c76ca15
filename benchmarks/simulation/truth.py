"""The true values of a run, which tuners must find out: processing abilities, and the least sufficient p.

Both executions answer the same questions, each in its own module.

If no p within the bounds reaches the rate, the reachable rate takes its place: the rate that passes at the best p,
reduced to the share :data:`KNEE`. The least sufficient p of a flat curve is then where it becomes flat, not where
chance makes it highest. A configuration is inadequate only if a better one exists within the bounds.
"""

from __future__ import annotations

from typing import Protocol
from zlib import crc32

import numpy as np

from benchmarks.simulation.ability import Array, Curve, abilities
from benchmarks.simulation.scenario import Scenario

Rates = tuple[float, ...]
Factors = tuple[float, ...]
Levels = tuple[int, ...]

KNEE = 0.95
"""If the rate is unreachable, slots beyond this share of the highest ability are not worth having."""
TOLERANCE = 1e-9
"""Relative rounding error."""
CURVES, WIGGLES, NOISE, WINDOWS, FIXED = range(5)
"""Streams of random numbers, one per purpose, so none depends on what tuners do."""


class Truth(Protocol):
    """The true values; p of each unit is a tuple in the order of the scenario's units."""

    def minimum(self, rates: Rates, factors: Factors) -> Levels:
        """Return the least p of each unit that meets the objective at these rates."""
        ...

    def adequate(self, levels: Levels, rates: Rates, factors: Factors) -> bool:
        """Return whether each unit's true ability is at least what these rates need, as far as any p can provide it."""
        ...

    def sustains(self, levels: Levels, rates: Rates, factors: Factors) -> bool:
        """Return whether all arrivals can be processed permanently."""
        ...

    def ability(self, unit: str) -> Array:
        """Return PA(1..p_max) of a unit before any drift, rows per second."""
        ...


def stream(seed: int, purpose: int, name: str = "") -> np.random.Generator:
    """Return a run's random numbers for one purpose; they differ between jobs."""
    return np.random.default_rng([seed, purpose, crc32(name.encode())])


def drawn(scenario: Scenario, seed: int, levels: dict[str, tuple[float, float]], needs: dict[str, float]) -> Array:
    """Return PA(1..p_max) of each operator but the sources, rows per second, shape (operators, p_max).

    Args:
        scenario: The case.
        seed: Seed of the run.
        levels: Range of the p at which each operator meets its need.
        needs: Each operator's need at the peak, rows per second, > 0.
    """
    job = scenario.shape.name
    curves, wiggles = stream(seed, CURVES, job), stream(seed, WIGGLES, job)
    p_max, sd = scenario.bounds.max_slots, scenario.families.wiggle_sd
    rows = []
    for name in scenario.shape.sizable:
        at = float(curves.uniform(*levels[name]))
        curve: Curve = scenario.families.draw(curves, at, p_max)
        wiggle = sd * wiggles.standard_normal(p_max)
        rows.append(abilities(scenario.curves.get(name, curve), p_max, at, needs[name], wiggle))
    return np.array(rows)
