"""What really holds in a run, which tuners must find out: processing abilities, and the least p that suffices.

Both executions answer the same questions, each in its own module.

Where the rate cannot be reached by any p within the bounds, what can be reached takes its place: what the best p would
pass, less :data:`KNEE`, so that a flat curve's least sufficient p is where it becomes flat and not where chance made
it highest. A configuration is inadequate only if one within the bounds is better.
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
"""Share of the highest ability from which on more slots are not worth having, where the rate cannot be reached."""
TOLERANCE = 1e-9
"""Relative rounding error."""
CURVES, WIGGLES, NOISE, WINDOWS, FIXED = range(5)
"""Streams of random numbers: each is drawn for its own purpose, so that none depends on what tuners do."""


class Truth(Protocol):
    """What really holds; p of each unit comes as a tuple in the order of the scenario's units."""

    def minimum(self, rates: Rates, factors: Factors) -> Levels:
        """Return the least p of each unit that meets the objective at these rates."""
        ...

    def adequate(self, levels: Levels, rates: Rates, factors: Factors) -> bool:
        """Say whether every unit's true ability is at least what these rates need, as far as any p reaches it."""
        ...

    def sustains(self, levels: Levels, rates: Rates, factors: Factors) -> bool:
        """Say whether all that arrives can be processed for good."""
        ...

    def ability(self, unit: str) -> Array:
        """Return PA(1..p_max) of a unit before any drift, rows a second."""
        ...


def stream(seed: int, purpose: int, name: str = "") -> np.random.Generator:
    """Return a run's random numbers for one purpose, others for another job."""
    return np.random.default_rng([seed, purpose, crc32(name.encode())])


def drawn(scenario: Scenario, seed: int, levels: dict[str, tuple[float, float]], needs: dict[str, float]) -> Array:
    """Return PA(1..p_max) of each operator but the sources, rows a second, shape (operators, p_max).

    Args:
        scenario: The case.
        seed: Of the run.
        levels: Range of the p at which each operator meets its need.
        needs: What each has to process at the peak, rows a second, > 0.
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
