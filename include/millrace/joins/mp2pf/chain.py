"""The chain: sources, workers and the messages in transit between them, and the events that change it."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.joins.mp2pf.link import AFTER_ALL, LinkEnd, Message, Row, Source
from millrace.joins.mp2pf.rules import Rules
from millrace.joins.mp2pf.worker import Met, Sent, Worker, meet
from millrace.model.errors import MillraceError


class Chain:
    """A chain of workers, with R's source on its left and S's on its right.

    The caller decides which event comes next, including when a link loses, duplicates or reorders a message. Every
    event is deterministic and appends the pairs that met to ``met``.

    A link is identified by its position from the left, a direction by 0 (to the right) or 1 (to the left), a message in
    transit by its index, 0 for the oldest.

    Args:
        rules: Rules of all workers.
        workers: Number of workers, >= 1.
        block: Tuples per block, >= 1.

    Attributes:
        workers: Workers from left to right.
        links: Messages in transit, by link from left to right and by direction: to the right, to the left. Link 0
            belongs to R's source, the last link to S's.
        met: Pairs that met, in order.

    Raises:
        MillraceError: If there is no worker or the block size is below 1.
    """

    __slots__ = ("block", "links", "met", "rules", "sources", "workers")

    def __init__(self, rules: Rules, workers: int, block: int) -> None:
        if workers < 1:
            raise MillraceError("workers", workers, "a whole number >= 1", "Start with one worker at least.")
        self.rules, self.block = rules, _valid(block)
        self.sources = (Source(), Source())
        self.workers = [Worker(rules, self._end(i == 0), self._end(i == workers - 1)) for i in range(workers)]
        self.links: list[tuple[list[Message], list[Message]]] = [([], []) for _ in range(workers + 1)]
        self.met: Met = []

    def _end(self, outside: bool = False) -> LinkEnd:
        return LinkEnd(outside, self.rules.literal_sizes)

    def feed(self, stream: int, rows: Sequence[Row], clock: float) -> None:
        """Add new tuples to a stream; tuples of later calls that are older than ``clock`` are dropped."""
        self.links[-stream][stream].extend(self.sources[stream].offer(rows, clock, self.block))

    def flush(self, stream: int) -> None:
        """End a stream. After both have ended, every pair meets and the workers run empty."""
        self.feed(stream, (), AFTER_ALL)

    def deliver(self, link: int, direction: int, index: int = 0, *, keep: bool = False) -> None:
        """Deliver a message. With ``keep``, it also stays in transit and arrives twice."""
        queue = self.links[link][direction]
        message = queue[index] if keep else queue.pop(index)
        at = link - direction
        if not 0 <= at < len(self.workers):
            self.sources[1 - direction].end.heed(message)
            return
        sent: Sent = []
        self.workers[at].receive(direction, message, self.block, sent, self.met)
        self._post(at, sent)

    def drop(self, link: int, direction: int, index: int = 0) -> None:
        """Lose a message."""
        del self.links[link][direction][index]

    def resend(self, link: int, direction: int) -> None:
        """Fire the resend timer at a link's end."""
        at = link - 1 + direction
        if not 0 <= at < len(self.workers):
            self.links[link][direction].extend(self.sources[direction].end.copies)
            return
        sent: Sent = []
        self.workers[at].resend(1 - direction, sent)
        self._post(at, sent)

    def resize(self, block: int) -> None:
        """Change the block size; blocks in transit stay as they are.

        Args:
            block: Tuples per block, >= 1.
        """
        self.block = _valid(block)
        for at in range(len(self.workers)):
            self._settle(at)

    def add(self, at: int, side: int) -> None:
        """Add an empty worker next to an existing one, also while blocks are in transit.

        The new worker takes over that link of the existing worker, with all copies and numbers, so the neighbour at the
        other end notices nothing. A new link connects the two.

        Args:
            at: Position of the existing worker.
            side: 0 to add the worker on the left, 1 on the right.
        """
        worker = self.workers[at]
        behind, near, new_near = worker.ends[side], self._end(), self._end()
        new_near.peer_size = near.reported_size = len(worker.rests[side])
        worker.ends[side] = near
        ends = (new_near, behind) if side else (behind, new_near)
        self.workers.insert(at + side, Worker(self.rules, *ends))
        self.links.insert(at + 1, ([], []))
        self._settle(at)
        self._settle(at + 1)

    def remove(self, at: int) -> None:
        """Merge a worker into the one on its left, also while blocks are in transit.

        Both pause, and the messages between them are processed first. After that, only tuples of R on the left and
        tuples of S on the right have still to meet. All others have met, so tuples of R can move back without meeting
        any partner twice.

        Args:
            at: Position of the right-hand worker, >= 1.

        Raises:
            MillraceError: If there is no worker on its left.
        """
        if not 1 <= at < len(self.workers):
            raise MillraceError("at", at, f"1..{len(self.workers) - 1}", "Merge a worker that has one on its left.")
        left, right = self.workers[at - 1], self.workers.pop(at)
        inner = (left.ends[1], right.ends[0])
        del self.links[at]
        for copy in [c for c in inner[0].copies if c.number > inner[1].taken]:
            right.take(0, copy, self.met)
        for copy in [c for c in inner[1].copies if c.number > inner[0].taken]:
            left.take(1, copy, self.met)
        meet(self.rules, left.rests[0], right.rests[1], self.met)
        left.rests = [right.rests[0] + left.rests[0], left.rests[1] + right.rests[1]]
        left.ends[1] = right.ends[1]
        self._settle(at - 1)

    def _settle(self, at: int) -> None:
        sent: Sent = []
        self.workers[at].forward(self.block, sent)
        self.workers[at].report(sent)
        self._post(at, sent)

    def _post(self, at: int, sent: Sent) -> None:
        for side, message in sent:
            self.links[at + side][1 - side].append(message)

    def owed(self) -> list[tuple[int, int]]:
        """Return the ends that wait for an acknowledgement, as (link, direction in which they send)."""
        ends = [(i + e, 1 - e) for i, w in enumerate(self.workers) for e in (0, 1) if w.ends[e].owed]
        ends += [(s * len(self.workers), s) for s in (0, 1) if self.sources[s].end.owed]
        return ends

    def quiet(self) -> bool:
        """Return whether no message is in transit and no end waits for an acknowledgement."""
        return not any(right or left for right, left in self.links) and not self.owed()

    def sizes(self, stream: int) -> list[int]:
        """Return the tuples of a stream at rest in each worker, from left to right."""
        return [len(worker.rests[stream]) for worker in self.workers]

    def copy(self) -> Chain:
        """Return a copy of the chain in the same state."""
        twin = Chain.__new__(Chain)
        twin.rules, twin.block, twin.met = self.rules, self.block, list(self.met)
        twin.sources = (self.sources[0].copy(), self.sources[1].copy())
        twin.workers = [worker.copy() for worker in self.workers]
        twin.links = [(list(right), list(left)) for right, left in self.links]
        return twin


def _valid(block: int) -> int:
    if block < 1:
        raise MillraceError("block", block, "a whole number >= 1", "Set a block of at least one tuple.")
    return block
