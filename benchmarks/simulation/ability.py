"""Processing ability of a simulated operator: rows per second that it can process at each p.

A curve gives the form of PA(p) up to a factor. The families differ in what defeats a tuner. A power law is smooth. USL
([Gunther], contention sigma and coherence kappa) bends and finally falls. A saturating curve flattens. A staircase
(unevenly shared key groups) stays flat for several levels. A retrograde curve has a peak. Every level also has its own
random wiggle, so no family can be fitted exactly.

Reference:
    [Gunther] "Guerrilla Capacity Planning", 2007: p / (1 + sigma (p - 1) + kappa p (p - 1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]
"""Maps levels p (n,), >= 1, to their relative ability (n,), > 0."""


def power(exponent: float) -> Curve:
    """Return p^e."""
    return partial(_power, exponent)


def usl(sigma: float, kappa: float) -> Curve:
    """Return the universal scalability law: contention ``sigma`` >= 0, coherence ``kappa`` >= 0."""
    return partial(_usl, sigma, kappa)


def amdahl(serial: float) -> Curve:
    """Return Amdahl's law: a share ``serial`` >= 0 of the work cannot be parallelised."""
    return partial(_usl, serial, 0.0)


def saturating(scale: float) -> Curve:
    """Return 1 - exp(-p / scale): nearly linear far below ``scale`` > 0, flat far above."""
    return partial(_saturating, scale)


def step(exponent: float, groups: int) -> Curve:
    """Return a power law of the slots that ``groups`` key groups can use evenly: the fullest slot limits the job."""
    return partial(_step, exponent, groups)


def executors(exponent: float, cores: int) -> Curve:
    """Return a power law of the slots in whole executors of ``cores``; slots beyond whole executors add nothing."""
    return partial(_executors, exponent, cores)


def retrograde(exponent: float, peak: float, fall: float) -> Curve:
    """Return p^e up to ``peak``, then falling as p^-fall."""
    return partial(_retrograde, exponent, peak, fall)


def plateau(exponent: float, at: float) -> Curve:
    """Return p^e up to ``at`` and constant beyond it: a hot key, or a service with a limited rate."""
    return partial(_retrograde, exponent, at, 0.0)


def table(points: Mapping[int, float]) -> Curve:
    """Return a curve through measured points (p, ability), linear in log p and log ability, flat outside them."""
    levels = sorted(points)
    return partial(_table, np.log(np.array(levels, dtype=float)), np.log([points[p] for p in levels]))


# module functions, not closures: a run must be picklable for other processes


def _power(exponent: float, p: Array) -> Array:
    return p**exponent


def _usl(sigma: float, kappa: float, p: Array) -> Array:
    return p / (1 + sigma * (p - 1) + kappa * p * (p - 1))


def _saturating(scale: float, p: Array) -> Array:
    return 1 - np.exp(-p / scale)


def _step(exponent: float, groups: int, p: Array) -> Array:
    even: Array = groups / np.ceil(groups / np.minimum(p, groups))
    return even**exponent


def _executors(exponent: float, cores: int, p: Array) -> Array:
    whole: Array = np.where(p < cores, p, cores * np.floor(p / cores))
    return whole**exponent


def _retrograde(exponent: float, peak: float, fall: float, p: Array) -> Array:
    rising: Array = np.minimum(p, peak) ** exponent
    return rising * (np.maximum(p, peak) / peak) ** -fall


def _table(x: Array, y: Array, p: Array) -> Array:
    return np.exp(np.interp(np.log(p), x, y))


@dataclass(frozen=True)
class Families:
    """How the curve of an operator is drawn.

    Attributes:
        weights: Relative frequency of each family: power, usl, saturating, step, retrograde, amdahl, executors,
            executors_2 to executors_5, which fix the number of cores.
        wiggle_sd: Standard deviation of each level's own log factor, >= 0.
        headroom: Least ratio of the highest ability to the need at the peak rate; it makes every rate reachable.
    """

    weights: Mapping[str, float]
    wiggle_sd: float = 0.015
    headroom: float = 1.5

    def draw(self, rng: np.random.Generator, levels: float, p_max: int) -> Curve:
        """Return a curve for an operator that takes about ``levels`` slots at the peak rate."""
        names = sorted(self.weights)
        shares = np.array([self.weights[name] for name in names])
        for _ in range(TRIES):
            curve = _DRAW[str(rng.choice(names, p=shares / shares.sum()))](rng, levels)
            all_levels = curve(np.arange(1, p_max + 1, dtype=float))
            if all_levels.max() >= self.headroom * float(curve(np.array([levels]))[0]):
                return curve
        return power(float(rng.uniform(*EXPONENTS)))


EXPONENTS = (0.6, 0.95)
CORES = (2, 6)
"""Fewest cores of an executor, and one more than the most."""
MIXED = Families({"power": 0.4, "usl": 0.25, "saturating": 0.1, "step": 0.125, "retrograde": 0.125})
"""Families that ``flow`` was developed on, mixed, because no tuner may rely on a single family."""
TRIES = 20


def abilities(curve: Curve, p_max: int, levels: float, rows_per_s: float, wiggle: Array) -> Array:
    """Return PA(1..p_max), rows per second, shape (p_max,).

    Args:
        curve: Its form.
        p_max: Highest level.
        levels: The level, not necessarily whole, at which the ability is ``rows_per_s``.
        rows_per_s: That ability, > 0.
        wiggle: Log factor of each level, shape (p_max,).
    """
    p = np.arange(1, p_max + 1, dtype=float)
    return rows_per_s / float(curve(np.array([levels]))[0]) * curve(p) * np.exp(wiggle)


def _draw_usl(rng: np.random.Generator, levels: float) -> Curve:
    sigma, peak = rng.uniform(0.0, 0.04), rng.uniform(2.5, 5.0) * levels
    return usl(sigma, (1 - sigma) / peak**2)


def _draw_retrograde(rng: np.random.Generator, levels: float) -> Curve:
    return retrograde(rng.uniform(0.7, 0.95), rng.uniform(1.8, 3.0) * levels, rng.uniform(0.2, 0.6))


def _draw_executors(cores: int, rng: np.random.Generator, _: float) -> Curve:
    return executors(rng.uniform(*EXPONENTS), cores)


_DRAW: Mapping[str, Callable[[np.random.Generator, float], Curve]] = {
    "power": lambda rng, _: power(rng.uniform(*EXPONENTS)),
    "usl": _draw_usl,
    "saturating": lambda rng, levels: saturating(rng.uniform(1.0, 2.0) * levels),
    "step": lambda rng, levels: step(rng.uniform(0.8, 1.0), max(8, math.ceil(rng.uniform(2.0, 5.0) * levels))),
    "retrograde": _draw_retrograde,
    "amdahl": lambda rng, _: amdahl(rng.uniform(0.005, 0.04)),
    "executors": lambda rng, _: executors(rng.uniform(*EXPONENTS), int(rng.integers(*CORES))),
    **{f"executors_{cores}": partial(_draw_executors, cores) for cores in range(*CORES)},
}
