"""How many workers a join has, and how many slots its app needs for them.

Symbols:
    E(w)   expected rate of the streams together, tuples per second
    phi    how long tuples stay in the window, seconds
    W      tuples that a worker can keep
    tau1   target utilisation

    M = ceil(E(w) phi / (W tau1))      (2)

A join starts with M workers. If utilisation stays beyond a threshold for long enough, Equation 2 gives the new number,
with the measured load instead of the expected rate, and utilisation returns to about tau1. Workers are added for the
current load. They are removed by the highest load since utilisation fell to tau0 or below, because a pause between two
bursts is not their end. Each change of the number restarts the timers.

Workers beyond the slots of their app keep tuples but do not work at the same time. So slots follow the workers up and
down, but never below the number that a launch or a person set: the app has other stages too.

Reference: [ESJ-A] "Initial deployment", Equation 2; "Scaling up", "Scaling down". The paper uses the rate of one
stream; the window of a join holds the tuples of all its streams, so their rates are added up.

Deviation: the paper adds and removes workers "until tau decreases to tau1 around". Here the number is set at once,
because each step in between would be a change. With the trigger ``offered``, a load that stays between tau2 and tau3
also adds workers, after a longer time. The paper sheds forever in that case, though "load shedding is mainly useful for
handling transient workload increase".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from millrace.model.decision import Memory
from millrace.model.objective import Bounds
from millrace.optimizers.esj.options import EsjOptions, JoinPolicy
from millrace.optimizers.esj.timers import ThresholdTimers

SLOTS_FROM, SLOTS_TO = "slots_from", "slots_to"


def workers_for(tuples: float | Fraction, capacity: int, target: float) -> int:
    """Return M, the fewest workers that keep this many tuples at or below the target, >= 1.

    Args:
        tuples: Tuples of the whole window, >= 0.
        capacity: W, >= 1.
        target: tau1, (0, 1].
    """
    return max(1, math.ceil(_exact(tuples) / (_exact(capacity) * _exact(target))))


def _exact(value: float | Fraction) -> Fraction:
    """Return a number exactly as written: 0.3 is three tenths, not the nearest binary fraction."""
    return Fraction(str(value))


def start_workers(policy: JoinPolicy) -> int:
    """Return M within the policy's bounds: the workers that a join starts with and never goes below."""
    if policy.expected_rows_per_s is None:
        return policy.workers.min
    tuples = _exact(policy.expected_rows_per_s) * _exact(policy.window_s)
    wanted = workers_for(tuples, policy.capacity, policy.options.tau1)
    return min(policy.workers.max, max(policy.workers.min, wanted))


def is_overloaded(timers: ThresholdTimers, options: EsjOptions) -> bool:
    """Return whether the load has been too high for long enough to add workers."""
    return timers.is_over(options.lasts_s) or (options.trigger == "offered" and timers.is_full(options.sheds_s))


def most_workers(policy: JoinPolicy, partitions: int | None) -> int:
    """Return the most workers that a join can have: each keeps its window in a state partition of its own.

    Args:
        policy: With its bounds.
        partitions: State partitions of the checkpoint, fixed at its first start; None if unknown.
    """
    return policy.workers.max if partitions is None else min(policy.workers.max, partitions)


def choose_workers(timers: ThresholdTimers, tuples: float, capacity: int, policy: JoinPolicy, most: int) -> int:
    """Return m, the workers that a join should have, within the policy's bounds.

    Args:
        timers: For how long utilisation has been high or low.
        tuples: Load of the whole window.
        capacity: W, >= 2.
        policy: Thresholds, times and bounds.
        most: The most that it can have; the policy's minimum wins if it is higher.
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
        least: Slots before, >= 1.
        most: The most that was requested and may be in force, > least.
    """

    least: int
    most: int

    @classmethod
    def read(cls, memory: Memory) -> RaisedSlots | None:
        """Return the stored value; None if the memory is empty or has another format."""
        least, most = memory.get(SLOTS_FROM), memory.get(SLOTS_TO)
        if type(least) is int and type(most) is int and 1 <= least < most:
            return cls(least, most)
        return None

    def to_json(self) -> Memory:
        """Return the value to store as JSON."""
        return {SLOTS_FROM: self.least, SLOTS_TO: self.most}


def choose_slots(
    workers: int, slots: int, bounds: Bounds, raised: RaisedSlots | None
) -> tuple[int, RaisedSlots | None]:
    """Return the slots for this many workers, and what to remember.

    Args:
        workers: m that is wanted, >= 1.
        slots: Current slots, >= 1.
        bounds: Allowed slots; the current number stays allowed.
        raised: The stored value; it is dropped if somebody else has set the slots since.
    """
    least = raised.least if raised is not None and raised.least <= slots <= raised.most else slots
    wanted = max(least, bounds.level(workers))
    most = max(wanted, slots)
    return wanted, RaisedSlots(least, most) if most > least else None
