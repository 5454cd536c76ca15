"""An operator that changes under way: a new version, a slower disk, more state. What was learned of it is rescaled.

What is measured at a level is compared with what the same level said before, never with the model, whose curve may be
wrong where nothing was measured. A residual beyond ``SURPRISE`` standard deviations is a drift if the next evaluation
says the same, or at once where the job falls short as well: heavy-tailed noise makes single ones lie. All earlier
observations are then multiplied by the ratio: a slower operator is usually slower at every p, and the shape of the
curve is what took long to learn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from include.model.signals import Observation
from optimizers.conttune.observed_levels import LEAST_SCATTER, observed_levels
from optimizers.conttune.options import FlowOptions

SURPRISE = 5.0
SURPRISE_WHEN_SHORT = 3.0
AGREEMENT = 0.5
"""The next evaluation agrees if its residual has the sign of the first one and at least this share of it."""
MOST_SHIFTS = 8


class Shift(NamedTuple):
    """Observations before ``at`` are to be multiplied by ``factor``."""

    at: datetime
    factor: float


@dataclass(frozen=True)
class Drift:
    """What is known of an operator's changes.

    Attributes:
        shifts: In the order of time.
        suspect: Log residual of the last evaluation where it was a surprise; 0 otherwise.
    """

    shifts: tuple[Shift, ...] = ()
    suspect: float = 0.0


def rescale(observations: Sequence[Observation], shifts: Sequence[Shift]) -> list[Observation]:
    """Return observations as they would be measured today."""
    if not shifts:
        return list(observations)
    factors = [math.prod(s.factor for s in shifts if o.time < s.at) for o in observations]
    return [
        replace(o, processing_ability=o.processing_ability * factor, noise=o.noise * factor)
        for o, factor in zip(observations, factors, strict=True)
    ]


def update_drift(
    drift: Drift,
    points: Sequence[Observation],
    measured: Observation,
    begin: datetime,
    short: bool,
    options: FlowOptions,
) -> Drift:
    """Return what is known of an operator's changes after an evaluation.

    Args:
        drift: What was known.
        points: Its earlier observations, rescaled, at least one.
        measured: What this evaluation measured of it.
        begin: Begin of the period (UTC).
        short: The job falls short of its load, which makes a lower ability credible at once.
        options: Flow's.
    """
    if drift.suspect:  # the surprise itself is no witness: what was known before it is compared with
        points = [o for o in points if o.time < begin] or points
    levels = observed_levels(points, options.top_k)
    here = next((level for level in levels if level.parallelism == measured.parallelism), None)
    if here is None:
        return drift  # at a level of its own a surprise is what the model does not know
    mean, sd = here.ability, here.error / here.ability
    residual = math.log(measured.processing_ability / mean)
    scale = math.hypot(max(measured.noise / measured.processing_ability, LEAST_SCATTER), sd)
    sudden = residual < -SURPRISE_WHEN_SHORT * scale and short
    if not sudden and not _confirms(drift.suspect, residual, scale):
        return replace(drift, suspect=residual if abs(residual) > SURPRISE * scale else 0.0)
    return Drift((*drift.shifts, Shift(begin, math.exp(residual)))[-MOST_SHIFTS:])


def _confirms(suspect: float, residual: float, scale: float) -> bool:
    """Say whether an evaluation agrees with the surprise of the one before."""
    return suspect * residual > 0 and abs(residual) >= max(AGREEMENT * abs(suspect), 2 * scale)
