"""An operator that changes under way: a new version, a slower disk, more state. What was learned of it is rescaled.

What is measured at a level is compared with what the same level said before, never with the model, whose curve may be
wrong where nothing was measured. A residual beyond ``SURPRISE`` standard deviations is a drift if the next evaluations
say the same, or at once where the job falls short as well: heavy-tailed noise makes single ones lie. All earlier
observations are then multiplied by the ratio: a slower operator is usually slower at every p, and the shape of the
curve is what took long to learn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import NamedTuple

from millrace.model.signals import Observation
from millrace.optimizers.conttune.observed_levels import observed_levels, recent_by_level, relative_scatter
from millrace.optimizers.conttune.options import FlowOptions

SURPRISE = 5.0
SURPRISE_WHEN_SHORT = 3.0
AGREEMENT = 0.5
"""An evaluation agrees with a surprise if its residual has its sign and at least this share of it."""
WITNESSES = 3
"""Evaluations in a row that say the same before it is a drift: of one period in ten that lies, two may follow."""
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
        suspects: What the last evaluations say, the first of them a surprise that the others agree with.
    """

    shifts: tuple[Shift, ...] = ()
    suspects: tuple[Shift, ...] = ()

    def with_shift(self, shift: Shift) -> Drift:
        """Return what is known after one more change."""
        return Drift((*self.shifts, shift)[-MOST_SHIFTS:])


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
    if drift.suspects:  # surprises are no witnesses: what was known before them is compared with
        points = [o for o in points if o.time < drift.suspects[0].at] or points
    levels = observed_levels(points, options.top_k)
    here = next((level for level in levels if level.parallelism == measured.parallelism), None)
    if here is None:
        return drift  # at a level of its own a surprise is what the model does not know
    mean, sd = here.ability, here.error / here.ability
    factor = measured.processing_ability / mean
    scatter = relative_scatter(recent_by_level(points, options.top_k).values())
    scale = math.hypot(max(measured.noise / measured.processing_ability, scatter), sd)
    if math.log(factor) < -SURPRISE_WHEN_SHORT * scale and short:
        return drift.with_shift(Shift(begin, factor))
    suspects = drift.suspects if drift.suspects and _agrees(drift.suspects[0].factor, factor, scale) else ()
    if suspects or abs(math.log(factor)) > SURPRISE * scale:
        suspects = (*suspects, Shift(measured.time, factor))
    if len(suspects) < WITNESSES:
        return replace(drift, suspects=suspects)
    return drift.with_shift(Shift(suspects[0].at, median(s.factor for s in suspects)))


def _agrees(suspect: float, factor: float, scale: float) -> bool:
    """Say whether an evaluation's factor agrees with that of a surprise before it."""
    before, now = math.log(suspect), math.log(factor)
    return before * now > 0 and abs(now) >= max(AGREEMENT * abs(before), 2 * scale)
