"""Tasks take turns on slots: of all p that need the same number of turns, the lowest does what all of them do.

Symbols:
    T   tasks of the stage that takes most of a batch
    p   slots

T tasks of about equal length need ceil(T / p) turns on p slots. 8 tasks take two turns on 4 slots as well as on 7, so
5, 6 and 7 slots do no more than 4. The effective slots of a level are the lowest level with the same number of turns.
"""

from __future__ import annotations

from millrace.model.objective import Bounds


def effective(slots: int, tasks: int | None) -> int:
    """Return the fewest slots on which a stage takes no more turns than on these.

    Args:
        slots: p, >= 1.
        tasks: T, >= 1; None if it is unknown, or not the same in all batches.
    """
    return slots if tasks is None else _turns(tasks, _turns(tasks, slots))


def level(slots: int, tasks: int | None, bounds: Bounds) -> int:
    """Return the fewest allowed slots that do as much as these, or as the highest allowed number.

    Args:
        slots: Wanted slots, >= 1.
        tasks: T, >= 1; None if it is unknown.
        bounds: The allowed slots.
    """
    wanted = min(slots, effective(bounds.max_slots, tasks))
    return next((p for p in bounds.levels if effective(p, tasks) >= wanted), bounds.max_slots)


def _turns(tasks: int, slots: int) -> int:
    return -(-tasks // slots)
