"""The forwarding condition of MP-2PF: when a worker of a chain passes a block of tuples on to its successor.

A chain connects the workers of a join. Tuples of one side enter at the first worker and flow right, those of the other
side enter at the last worker and flow left. So a worker's successor depends on the side.

Reference:
    [ESJ-C] "Reducing Serialization".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from millrace.model.errors import MillraceError


def forwards(own: int, successor: int, block: int) -> bool:
    """Return whether a worker passes a block on: its workload exceeds its successor's by the block size.

    Args:
        own: Tuples of the side at rest in the worker.
        successor: Tuples of the side that the successor has or is about to get.
        block: Tuples per block, >= 1.
    """
    return own - successor >= block


def blocks_to_forward(own: int, successor: int, block: int) -> int:
    """Return how many blocks a worker passes on until the forwarding condition no longer holds.

    Args:
        own: Tuples of the side at rest in the worker, >= 0.
        successor: Tuples of the side that the successor has or is about to get, >= 0.
        block: Tuples per block, >= 1.
    """
    # each block lowers the difference by two blocks
    return (own - successor + block) // (2 * block) if forwards(own, successor, block) else 0


def resting_place(sizes: Sequence[int], enters: Literal["left", "right"], block: int) -> int:
    """Return the worker where a whole block that enters a quiet chain comes to rest.

    Every worker passes a block on while the forwarding condition holds, counting the block as its own. If neighbours
    differ by at most one block before, they still do afterwards, whichever side the block enters from.

    Args:
        sizes: Workload of each worker from left to right, tuples, >= 0; shape (workers,).
        enters: The side that the block enters from.
        block: Tuples in the block, >= 1.

    Returns:
        Position in ``sizes``.

    Raises:
        MillraceError: If there is no worker, a size is negative or the block is empty.
    """
    if not sizes or min(sizes) < 0:
        raise MillraceError("sizes", list(sizes), "a number >= 0 per worker, at least one", "Give each worker's size.")
    if block < 1:
        raise MillraceError("block", block, "a whole number >= 1", "Set a block of at least one tuple.")
    course = range(len(sizes)) if enters == "left" else range(len(sizes) - 1, -1, -1)
    at = course[0]
    for following in course[1:]:
        if not forwards(sizes[at] + block, sizes[following], block):
            break
        at = following
    return at
