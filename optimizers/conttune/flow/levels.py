"""What was observed of each level of an operator: a robust middle of its latest observations, and how sure it is.

A level's error is the scatter of observations over the root of their number. Scatter is pooled over the operator's
levels, for one or two observations say nothing of it, and is never below what repeats on published tables show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from include.model.signals import Observation
from optimizers.conttune.history import MAX_LEVELS, Columns, Level

LEAST_SCATTER = 0.02
"""Repeats of one level scatter by 1 to 2 % on the published tables."""
MAD_TO_SIGMA = 1.4826
PRIOR_OBSERVATIONS = 3
"""Weight of ``LEAST_SCATTER`` beside the scatter that was seen, in observations."""


def observed_levels(observations: Sequence[Observation], top_k: int) -> tuple[Level, ...]:
    """Return the levels of one operator by rising p.

    Args:
        observations: Usable ones of the operator, oldest first per level.
        top_k: Latest observations of a level that count, >= 1.
    """
    recent: dict[int, list[Observation]] = {}
    for observation in observations:
        recent.setdefault(observation.parallelism, []).append(observation)
    kept = {p: found[-top_k:] for p, found in recent.items()}
    scatter = _scatter(list(kept.values()))
    found = [_level(p, of_level, scatter) for p, of_level in kept.items()]
    newest = sorted(found, key=lambda level: (level.latest, level.parallelism))[-MAX_LEVELS:]
    return tuple(sorted(newest, key=lambda level: level.parallelism))


def training(levels: Sequence[Level]) -> Columns:
    """Return levels as a surrogate's training: columns ``parallelism``, ``processing_ability``, ``noise``."""
    return {
        "parallelism": tuple(float(level.parallelism) for level in levels),
        "processing_ability": tuple(level.ability for level in levels),
        "noise": tuple(level.error for level in levels),
    }


def _level(parallelism: int, recent: Sequence[Observation], scatter: float) -> Level:
    ability = median(o.processing_ability for o in recent)
    told = math.sqrt(sum(o.noise**2 for o in recent) / len(recent))
    error = max(told, scatter * ability) / math.sqrt(len(recent))
    return Level(parallelism, ability, error, recent[-1].time)


def _scatter(groups: Sequence[Sequence[Observation]]) -> float:
    """Return the relative standard deviation of an observation around its level's middle."""
    deviations: list[float] = []
    lost = 0
    for group in groups:
        if len(group) > 1:
            middle = median(o.processing_ability for o in group)
            deviations += [abs(o.processing_ability - middle) / middle for o in group]
            lost += 1
    if not deviations:
        return LEAST_SCATTER
    n = len(deviations)
    seen = MAD_TO_SIGMA * median(deviations) * math.sqrt(n / max(n - lost, 1))
    pooled = (n * seen**2 + PRIOR_OBSERVATIONS * LEAST_SCATTER**2) / (n + PRIOR_OBSERVATIONS)
    return max(LEAST_SCATTER, math.sqrt(pooled))
