"""An operator that changes: a new version, a slower disk, more state. Its earlier observations are rescaled.

A measurement is compared with earlier ones at the same level, never with the model, whose curve may be wrong at levels
without measurements. A residual beyond ``SURPRISE`` standard deviations is a drift if the next evaluations agree, or at
once if the job falls short as well: with heavy-tailed noise, single evaluations can be wrong. All earlier observations
are then multiplied by the ratio: a slower operator is usually slower at every p, and the shape of the curve took long
to learn.
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
"""Consecutive evaluations that agree before it is a drift: if one period in ten is wrong, two may follow each other."""
MOST_SHIFTS = 8


class Shift(NamedTuple):
    """Observations before ``at`` are to be multiplied by ``factor``."""

    at: datetime
    factor: float


@dataclass(frozen=True)
class Drift:
    """Known changes of an operator.

    Attributes:
        shifts: In the order of time.
        suspects: Findings of the last evaluations: first a surprise, then the evaluations that agree with it.
    """

    shifts: tuple[Shift, ...] = ()
    suspects: tuple[Shift, ...] = ()

    def with_shift(self, shift: Shift) -> Drift:
        """Return the known changes after one more."""
        return Drift((*self.shifts, shift)[-MOST_SHIFTS:])


def rescale(observations: Sequence[Observation], shifts: Sequence[Shift]) -> list[Observation]:
    """Return observations as they would be measured today."""
    if not shifts:
        return list(observations)
    factors = [math.prod(s.factor for s in shifts if o.time < s.at) for o in observations]
    return [
        replace(o, throughput=o.throughput * factor, noise=o.noise * factor)
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
    """Return the known changes of an operator after an evaluation.

    Args:
        drift: The changes known before.
        points: Its earlier observations, rescaled, at least one.
        measured: This evaluation's measurement.
        begin: Start of the period (UTC).
        short: The job falls short of its load, which makes a lower ability credible at once.
        options: Flow's.
    """
    if drift.suspects:  # compare only with observations before the surprise
        points = [o for o in points if o.time < drift.suspects[0].at] or points
    levels = observed_levels(points, options.top_k)
    here = next((level for level in levels if level.parallelism == measured.parallelism), None)
    if here is None:
        return drift  # a surprise at a new level only shows what the model does not know
    mean, sd = here.ability, here.error / here.ability
    factor = measured.throughput / mean
    scatter = relative_scatter(recent_by_level(points, options.top_k).values())
    scale = math.hypot(max(measured.noise / measured.throughput, scatter), sd)
    if math.log(factor) < -SURPRISE_WHEN_SHORT * scale and short:
        return drift.with_shift(Shift(begin, factor))
    suspects = drift.suspects if drift.suspects and _agrees(drift.suspects[0].factor, factor, scale) else ()
    if suspects or abs(math.log(factor)) > SURPRISE * scale:
        suspects = (*suspects, Shift(measured.time, factor))
    if len(suspects) < WITNESSES:
        return replace(drift, suspects=suspects)
    return drift.with_shift(Shift(suspects[0].at, median(s.factor for s in suspects)))


def _agrees(suspect: float, factor: float, scale: float) -> bool:
    """Return whether an evaluation's factor agrees with the factor of an earlier surprise."""
    before, now = math.log(suspect), math.log(factor)
    return before * now > 0 and abs(now) >= max(AGREEMENT * abs(before), 2 * scale)
