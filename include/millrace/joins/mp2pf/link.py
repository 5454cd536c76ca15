"""Links between nodes of the chain: the messages between neighbours, and a node's end of a link.

Links may lose, duplicate and reorder messages. Blocks are numbered and accepted in order. A block that arrives ahead of
a missing one is dropped as if lost. Senders resend blocks, unchanged, until they are acknowledged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Row = tuple[float, Any]
"""A tuple of a stream: its event time and any other values."""
Kind = Literal["TUPLE_BLK", "ACK", "SIZE_CHG"]
R, S = 0, 1
"""The streams. R enters a worker at its left end, S at its right. A stream's number is the number of that end."""
BEFORE_ALL, AFTER_ALL = -math.inf, math.inf


class Message(NamedTuple):
    """A message on a link. *Its* stream is the one that flows in the direction of the message.

    Attributes:
        kind: TUPLE_BLK passes on a block, ACK acknowledges blocks, SIZE_CHG reports a smaller workload.
        number: Number of the block, 1 for the first on a link; for other kinds, the number of the last block sent.
        rows: The block's tuples.
        taken: Blocks of the opposite stream that the sender had accepted from this link when it first sent this.
        version: Message counter of the sender on this link, so that an old message cannot undo a newer one.
        size: Tuples of the opposite stream at rest in the sender, including all ``taken`` blocks.
        clock: Tuples of its stream that have yet to enter the chain are not older than this.
        seen: Highest version that the sender had received on this link.
    """

    kind: Kind
    number: int
    rows: Sequence[Row]
    taken: int
    version: int
    size: int
    clock: float
    seen: int


class LinkEnd:
    """One end of a link.

    Args:
        outside: Whether the other end is a source, so tuples leave the chain here.
        literal_sizes: Whether only SIZE_CHG reports sizes.

    Attributes:
        sent: Number of the last block sent.
        copies: Blocks sent and not acknowledged, oldest first.
        taken: Number of the last block accepted.
        clock: Tuples that have yet to enter the chain from the other side are not older than this.
        acknowledged: Number of the last accepted block that a message has acknowledged.
        reported_size: Workload last reported to the other end by a message that is certain to arrive.
        reported_clock: Clock in that message.
        peer_size: Workload last received. The message that carried it acknowledged all blocks that it counts.
    """

    __slots__ = (
        "acknowledged",
        "announced",
        "clock",
        "confirmed",
        "copies",
        "heard",
        "literal_sizes",
        "outside",
        "peer_size",
        "reported_clock",
        "reported_size",
        "sent",
        "taken",
        "version",
    )

    def __init__(self, outside: bool = False, literal_sizes: bool = False) -> None:
        self.outside, self.literal_sizes = outside, literal_sizes
        self.sent = self.taken = self.version = self.heard = self.announced = self.confirmed = 0
        self.acknowledged = self.reported_size = self.peer_size = 0
        self.clock = self.reported_clock = BEFORE_ALL
        self.copies: list[Message] = []

    def say(self, kind: Kind, size: int, clock: float, rows: Sequence[Row] = ()) -> Message:
        """Return a new message, and keep a copy of a block.

        Args:
            kind: Kind of the message.
            size: Workload to report.
            clock: Clock of the stream that flows with the message.
            rows: Tuples of a block.
        """
        self.version += 1
        if kind == "TUPLE_BLK":
            self.sent += 1
        elif kind == "SIZE_CHG":
            self.announced = self.version
        # an ACK is certain to arrive only if a block waits for it that nothing else has acknowledged
        if kind != "ACK" or self.taken > self.acknowledged:
            self.reported_size, self.reported_clock = size, clock
        self.acknowledged = self.taken
        message = Message(kind, self.sent, rows, self.taken, self.version, size, clock, self.heard)
        if kind == "TUPLE_BLK":
            self.copies.append(message)
        return message

    def is_next(self, message: Message) -> bool:
        """Return whether a message can be processed now, i.e. no earlier message is missing."""
        return message.number <= self.taken + (message.kind == "TUPLE_BLK")

    def heed(self, message: Message) -> bool:
        """Process everything in a message except its tuples; return whether copies were deleted.

        A block's ``taken`` dates from its first sending. A copy is therefore deleted before the blocks arrive whose
        tuples met it at the other end, and kept for those whose tuples did not.
        """
        if message.version > self.heard:
            self.heard = message.version
            if not self.literal_sizes or message.kind == "SIZE_CHG":
                self.peer_size = message.size
        if message.seen > self.confirmed:
            self.confirmed = message.seen
        if message.clock > self.clock:
            self.clock = message.clock
        copies, taken = self.copies, message.taken
        if not copies or copies[0].number > taken:
            return False
        self.copies = [copy for copy in copies if copy.number > taken]
        return True

    def known_size(self) -> int:
        """Return the other end's workload after it accepts all blocks in transit; never below the true value."""
        if self.literal_sizes:
            return self.peer_size
        return self.peer_size + sum(len(copy.rows) for copy in self.copies)

    @property
    def owed(self) -> bool:
        """Whether the other end still has to acknowledge something."""
        return bool(self.copies) or self.announced > self.confirmed

    def copy(self) -> LinkEnd:
        """Return a copy of the end in the same state."""
        twin = LinkEnd.__new__(LinkEnd)
        for name in LinkEnd.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.copies = list(self.copies)
        return twin


class Source:
    """Cut a stream into blocks and keep each one until the first worker has it.

    Attributes:
        end: Its end of the link to that worker.
        clock: Tuples that it has yet to send are not older than this.
        late: Tuples dropped because the clock had already passed them.
    """

    __slots__ = ("clock", "end", "late")

    def __init__(self) -> None:
        self.end, self.clock, self.late = LinkEnd(outside=True), BEFORE_ALL, 0

    def offer(self, rows: Sequence[Row], clock: float, block: int) -> list[Message]:
        """Return the blocks of new tuples; drop and count tuples older than the clock.

        Args:
            rows: The tuples.
            clock: No later tuple is older. ``AFTER_ALL`` ends the stream; if no tuple is left, it travels in an empty
                block: the flush punctuation.
            block: Tuples per block.
        """
        kept = [row for row in rows if row[0] >= self.clock]
        self.late += len(rows) - len(kept)
        # only the last block carries the new clock: tuples of earlier blocks may be as old as the previous one allowed
        cuts = [tuple(kept[i : i + block]) for i in range(0, len(kept), block)]
        if not cuts and clock == AFTER_ALL and self.clock < clock:
            cuts = [()]
        messages = [self.end.say("TUPLE_BLK", 0, self.clock, cut) for cut in cuts[:-1]]
        self.clock = max(self.clock, clock)
        messages += [self.end.say("TUPLE_BLK", 0, self.clock, cut) for cut in cuts[-1:]]
        return messages

    def copy(self) -> Source:
        """Return a copy of the source in the same state."""
        twin = Source()
        twin.end, twin.clock, twin.late = self.end.copy(), self.clock, self.late
        return twin
