"""H^t: of each operator Top-K per level with mean-reversion ([ContTune], Sections 5.1 and 7).

Per operator and level p the K most recent observations are kept (fewer if there are fewer) and their mean is the
processing ability of p; the K+1th is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, stdev

from include.model.signals import Capacity, Observation
from optimizers.conttune.inputs import possible
from optimizers.conttune.job import Operator

MAX_LEVELS = 100
"""Most recently observed levels that are used: a GP of 100 points fits in milliseconds, of 1000 in seconds."""

Columns = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Level:
    """What is known of one level.

    Attributes:
        parallelism: p, >= 1.
        ability: PA(p), mean of the K most recent observations, rows a second, > 0.
        error: Standard error of that mean, rows a second, >= 0.
        latest: When p was last observed (UTC).
    """

    parallelism: int
    ability: float
    error: float
    latest: datetime


def known(
    observations: Iterable[Observation], operators: Sequence[Operator], top_k: int, time: datetime
) -> Mapping[str, tuple[Level, ...]]:
    """Return the levels of several operators by name, what this look measured of them included.

    Args:
        observations: Of any operators, oldest first per operator and level.
        operators: Those whose levels are wanted.
        top_k: K, >= 1.
        time: The present look's time (UTC).
    """
    by_name: dict[str, list[Observation]] = {operator.name: [] for operator in operators}
    for observation in observations:
        if observation.operator in by_name:
            by_name[observation.operator].append(observation)
    return {o.name: levels(with_current(by_name[o.name], o.name, _measured(o), time), top_k) for o in operators}


def _measured(operator: Operator) -> Capacity | None:
    if operator.ability is None or operator.ability_at is None:
        return None
    return Capacity(operator.ability_at, 0.0, operator.ability, operator.ability_error, operator.samples)


def with_current(
    observations: Iterable[Observation], operator: str, capacity: Capacity | None, time: datetime
) -> tuple[Observation, ...]:
    """Return an operator's usable observations, oldest first, with the present measurement as the newest.

    Args:
        observations: Of any operators, oldest first per operator and level.
        operator: The operator.
        capacity: What was measured in this look; it may be among the observations already.
        time: The present look's time (UTC).
    """
    own = [o for o in observations if o.operator == operator and _usable(o)]
    if capacity is None:
        return tuple(own)
    now = Observation(
        operator, capacity.parallelism, capacity.rows_per_s, capacity.rows_per_s_error, capacity.batches, time
    )
    newest = next((o for o in reversed(own) if o.parallelism == now.parallelism), None)
    if not _usable(now) or (newest is not None and newest.processing_ability == now.processing_ability):
        return tuple(own)
    return (*own, now)


def levels(observations: Iterable[Observation], top_k: int) -> tuple[Level, ...]:
    """Return the levels of one operator by rising p.

    Args:
        observations: One operator's observations, oldest first per level.
        top_k: K, >= 1.
    """
    by_level: dict[int, list[Observation]] = {}
    for observation in observations:
        by_level.setdefault(observation.parallelism, []).append(observation)
    found = [_level(p, recent[-top_k:]) for p, recent in by_level.items()]
    newest = sorted(found, key=lambda level: (level.latest, level.parallelism))[-MAX_LEVELS:]
    return tuple(sorted(newest, key=lambda level: level.parallelism))


def columns(known: Iterable[Level]) -> Columns:
    """Return levels as a surrogate's training: columns ``parallelism``, ``processing_ability``, ``noise``."""
    ordered = tuple(known)
    return {
        "parallelism": tuple(float(level.parallelism) for level in ordered),
        "processing_ability": tuple(level.ability for level in ordered),
        "noise": tuple(level.error for level in ordered),
    }


def nearest(known: Iterable[Level], parallelism: int) -> Level:
    """Return the observed level nearest to p, the lower of two equally near."""
    return min(known, key=lambda level: (abs(level.parallelism - parallelism), level.parallelism))


def _level(parallelism: int, recent: list[Observation]) -> Level:
    values = [o.processing_ability for o in recent]
    n = len(values)
    told = math.sqrt(fmean([o.noise**2 for o in recent]))
    seen = stdev(values) if n > 1 else 0.0
    return Level(parallelism, fmean(values), max(told, seen) / math.sqrt(n), max(o.time for o in recent))


def _usable(observation: Observation) -> bool:
    noise = observation.noise
    return (
        observation.parallelism >= 1
        and possible(observation.processing_ability)
        and math.isfinite(noise)
        and noise >= 0
    )
