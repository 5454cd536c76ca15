"""Cores of a join's app: as many as its workers, and given back when they go.

Workers beyond the slots of their app keep tuples but do not work at the same time. What a launch or a person set is
never gone below: the app has other stages too.
"""

from __future__ import annotations

from dataclasses import dataclass

from include.model.decision import Memory
from include.model.signals import Bounds

FROM, TO = "slots_from", "slots_to"


@dataclass(frozen=True)
class Raised:
    """Slots that were raised for workers.

    Attributes:
        least: What they were before, >= 1.
        most: The most that was asked for and may be in force, > least.
    """

    least: int
    most: int


def read(memory: Memory) -> Raised | None:
    """Return what was remembered; None for a memory that is empty, or of another making."""
    least, most = memory.get(FROM), memory.get(TO)
    if type(least) is int and type(most) is int and 1 <= least < most:
        return Raised(least, most)
    return None


def write(raised: Raised | None) -> Memory:
    """Return what is remembered as a JSON value."""
    return {} if raised is None else {FROM: raised.least, TO: raised.most}


def slots_for(workers: int, slots: int, bounds: Bounds, raised: Raised | None) -> tuple[int, Raised | None]:
    """Return the slots for so many workers, and what to remember.

    Args:
        workers: m that is wanted, >= 1.
        slots: Slots so far, >= 1.
        bounds: Allowed slots; those so far stay allowed.
        raised: What was remembered; it is forgotten if somebody else has set the slots since.
    """
    least = raised.least if raised is not None and raised.least <= slots <= raised.most else slots
    wanted = max(least, min(workers, bounds.max_slots))
    most = max(wanted, slots)
    return wanted, Raised(least, most) if most > least else None
