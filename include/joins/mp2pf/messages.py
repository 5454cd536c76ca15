"""What two neighbours send each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Row = tuple[float, Any]
"""A tuple of a stream: its event time and whatever else it has."""
Kind = Literal["TUPLE_BLK", "ACK", "SIZE_CHG"]
R, S = 0, 1
"""The streams. R comes in at a worker's left end, S at its right: a stream's number is that of the end it enters by."""
BEFORE_ALL, AFTER_ALL = -math.inf, math.inf


class Message(NamedTuple):
    """A message on a link; of each direction's stream, the one that flows with the message is *its* stream.

    Attributes:
        kind: TUPLE_BLK passes a block on, ACK acknowledges blocks, SIZE_CHG tells a workload that shrank.
        number: Of the block, 1 for a link's first; of others, the number of the last block sent before.
        rows: The block's tuples.
        taken: Blocks of the opposite stream that the sender had taken from this link when it first sent this.
        version: Counts what the sender said on this link, so that an old message cannot undo a newer one.
        size: Tuples of the opposite stream that rested at the sender, all ``taken`` blocks counted.
        clock: No tuple of its stream that has yet to enter the chain is older.
        seen: Highest version the sender had heard on this link.
    """

    kind: Kind
    number: int
    rows: Sequence[Row]
    taken: int
    version: int
    size: int
    clock: float
    seen: int
