"""Observed levels of an operator: ability and error of each, and the level above which more slots gain nothing.

A level's ability is the median of its latest observations. Its error is their scatter over the root of their number.
Scatter is learned from differences between repeats at one level, pooled over the operator's levels, because one or two
observations do not show it. It is never below the scatter of repeats in published tables, nor below a measurement's own
error.

The levels themselves show ineffective scaling. The prior predicts PA(a) (b/a)^e; achieved is the ability observed at b.
A pair of levels a < b shows a plateau if achieved - PA(a) < share * (predicted - PA(a)) beyond doubt, that is with the
standard error of the difference added to the achieved ability. All pairs count, not only neighbours: this also finds
small steps up a flat curve. And a has to be about as able as any level: a curve that flattens late is steep before.
Nothing is remembered: when b is measured again, or its measurement gets old, the verdict changes by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from statistics import median

import numpy as np

from millrace.model.gain import Gain
from millrace.model.signals import Observation
from millrace.optimizers.conttune.options import FlowOptions
from millrace.optimizers.conttune.sizing import Columns

MAX_LEVELS = 100
"""Most recently observed levels that are used: a GP of 100 points fits in milliseconds, of 1000 in seconds."""
LEAST_SCATTER = 0.02
"""Repeats of one level scatter by 1 to 2 % on the published tables."""
SHAMOS = 1.0483
"""Standard deviation of normal values over the median of the differences of all pairs of them ([Shamos] 1976).

It is as robust against outliers as a median, and nearly as sharp as a mean of squares.
"""
PRIOR_OBSERVATIONS = 3
"""Weight of ``LEAST_SCATTER`` against the observed scatter, in degrees of freedom."""
INEFFECTIVE_BATCHES = 12
"""Fewest batches for which a finding that more slots gain nothing stays valid."""
AS_ABLE = 0.9
"""Share of the highest observed ability from which a level is on the plateau."""


@dataclass(frozen=True)
class Level:
    """Knowledge of one level.

    Attributes:
        parallelism: p, >= 1.
        ability: PA(p), rows per second, > 0.
        error: Standard error of that, rows per second, >= 0.
        latest: When p was last observed (UTC).
    """

    parallelism: int
    ability: float
    error: float
    latest: datetime


def observed_levels(observations: Iterable[Observation], top_k: int) -> tuple[Level, ...]:
    """Return the levels of one operator by rising p.

    Args:
        observations: Usable ones of the operator, oldest first per level.
        top_k: Latest observations of a level that count, >= 1.
    """
    recent = recent_by_level(observations, top_k)
    scatter = relative_scatter(recent.values())
    return newest_levels(_level(p, of_level, scatter) for p, of_level in recent.items())


def recent_by_level(observations: Iterable[Observation], top_k: int) -> dict[int, list[Observation]]:
    """Return the ``top_k`` latest observations of each level, oldest first."""
    by_level: dict[int, list[Observation]] = {}
    for observation in observations:
        by_level.setdefault(observation.parallelism, []).append(observation)
    return {p: of_level[-top_k:] for p, of_level in by_level.items()}


def relative_scatter(groups: Iterable[Sequence[Observation]]) -> float:
    """Return the relative standard deviation of an observation, >= ``LEAST_SCATTER``.

    Args:
        groups: Observations of one level each.
    """
    gaps: list[float] = []
    freedom = 0
    for group in groups:
        logs = np.log([o.throughput for o in group])
        gaps += np.abs(logs[:, None] - logs)[np.triu_indices(len(logs), 1)].tolist()
        freedom += len(logs) - 1
    if not gaps:
        return LEAST_SCATTER
    seen = SHAMOS * median(gaps)
    pooled = (freedom * seen**2 + PRIOR_OBSERVATIONS * LEAST_SCATTER**2) / (freedom + PRIOR_OBSERVATIONS)
    return max(LEAST_SCATTER, math.sqrt(pooled))


def newest_levels(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Return the ``MAX_LEVELS`` most recently observed levels, by rising p."""
    newest = sorted(levels, key=lambda level: (level.latest, level.parallelism))[-MAX_LEVELS:]
    return tuple(sorted(newest, key=lambda level: level.parallelism))


def training_columns(levels: Sequence[Level]) -> Columns:
    """Return levels as a surrogate's training: columns ``parallelism``, ``throughput``, ``noise``."""
    return {
        "parallelism": tuple(float(level.parallelism) for level in levels),
        "throughput": tuple(level.ability for level in levels),
        "noise": tuple(level.error for level in levels),
    }


def nearest(levels: Iterable[Level], parallelism: int) -> Level:
    """Return the observed level nearest to p, the lower of two equally near."""
    return min(levels, key=lambda level: (abs(level.parallelism - parallelism), level.parallelism))


def find_ceiling(levels: Sequence[Level], now: datetime, options: FlowOptions, trigger_s: float = 0.0) -> int | None:
    """Return the level above which more slots gain nothing; None if no such level is known.

    Args:
        levels: By rising p.
        now: Time of the evaluation (UTC).
        options: ``ineffective_thr``, ``ineffective_for_s`` and ``exponent``.
        trigger_s: Interval of the trigger, seconds: a measurement stays valid for a few batches at least.
    """
    oldest = now - timedelta(seconds=max(options.ineffective_for_s, INEFFECTIVE_BATCHES * trigger_s))
    highest = max((level.ability for level in levels), default=0.0)
    for a, b in combinations(levels, 2):  # by rising a
        if b.latest >= oldest and a.ability >= AS_ABLE * highest and _is_flat(a, b, options):
            return a.parallelism
    return None


def _is_flat(a: Level, b: Level, options: FlowOptions) -> bool:
    predicted = a.ability * (math.pow(b.parallelism / a.parallelism, options.exponent) - 1)
    gain = Gain(predicted, b.ability - a.ability, math.hypot(a.error, b.error))
    return gain.falls_short(options.ineffective_thr)


def _level(parallelism: int, recent: Sequence[Observation], scatter: float) -> Level:
    ability = median(o.throughput for o in recent)
    own_error = math.sqrt(sum(o.noise**2 for o in recent) / len(recent))
    error = max(own_error, scatter * ability) / math.sqrt(len(recent))
    return Level(parallelism, ability, error, recent[-1].time)
