"""The forwarding condition, and where a block comes to rest under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from include.model.errors import MillraceError


def forwards(own: int, successor: int, block: int) -> bool:
    """Say whether a worker passes a block on: its workload exceeds its successor's by the block size.

    Args:
        own: Tuples of the stream that rest at the worker.
        successor: Tuples of the stream that the successor has, or is known to get.
        block: Tuples of a block, >= 1.

    Reference:
        [ESJ-C] "Reducing Serialization".
    """
    return own - successor >= block


def resting_place(sizes: Sequence[int], enters: Literal["left", "right"], block: int) -> int:
    """Return the worker where a whole block that enters a quiet chain comes to rest.

    Every worker passes a block on while the forwarding condition holds, counting the block as its own. If no two
    neighbours differ by more than a block before, none do after, whichever sides blocks enter from.

    Args:
        sizes: Workload of each worker from left to right, tuples, >= 0; shape (workers,).
        enters: The side that the block enters from.
        block: Its tuples, >= 1.

    Returns:
        Position in ``sizes``.

    Raises:
        MillraceError: If there is no worker, a size is negative or the block is empty.
    """
    if not sizes or min(sizes) < 0:
        raise MillraceError("sizes", list(sizes), "one number >= 0 a worker, at least one", "Tell every worker's size.")
    if block < 1:
        raise MillraceError("block", block, "a whole number >= 1", "Set a block of at least one tuple.")
    course = range(len(sizes)) if enters == "left" else range(len(sizes) - 1, -1, -1)
    at = course[0]
    for following in course[1:]:
        if not forwards(sizes[at] + block, sizes[following], block):
            break
        at = following
    return at
