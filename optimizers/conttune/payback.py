"""Whether a step down pays: its savings until the load needs the slots again, and the cost of both changes.

Symbols:
    n, m    slots now and after the step;  c  seconds that a change costs (downtime, cold batches)
    T       seconds until more arrives than m slots sustain, e the relative error of that forecast

A change costs as much as if its new slots did nothing for c seconds. The step down and the step up that undoes it cost
c (n + m) slot-seconds together, and (n - m) T / (1 + e) are surely saved. The step pays if that is more.

T is, in this order: the time that a repetition of earlier rates shows; the length of earlier stays below that rate; as
long again as the present stay has lasted. So a load that falls permanently is followed after at most twice the pay-back
time c (n + m) / (n - m), unless it was seen to rise again after longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from millrace.optimizers.conttune.arrival import RateHistory, find_repetition
from millrace.optimizers.conttune.course import Course, Expected

REPETITION_ERROR = 0.1
"""Relative error of the time at which a repetition shows a rise."""


@dataclass(frozen=True)
class PayBack:
    """Savings and cost of a step down.

    Attributes:
        freed: Slots, >= 1.
        lasts: Time until the next rise.
        cost: Cost of both changes, slot-seconds, >= 0.
    """

    freed: int
    lasts: Expected
    cost: float

    @property
    def saved(self) -> float:
        """Slot-seconds that are surely saved."""
        return self.freed * self.lasts.discounted_s

    @property
    def pays(self) -> bool:
        """True if the step is worth it."""
        return self.saved > self.cost or self.cost <= 0


@dataclass(frozen=True)
class Prospect:
    """Knowledge of the time until the next rise, and of the cost of a change.

    Attributes:
        course: Arrival over time.
        history: How the rate moved from evaluation to evaluation.
        period_s: Time between two evaluations, seconds, > 0.
        change_s: c, seconds, >= 0.
    """

    course: Course
    history: RateHistory
    period_s: float
    change_s: float

    def pay_back(self, now: int, then: int, sustained: float) -> PayBack:
        """Return the savings and cost of a step down.

        Args:
            now: Slots, all operators together.
            then: Slots after the step, fewer.
            sustained: Rate up to which they are enough, rows per second.
        """
        return PayBack(now - then, self.until_rise(sustained), self.change_s * (now + then))

    def until_rise(self, rate: float) -> Expected:
        """Return how long no more than a rate is expected to arrive."""
        lag = find_repetition(self.history.runs)
        if lag is None:
            return self.course.expected(rate)
        runs = self.history.runs
        evaluations = max(0, runs[-1 - lag].evaluations - runs[-1].evaluations)
        for run in runs[len(runs) - lag :]:
            if run.rate > rate:
                return Expected(evaluations * self.period_s, REPETITION_ERROR)
            evaluations += run.evaluations
        return Expected(math.inf, 0.0)
