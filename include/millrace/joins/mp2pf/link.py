"""Links between nodes of the chain: what neighbours send each other, and a node's end of a link.

Links may lose, double and reorder messages. Blocks are numbered and taken in order; what is ahead of a block that has
not come is dropped, as if lost; blocks are sent again, unchanged, until acknowledged.
"""

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
        kind: TUPLE_BLK passes a block on, ACK acknowledges blocks, SIZE_CHG reports a workload that shrank.
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


class LinkEnd:
    """One end of a link.

    Args:
        outside: The other end is a source: tuples leave the chain here.
        literal_sizes: Sizes are known from SIZE_CHG alone.

    Attributes:
        sent: Number of the last block sent.
        copies: Blocks sent and not acknowledged, oldest first.
        taken: Number of the last block taken.
        clock: No tuple that has yet to enter the chain from the other side is older.
        acknowledged: Number of the last block taken that a message has acknowledged.
        reported_size: Workload last reported to the other end by a message that is certain to be heard.
        reported_clock: Clock that it carried.
        peer_size: Workload last heard; the message that carried it acknowledged all blocks that it counts.
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
        """Return a new message; a block's copy is kept.

        Args:
            kind: Of the message.
            size: Workload to report.
            clock: Of the stream that flows with the message.
            rows: Tuples of a block.
        """
        self.version += 1
        if kind == "TUPLE_BLK":
            self.sent += 1
        elif kind == "SIZE_CHG":
            self.announced = self.version
        # an acknowledgement is certain to be heard only if a block waits for it that nothing else acknowledged
        if kind != "ACK" or self.taken > self.acknowledged:
            self.reported_size, self.reported_clock = size, clock
        self.acknowledged = self.taken
        message = Message(kind, self.sent, rows, self.taken, self.version, size, clock, self.heard)
        if kind == "TUPLE_BLK":
            self.copies.append(message)
        return message

    def is_next(self, message: Message) -> bool:
        """Say whether a message may be heeded now: nothing that was sent before it is missing."""
        return message.number <= self.taken + (message.kind == "TUPLE_BLK")

    def heed(self, message: Message) -> bool:
        """Take note of all that a message says beside its tuples; say whether copies were deleted.

        A block's ``taken`` is as of its first sending. So a copy goes before those blocks come that met its tuples at
        the other end, and stays for those that did not.
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
        """Return the other end's workload once it has taken all that is under way to it; never below the truth."""
        if self.literal_sizes:
            return self.peer_size
        return self.peer_size + sum(len(copy.rows) for copy in self.copies)

    @property
    def owed(self) -> bool:
        """Whether the other end still has to acknowledge something."""
        return bool(self.copies) or self.announced > self.confirmed

    def copy(self) -> LinkEnd:
        """Return another end in the same state."""
        twin = LinkEnd.__new__(LinkEnd)
        for name in LinkEnd.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.copies = list(self.copies)
        return twin


class Source:
    """Cuts a stream into blocks and keeps each until the first worker has it.

    Attributes:
        end: Its end of the link to that worker.
        clock: No tuple that it has yet to send is older.
        late: Tuples that came after the clock had passed them, and were dropped.
    """

    __slots__ = ("clock", "end", "late")

    def __init__(self) -> None:
        self.end, self.clock, self.late = LinkEnd(outside=True), BEFORE_ALL, 0

    def offer(self, rows: Sequence[Row], clock: float, block: int) -> list[Message]:
        """Return the blocks of new tuples; tuples older than promised are dropped and counted.

        Args:
            rows: The tuples.
            clock: None that comes after these is older; the end of the stream is ``AFTER_ALL``, which goes as an empty
                block where no tuple is left: the flush punctuation.
            block: Tuples of a block.
        """
        kept = [row for row in rows if row[0] >= self.clock]
        self.late += len(rows) - len(kept)
        # the promise goes with the last block: tuples of the blocks before may be as old as the last one allowed
        cuts = [tuple(kept[i : i + block]) for i in range(0, len(kept), block)]
        if not cuts and clock == AFTER_ALL and self.clock < clock:
            cuts = [()]
        messages = [self.end.say("TUPLE_BLK", 0, self.clock, cut) for cut in cuts[:-1]]
        self.clock = max(self.clock, clock)
        messages += [self.end.say("TUPLE_BLK", 0, self.clock, cut) for cut in cuts[-1:]]
        return messages

    def copy(self) -> Source:
        """Return another source in the same state."""
        twin = Source()
        twin.end, twin.clock, twin.late = self.end.copy(), self.clock, self.late
        return twin
