"""Where a stream enters the chain."""

from __future__ import annotations

from collections.abc import Sequence

from include.joins.mp2pf.link_end import LinkEnd
from include.joins.mp2pf.messages import AFTER_ALL, BEFORE_ALL, Message, Row


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
        made = Source()
        made.end, made.clock, made.late = self.end.copy(), self.clock, self.late
        return made
