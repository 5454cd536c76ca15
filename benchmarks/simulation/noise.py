"""What a measurement gets wrong: noise of processing ability, and windows that emit unevenly.

Noise is drawn by evaluation and not by what was decided, so that all tuners see the same luck on the same run.
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
"""No measurement shows less than this share of the truth."""
HEAVY_DEGREES = 3.0
"""Degrees of freedom of the heavy tails (Student's t)."""
OUTLIER_RATIO, OUTLIER_FACTORS = 0.1, (0.5, 1.5)
"""Share of outliers among periods, and what they show of the truth: a busy neighbour, a miscounted batch."""


@dataclass(frozen=True)
class Noise:
    """Noise of a measured processing ability.

    Attributes:
        kind: ``symmetric`` (normal), ``positive`` (only ever too high), ``heavy`` (Student's t of 3 degrees) or
            ``outliers`` (normal, but for one period in ten that is far off).
        sd: Relative standard deviation, >= 0 (``positive``: of the normal whose absolute value is taken).
        scale: Factor on it, >= 0.
        told: Share of it that a measurement knows of itself, [0, 1]; 0 leaves all of it to be learned.

    Raises:
        MillraceError: If the kind is unknown.
    """

    kind: str = SYMMETRIC
    sd: float = 0.02
    scale: float = 1.0
    told: float = 1.0

    def __post_init__(self) -> None:
        """Refuse an unknown kind."""
        if self.kind not in KINDS:
            raise MillraceError("noise.kind", self.kind, ", ".join(KINDS), "Name one of the kinds.")

    @property
    def relative(self) -> float:
        """Relative standard deviation of a measurement."""
        return self.sd * self.scale

    @property
    def told_relative(self) -> float:
        """Relative standard error that a measurement tells of itself."""
        return self.told * self.relative

    def factors(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return measured over true ability, each >= 0.05."""
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
    """How unevenly a window operator emits: what is counted in one period, over the mean over time.

    Attributes:
        near_zero: Share of periods in which hardly any window closes, [0, 1).
        residue: What is emitted in such a period, as a share of the mean, [0, 1).
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
"""2 %, symmetric: what repeats of the paper's own observations scatter by, twice over."""
