"""Figures that only some scenarios have: recovery from a drift, and useless steps up on a plateau."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

from benchmarks.simulation.plant import SimulatedPlant
from benchmarks.simulation.run import Run, Step

EFFECT = 0.2
"""A step up has an effect if it truly brings at least this share of the linear gain."""


def recovery(run: Run) -> float:
    """Return the reconfigurations from a sudden drift until a tuning ends with a sufficient configuration.

    In the tuning in which the ability fell, all reconfigurations from then on count. If it ends under-provisioned, the
    following tunings count too, less one reconfiguration each for their own change of load.

    Returns:
        The count; NaN for a run without a drift, or with a gradual drift, which has no single start.
    """
    events = run.scenario.drift.events
    if len(events) != 1 or events[0].over_s > 0:
        return math.nan
    tunings = run.scenario.workload.tunings
    first = bisect_right(tunings, events[0].at_s) - 1
    counts = [0] * len(tunings)
    for step in run.steps:
        if step.reconfigures and step.at_s > events[0].at_s:
            counts[bisect_right(tunings, step.at_s) - 1] += 1
    total = 0
    for tuning in range(first, len(tunings)):
        total += counts[tuning] if tuning == first else max(0, counts[tuning] - 1)
        if _ends_adequate(run, tuning):
            break
    return float(total)


def _ends_adequate(run: Run, tuning: int) -> bool:
    """Return whether the configuration at a tuning's end is truly sufficient for its rates."""
    end = (*run.scenario.workload.tunings[1:], run.scenario.workload.until)[tuning]
    return run.segments[bisect_left(run.segments, end, key=lambda s: s.until)].adequate


def ineffective(run: Run, plant: SimulatedPlant) -> float:
    """Return the most steps up without effect of one operator in one tuning.

    Args:
        run: The run.
        plant: The plant that was driven, for the true abilities.
    """
    units = run.scenario.units
    abilities = [plant.truth.ability(unit) for unit in units]
    tunings = run.scenario.workload.tunings
    counts: dict[tuple[int, int], int] = {}
    for step in run.steps:
        tuning = bisect_right(tunings, step.at_s) - 1
        for i, ability in enumerate(abilities):
            if _in_vain(step, i, float(ability[step.before[i] - 1]), float(ability[step.after[i] - 1])):
                counts[tuning, i] = counts.get((tuning, i), 0) + 1
    return float(max(counts.values(), default=0))


def _in_vain(step: Step, unit: int, before: float, after: float) -> bool:
    p, q = step.before[unit], step.after[unit]
    return q > p and after / before - 1 < EFFECT * (q / p - 1)
