"""How many workers a join has, and how many slots its app needs for them.

Symbols:
    E(w)   expected rate of the streams together, tuples a second
    phi    how long tuples stay in the window, seconds
    W      tuples that a worker can keep
    tau1   utilisation that is aimed at

    M = ceil(E(w) phi / (W tau1))      (2)

A join begins with M workers. Once a threshold has lasted, both ways lead to about tau1: Equation 2 for the load instead
of the expected one. Adding goes by the load as it is; taking away by the most that came while utilisation stayed at or
below tau0, so that a pause between two bursts is not taken for their end. Each change of the number of workers starts
both times anew.

Workers beyond the slots of their app keep tuples but do not work at the same time. So slots follow the workers, and are
given back when they go; what a launch or a person set is never gone below: the app has other stages too.

Reference: [ESJ-A] "Initial deployment", Equation 2; "Scaling up", "Scaling down". The paper has the rate of one stream;
the window of a join holds the tuples of all its streams, so theirs are added up.

Deviation: the paper adds and removes workers "until tau decreases to tau1 around"; here the number is set at once, as
each step in between would be a change of its own. And with the trigger ``offered``, a load that stays between tau2 and
tau3 adds workers too, after a longer time: the paper sheds for ever there, though "load shedding is mainly useful for
handling transient workload increase".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from millrace.model.decision import Memory
from millrace.model.signals import Bounds
from millrace.optimizers.esj.options import EsjOptions, JoinPolicy
from millrace.optimizers.esj.timers import ThresholdTimers

SLOTS_FROM, SLOTS_TO = "slots_from", "slots_to"


def initial_workers(rate: float, window_s: float, capacity: int, target: float) -> int:
    """Return M, the workers that a join begins with, >= 1.

    Args:
        rate: E(w), tuples a second of event time, >= 0.
        window_s: phi, seconds of event time, >= 0.
        capacity: W, >= 1.
        target: tau1, (0, 1].
    """
    return _workers(_exact(rate) * _exact(window_s), capacity, target)


def workers_for(tuples: float, capacity: int, target: float) -> int:
    """Return the fewest workers that keep so many tuples at the target or below, >= 1.

    Args:
        tuples: Of the whole window, >= 0.
        capacity: W, >= 1.
        target: tau1, (0, 1].
    """
    return _workers(_exact(tuples), capacity, target)


def _workers(tuples: Fraction, capacity: int, target: float) -> int:
    return max(1, math.ceil(tuples / (_exact(capacity) * _exact(target))))


def _exact(value: float) -> Fraction:
    """Return a number as a person writes it: 0.3 is three tenths, not the nearest binary fraction."""
    return Fraction(str(value))


def start_workers(policy: JoinPolicy) -> int:
    """Return M within the policy's bounds: workers that a join begins with and keeps at least."""
    if policy.expected_rows_per_s is None:
        return policy.workers.min
    wanted = initial_workers(policy.expected_rows_per_s, policy.window_s, policy.capacity, policy.options.tau1)
    return min(policy.workers.max, max(policy.workers.min, wanted))


def is_overloaded(timers: ThresholdTimers, options: EsjOptions) -> bool:
    """Say whether the load has been too high for long enough to add workers."""
    return timers.is_over(options.lasts_s) or (options.trigger == "offered" and timers.is_full(options.sheds_s))


def most_workers(policy: JoinPolicy, partitions: int | None) -> int:
    """Return the most workers that a join can have: each keeps its window in a state partition of its own.

    Args:
        policy: With its bounds.
        partitions: State partitions of the checkpoint, which keeps those of its first start; None if unknown.
    """
    return policy.workers.max if partitions is None else min(policy.workers.max, partitions)


def choose_workers(timers: ThresholdTimers, tuples: float, capacity: int, policy: JoinPolicy, most: int) -> int:
    """Return the workers that a join is to have: m, within the policy's bounds.

    Args:
        timers: For how long utilisation has been high or low.
        tuples: Load of the whole window.
        capacity: W, >= 2.
        policy: Thresholds, times and bounds.
        most: The most that it can have; the policy's least still counts if that is more.
    """
    options, workers = policy.options, timers.workers
    if is_overloaded(timers, options):
        workers = max(workers, workers_for(tuples, capacity, options.tau1))
    elif timers.is_under(options.cool_s):
        workers = min(workers, workers_for(timers.most, capacity, options.tau1))
    return max(policy.workers.min, min(most, max(start_workers(policy), workers)))


@dataclass(frozen=True)
class RaisedSlots:
    """Slots that were raised for workers.

    Attributes:
        least: What they were before, >= 1.
        most: The most that was asked for and may be in force, > least.
    """

    least: int
    most: int

    @classmethod
    def read(cls, memory: Memory) -> RaisedSlots | None:
        """Return what was remembered; None for a memory that is empty, or of another making."""
        least, most = memory.get(SLOTS_FROM), memory.get(SLOTS_TO)
        if type(least) is int and type(most) is int and 1 <= least < most:
            return cls(least, most)
        return None

    def to_json(self) -> Memory:
        """Return what is remembered as a JSON value."""
        return {SLOTS_FROM: self.least, SLOTS_TO: self.most}


def choose_slots(
    workers: int, slots: int, bounds: Bounds, raised: RaisedSlots | None
) -> tuple[int, RaisedSlots | None]:
    """Return the slots for so many workers, and what to remember.

    Args:
        workers: m that is wanted, >= 1.
        slots: Slots so far, >= 1.
        bounds: Allowed slots; those so far stay allowed.
        raised: What was remembered; it is forgotten if somebody else has set the slots since.
    """
    least = raised.least if raised is not None and raised.least <= slots <= raised.most else slots
    wanted = max(least, bounds.level(workers))
    most = max(wanted, slots)
    return wanted, RaisedSlots(least, most) if most > least else None
