"""Arrivals at the sources over time: rates that are constant between changes, and the start of each tuning.

A *tuning* is the interval from one change of the workload to the next ([ContTune], Section 8.1). If the rate changes
all the time (diurnal, random walk), a tuning is a fixed stretch of time instead.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from millrace.model.errors import MillraceError

Rates = tuple[float, ...]
RECENT = 1 / 3
"""Newest part of a period, whose rate is reported separately."""
TUNING_S = 600.0
"""Length of a tuning ([ContTune], Section 8.2)."""


@dataclass(frozen=True)
class Workload:
    """Arrival rates over time.

    Attributes:
        times: Start of each rate, seconds, rising, the first 0.
        rates: Rows per second at each source from then on, one tuple per time.
        tunings: Start of each tuning, seconds, rising, the first 0.
        until: End, seconds.

    Raises:
        MillraceError: If times and rates do not match, or a rate is negative.
    """

    times: tuple[float, ...]
    rates: tuple[Rates, ...]
    tunings: tuple[float, ...]
    until: float

    def __post_init__(self) -> None:
        """Reject an invalid course of time."""
        rising = all(a < b for a, b in pairwise((*self.times, self.until)))
        if self.times[:1] != (0,) or not rising or len(self.times) != len(self.rates):
            raise MillraceError("workload.times", self.times[:3], "rising from 0, one rate each", "Sort the times.")
        if any(rate < 0 for rates in self.rates for rate in rates):
            raise MillraceError("workload.rates", "a negative rate", ">= 0", "Rates are rows a second.")

    def at(self, time: float) -> int:
        """Return the index of the rates from ``time`` on."""
        return bisect_right(self.times, time) - 1

    def before(self, time: float) -> int:
        """Return the index of the rates just before ``time``; at 0, of the rates from then on."""
        return max(0, bisect_left(self.times, time) - 1)

    def means(self, since: float, until: float) -> Rates:
        """Return the mean rate of each source between two times, rows per second."""
        first, last = self.at(since), self.before(until)
        begins = (since, *self.times[first + 1 : last + 1])
        spans = [b - a for a, b in pairwise((*begins, until))]
        held = zip(*self.rates[first : last + 1], strict=True)
        return tuple(sum(s * r for s, r in zip(spans, rates, strict=True)) / (until - since) for rates in held)

    @property
    def peak(self) -> Rates:
        """Highest rate of each source."""
        return tuple(max(rates[s] for rates in self.rates) for s in range(len(self.rates[0])))

    def delayed(self, phase_s: float) -> Workload:
        """Return a copy with all changes but the first delayed by ``phase_s`` >= 0, to fall within evaluations."""
        return replace(
            self,
            times=(0.0, *(t + phase_s for t in self.times[1:])),
            tunings=(0.0, *(t + phase_s for t in self.tunings[1:])),
            until=self.until + phase_s,
        )


def stepwise(units: Sequence[float], multiples: Sequence[float], every_s: float = TUNING_S) -> Workload:
    """Return multiples of the unit rates, each for ``every_s``; each different multiple starts a tuning."""
    times = [i * every_s for i in range(len(multiples))]
    rates = [tuple(unit * m for unit in units) for m in multiples]
    begins = [i for i in range(len(rates)) if i == 0 or rates[i] != rates[i - 1]]
    return Workload(tuple(times), tuple(rates), tuple(times[i] for i in begins), len(multiples) * every_s)


def permutation(units: Sequence[float], seed: Sequence[int], highest: int = 10) -> Workload:
    """Return 1..``highest`` times the unit rates in random order, then all of them again: 20 tunings."""
    order = np.random.default_rng(list(seed)).permutation(np.arange(1, highest + 1))
    return stepwise(units, [float(m) for m in (*order, *order)])


PAPERS_EXAMPLE = (9, 2, 3, 10, 1, 4, 5, 8, 6, 7)
"""The one permutation that the paper gives in full (Section 8.1)."""


def sliding(units: Sequence[float], multiples: Sequence[float], every_s: float) -> Workload:
    """Return a workload whose rate changes every ``every_s`` and whose tunings are stretches of 600 s."""
    plain = stepwise(units, multiples, every_s)
    return replace(plain, tunings=tuple(float(t) for t in np.arange(0.0, plain.until, TUNING_S)))


def diurnal(
    units: Sequence[float],
    seed: Sequence[int],
    days: int = 3,
    day_s: float = 14_400.0,
    every_s: float = 60.0,
    low: float = 2.0,
    high: float = 8.0,
    spike: float = 1.25,
    noise: float = 0.005,
) -> Workload:
    """Return days that rise and fall between ``low`` and ``high`` times the unit rates, with spikes.

    One spike comes at the same time every day, and one at a random time of each day; each lasts five minutes.

    Args:
        units: Unit rates.
        seed: Seed of the spikes and the noise.
        days: Number of days, >= 1.
        day_s: Length of a day.
        every_s: Seconds between changes of the rate.
        low: Multiple at night.
        high: Multiple at noon.
        spike: Factor of a spike.
        noise: Relative standard deviation of each rate.
    """
    rng = np.random.default_rng(list(seed))
    a_day = round(day_s / every_s)
    t = np.arange(days * a_day)
    course = low + (high - low) * (1 - np.cos(2 * np.pi * t / a_day)) / 2
    lasts = max(1, round(SPIKE_S / every_s))
    daily = rng.integers(0, a_day - lasts)
    for day in range(days):
        for start in (daily, rng.integers(0, a_day - lasts)):
            course[day * a_day + start : day * a_day + start + lasts] *= spike
    return sliding(units, _noisy(course, rng, noise), every_s)


SPIKE_S = 300.0


def random_walk(
    units: Sequence[float],
    seed: Sequence[int],
    steps: int = 200,
    every_s: float = 60.0,
    step_sd: float = 0.02,
    low: float = 1.0,
    high: float = 10.0,
) -> Workload:
    """Return a walk of the logarithm of the rate, reflected at ``low`` and ``high`` times the unit rates."""
    rng = np.random.default_rng(list(seed))
    span = np.log(high / low)
    walked = rng.uniform(0, span) + np.cumsum(rng.normal(0.0, step_sd, steps))
    folded = np.abs((walked + span) % (2 * span) - span)
    return sliding(units, [float(m) for m in low * np.exp(folded)], every_s)


def recorded(units: Sequence[float], values: Sequence[float], minutes: int = 5, peak: float = 10.0) -> Workload:
    """Return a recorded series, one value per minute, as maxima over ``minutes``; its highest value is ``peak`` units.

    Args:
        units: Unit rates: how the series is shared out over the sources.
        values: The series, >= 0, any unit.
        minutes: Length of a stretch, whose highest value applies throughout, >= 1.
        peak: Multiple of the unit rates for the highest value.

    Raises:
        MillraceError: If there is no positive value.
    """
    highest = [max(values[i : i + minutes]) for i in range(0, len(values), minutes)]
    if not highest or max(highest) <= 0:
        raise MillraceError("workload.values", list(values[:3]), "one value a minute, some > 0", "Pass the series.")
    return stepwise(units, [peak * v / max(highest) for v in highest], 60.0 * minutes)


def _noisy(course: np.ndarray, rng: np.random.Generator, sd: float) -> list[float]:
    return [float(m) for m in course * np.maximum(0.1, 1 + sd * rng.standard_normal(len(course)))]
