"""Measurement errors: noise of processing ability, and windows that emit unevenly.

Noise is drawn by evaluation and does not depend on decisions, so all tuners see the same noise in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millrace.model.errors import MillraceError

Array = NDArray[np.float64]

SYMMETRIC, POSITIVE, HEAVY, OUTLIERS = "symmetric", "positive", "heavy", "outliers"
KINDS = (SYMMETRIC, POSITIVE, HEAVY, OUTLIERS)
LEAST_FACTOR = 0.05
"""Least ratio of a measurement to the true value."""
HEAVY_DEGREES = 3.0
"""Degrees of freedom of the heavy tails (Student's t)."""
OUTLIER_RATIO, OUTLIER_FACTORS = 0.1, (0.5, 1.5)
"""Share of periods that are outliers, and their ratios to the true value: a busy neighbour, a miscounted batch."""


@dataclass(frozen=True)
class Noise:
    """Noise of a measured processing ability.

    Attributes:
        kind: ``symmetric`` (normal), ``positive`` (always too high), ``heavy`` (Student's t of 3 degrees) or
            ``outliers`` (normal, except that one period in ten is far off).
        sd: Relative standard deviation, >= 0 (``positive``: of the normal whose absolute value is taken).
        scale: Factor on it, >= 0.
        told: Share of it that a measurement reports as its own error, [0, 1]; with 0 tuners must learn all of it.

    Raises:
        MillraceError: If the kind is unknown.
    """

    kind: str = SYMMETRIC
    sd: float = 0.02
    scale: float = 1.0
    told: float = 1.0

    def __post_init__(self) -> None:
        """Reject an unknown kind."""
        if self.kind not in KINDS:
            raise MillraceError("noise.kind", self.kind, ", ".join(KINDS), "Name one of the kinds.")

    @property
    def relative(self) -> float:
        """Relative standard deviation of a measurement."""
        return self.sd * self.scale

    @property
    def told_relative(self) -> float:
        """Relative standard error that a measurement reports."""
        return self.told * self.relative

    def factors(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return the ratio of measured to true ability, each >= 0.05."""
        if self.kind == HEAVY:
            drawn = rng.standard_t(HEAVY_DEGREES, shape) / np.sqrt(HEAVY_DEGREES / (HEAVY_DEGREES - 2))
        else:
            drawn = rng.standard_normal(shape)
        deviation = np.abs(drawn) if self.kind == POSITIVE else drawn
        factors: Array = np.maximum(LEAST_FACTOR, 1 + self.relative * deviation)
        if self.kind == OUTLIERS:
            off = rng.choice(OUTLIER_FACTORS, shape)
            factors = np.where(rng.random(shape) < OUTLIER_RATIO, off, factors)
        return factors


@dataclass(frozen=True)
class Window:
    """How unevenly a window operator emits: the output counted in one period over the mean output.

    Attributes:
        near_zero: Share of periods in which almost no window closes, [0, 1).
        residue: Output of such a period, as a share of the mean, [0, 1).
        sd: Standard deviation of the log of the other periods' output, >= 0.
    """

    near_zero: float = 0.05
    residue: float = 0.02
    sd: float = 0.05

    def factors(self, rng: np.random.Generator, count: int) -> Array:
        """Return the factors of ``count`` periods, mean 1 over time."""
        most = (1 - self.near_zero * self.residue) / (1 - self.near_zero)
        ordinary = most * np.exp(self.sd * rng.standard_normal(count) - self.sd**2 / 2)
        counted: Array = np.where(rng.random(count) < self.near_zero, self.residue, ordinary)
        return counted


STANDARD = Noise()
"""2 %, symmetric: twice the scatter of repeats in the paper's own observations."""
