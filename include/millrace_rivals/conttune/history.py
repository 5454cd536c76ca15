"""H^t: Top-K per operator and level, with mean-reversion ([ContTune], Sections 5.1 and 7).

Per operator and level p the K most recent observations are kept (fewer if there are fewer), and their mean is the
processing ability of p; the K+1th is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import fmean, stdev

from millrace.model.signals import Observation
from millrace.optimizers.conttune.figures import is_possible
from millrace.optimizers.conttune.job_graph import Operator
from millrace.optimizers.conttune.observed_levels import Level, newest_levels, recent_by_level


def levels_by_operator(
    observations: Iterable[Observation], operators: Sequence[Operator], top_k: int, time: datetime
) -> Mapping[str, tuple[Level, ...]]:
    """Return the levels of several operators by name, this evaluation's measurements included.

    Args:
        observations: Of any operators, oldest first per operator and level.
        operators: Operators whose levels are wanted.
        top_k: K, >= 1.
        time: The evaluation's time (UTC).
    """
    by_name: dict[str, list[Observation]] = {operator.name: [] for operator in operators}
    for observation in observations:
        if observation.operator in by_name and _is_usable(observation):
            by_name[observation.operator].append(observation)
    return {o.name: mean_levels(with_current(by_name[o.name], o, time), top_k) for o in operators}


def with_current(own: Sequence[Observation], operator: Operator, time: datetime) -> Sequence[Observation]:
    """Return an operator's observations, oldest first, with the present measurement as the newest.

    Args:
        own: Its usable observations; they may already include the present one.
        operator: The operator as measured in this evaluation.
        time: The evaluation's time (UTC).
    """
    if operator.ability is None or operator.ability_at is None:
        return own
    p, ability, error = operator.ability_at, operator.ability, operator.ability_error
    current = Observation(operator.name, p, ability, error, operator.samples, time)
    newest = next((o for o in reversed(own) if o.parallelism == p), None)
    if not _is_usable(current) or (newest is not None and newest.throughput == ability):
        return own
    return (*own, current)


def mean_levels(observations: Iterable[Observation], top_k: int) -> tuple[Level, ...]:
    """Return the levels of one operator by rising p.

    Args:
        observations: One operator's observations, oldest first per level.
        top_k: K, >= 1.
    """
    return newest_levels(_mean_level(p, recent) for p, recent in recent_by_level(observations, top_k).items())


def _mean_level(parallelism: int, recent: Sequence[Observation]) -> Level:
    values = [o.throughput for o in recent]
    n = len(values)
    own_error = math.sqrt(fmean([o.noise**2 for o in recent]))
    scatter = stdev(values) if n > 1 else 0.0
    return Level(parallelism, fmean(values), max(own_error, scatter) / math.sqrt(n), max(o.time for o in recent))


def _is_usable(observation: Observation) -> bool:
    noise = observation.noise
    return observation.parallelism >= 1 and is_possible(observation.throughput) and math.isfinite(noise) and noise >= 0
