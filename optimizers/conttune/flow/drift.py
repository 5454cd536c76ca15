"""An operator that changes under way: a new version, a slower disk, more state. What was learned of it is rescaled.

What is measured at a level is compared with what the same level said before, never with the model, whose curve may be
wrong where nothing was measured. A residual beyond ``SURPRISE`` standard deviations is a drift if the next look says
the same, or at once where the job falls short as well: heavy-tailed noise makes single looks lie. All earlier
observations are then multiplied by the ratio: a slower operator is usually slower at every p, and the shape of the
curve is what took long to learn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from include.model.signals import Observation
from optimizers.conttune.flow.levels import LEAST_SCATTER, observed_levels
from optimizers.conttune.flow.options import Options

SURPRISE = 5.0
SURPRISE_WHEN_SHORT = 3.0
AGREEMENT = 0.5
"""The next look agrees if its residual has the sign of the first one and at least this share of it."""
MOST_SHIFTS = 8


@dataclass(frozen=True)
class Shift:
    """Observations before ``at`` are to be multiplied by ``factor``."""

    at: datetime
    factor: float


@dataclass(frozen=True)
class Drift:
    """What is known of an operator's changes.

    Attributes:
        shifts: In the order of time.
        suspect: Log residual of the last look where it was a surprise; 0 otherwise.
    """

    shifts: tuple[Shift, ...] = ()
    suspect: float = 0.0


def shifted(observations: Iterable[Observation], shifts: Sequence[Shift]) -> list[Observation]:
    """Return observations as they would be measured today."""
    if not shifts:
        return list(observations)
    found = []
    for o in observations:
        factor = math.prod(s.factor for s in shifts if o.time < s.at)
        found.append(
            o if factor == 1 else replace(o, processing_ability=o.processing_ability * factor, noise=o.noise * factor)
        )
    return found


def after(
    drift: Drift, points: Sequence[Observation], measured: Observation, begin: datetime, short: bool, options: Options
) -> Drift:
    """Return what is known of an operator's changes after a look.

    Args:
        drift: What was known.
        points: Its earlier observations, shifted, at least one.
        measured: What this look measured of it.
        begin: Begin of the look's period (UTC).
        short: The job falls short of its load, which makes a lower ability credible at once.
        options: Flow's.
    """
    if drift.suspect:  # the surprise itself is no witness: what was known before it is compared with
        points = [o for o in points if o.time < begin] or points
    known = observed_levels(points, options.top_k)
    here = next((level for level in known if level.parallelism == measured.parallelism), None)
    if here is None:
        return drift  # at a level of its own a surprise is what the model does not know
    mean, sd = here.ability, here.error / here.ability
    residual = math.log(measured.processing_ability / mean)
    scale = math.hypot(max(measured.noise / measured.processing_ability, LEAST_SCATTER), sd)
    sudden = residual < -SURPRISE_WHEN_SHORT * scale and short
    if not sudden and not _confirmed(drift.suspect, residual, scale):
        return replace(drift, suspect=residual if abs(residual) > SURPRISE * scale else 0.0)
    return Drift((*drift.shifts, Shift(begin, math.exp(residual)))[-MOST_SHIFTS:])


def _confirmed(suspect: float, residual: float, scale: float) -> bool:
    """Say whether a look agrees with a surprise that the one before was."""
    return suspect * residual > 0 and abs(residual) >= max(AGREEMENT * abs(suspect), 2 * scale)
