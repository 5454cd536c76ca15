"""A worker of the chain: it processes messages, forwards tuples and deletes copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from millrace.joins.mp2pf.link import AFTER_ALL, LinkEnd, Message, R, Row, S
from millrace.joins.mp2pf.rules import Rules, forwards

Sent = list[tuple[int, Message]]
"""Messages with the end that they leave by, in order."""
Met = list[tuple[Any, Any]]
"""Pairs (tuple of R, tuple of S) that met."""


class Worker:
    """A worker that keeps a part of both windows.

    Stream ``i`` enters at end ``i`` and leaves at end ``1 - i``, so a neighbour's role depends on the stream. Methods
    append messages to ``sent`` and pairs to ``met``. A ``side`` is the end at which a message arrives.

    Args:
        rules: Rules of the chain.
        left: End of the link to the left.
        right: End of the link to the right.

    Attributes:
        rests: Tuples at rest by stream, next to forward first, without copies.
    """

    __slots__ = ("ends", "rests", "rules")

    def __init__(self, rules: Rules, left: LinkEnd, right: LinkEnd) -> None:
        self.rules = rules
        self.ends = [left, right]
        self.rests: list[list[Row]] = [[], []]

    def receive(self, side: int, message: Message, block: int, sent: Sent, met: Met) -> None:
        """Process a message: join and acknowledge a block, delete copies, then forward tuples."""
        end = self.ends[side]
        if not end.is_next(message):
            return
        deleted = False
        if message.kind != "TUPLE_BLK":
            deleted = end.heed(message)
        elif message.number > end.taken:
            deleted = self.take(side, message, met)
        self.forward(block, sent)
        if message.kind != "ACK":
            sent.append((side, end.say("ACK", len(self.rests[side]), self.ends[1 - side].clock)))
        self.report(sent, deleted=1 - side if deleted else None)

    def take(self, side: int, message: Message, met: Met) -> bool:
        """Join a block if it is the next one and let it rest here; return whether copies were deleted."""
        end = self.ends[side]
        deleted = end.heed(message)
        end.taken = message.number
        self._join(side, message.rows, met)
        self.rests[side].extend(message.rows)
        return deleted

    def _join(self, side: int, rows: Sequence[Row], met: Met) -> None:
        copies = self.rules.copies
        partners: Iterable[Row] = self.rests[1 - side]
        if self.ends[side].copies and (copies == "both streams" or (copies == "one stream" and side == R)):
            partners = [*partners, *(row for copy in self.ends[side].copies for row in copy.rows)]
        meet(self.rules, rows, partners, met) if side == R else meet(self.rules, partners, rows, met)

    def forward(self, block: int, sent: Sent) -> None:
        """Forward tuples that are due or exceed the workload condition, and drop tuples that leave the chain.

        A tuple is due once all its partners have entered the chain. It is then forwarded regardless of workloads, meets
        the partners it has not met, and leaves at the end of the chain.
        """
        for stream in (R, S):
            rest, onward = self.rests[stream], self.ends[1 - stream]
            if rest and self._any_due(stream):
                self._send_due(stream, block, sent)
            if not onward.outside:
                while rest and forwards(len(rest), onward.known_size(), block):
                    self._send(stream, rest[:block], sent)
                    del rest[:block]

    def _any_due(self, stream: int) -> bool:
        limit = self.ends[1 - stream].clock - self.rules.windows[stream]
        return any(row[0] < limit for row in self.rests[stream])

    def _send_due(self, stream: int, block: int, sent: Sent) -> None:
        rest = self.rests[stream]
        limit = self.ends[1 - stream].clock - self.rules.windows[stream]
        due = [row for row in rest if row[0] < limit]
        rest[:] = [row for row in rest if row[0] >= limit]
        if not self.ends[1 - stream].outside:
            for i in range(0, len(due), block):
                self._send(stream, due[i : i + block], sent)

    def _send(self, stream: int, rows: Sequence[Row], sent: Sent) -> None:
        out = 1 - stream
        message = self.ends[out].say("TUPLE_BLK", len(self.rests[out]), self.ends[stream].clock, tuple(rows))
        sent.append((out, message))

    def report(self, sent: Sent, deleted: int | None = None) -> None:
        """Report to predecessors what no acknowledgement did: a smaller workload, or the end of a stream."""
        for stream in (R, S):
            end, onward = self.ends[stream], self.ends[1 - stream]
            if end.outside:
                continue
            size, clock = len(self.rests[stream]), onward.clock
            # while copies are in transit, their acknowledgements call this again: one message for all of them
            news = deleted == stream if end.literal_sizes else size != end.reported_size and not onward.copies
            if news or (clock == AFTER_ALL and end.reported_clock < clock):
                sent.append((stream, end.say("SIZE_CHG", size, clock)))

    def resend(self, side: int, sent: Sent) -> None:
        """Resend what the other end has not acknowledged; called when the caller's timer fires."""
        end = self.ends[side]
        sent.extend((side, copy) for copy in end.copies)
        if end.announced > end.confirmed:
            sent.append((side, end.say("SIZE_CHG", len(self.rests[side]), self.ends[1 - side].clock)))

    def copy(self) -> Worker:
        """Return a copy of the worker in the same state."""
        twin = Worker(self.rules, self.ends[0].copy(), self.ends[1].copy())
        twin.rests = [list(rows) for rows in self.rests]
        return twin


def meet(rules: Rules, rs: Iterable[Row], ss: Iterable[Row], met: Met) -> None:
    """Append the pairs of two sets that are within the windows."""
    ss = list(ss)
    window_r, window_s = rules.windows
    for r in rs:
        time = r[0]
        for s in ss:
            if -window_s <= s[0] - time <= window_r:
                met.append((r, s))
