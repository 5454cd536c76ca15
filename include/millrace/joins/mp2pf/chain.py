"""The chain: sources, workers and the messages under way between them, and the events that may happen to it."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.joins.mp2pf.link import AFTER_ALL, LinkEnd, Message, Row, Source
from millrace.joins.mp2pf.rules import Rules
from millrace.joins.mp2pf.worker import Met, Sent, Worker, meet
from millrace.model.errors import MillraceError


class Chain:
    """A chain of workers, R's source on its left and S's on its right.

    Nothing happens by itself: the holder decides which event is next. Every event is deterministic and leaves the pairs
    that met in ``met``. Links may lose, double and reorder; the holder decides that too.

    A link is named by its position from the left, a direction by 0 (to the right) or 1 (to the left), a message under
    way by its index, 0 for the oldest.

    Args:
        rules: Of all workers.
        workers: How many, >= 1.
        block: Tuples of a block, >= 1.

    Attributes:
        workers: From left to right.
        links: Messages under way, by link from left to right and by direction: to the right, to the left. Link 0 is
            R's source's, the last one S's.
        met: Pairs that met, in order.

    Raises:
        MillraceError: If there is no worker or a block has no tuple.
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
        """Let new tuples of a stream come; one that follows and is older than ``clock`` is dropped."""
        self.links[-stream][stream].extend(self.sources[stream].offer(rows, clock, self.block))

    def flush(self, stream: int) -> None:
        """End a stream: once both ended, every pair meets and the workers run empty."""
        self.feed(stream, (), AFTER_ALL)

    def deliver(self, link: int, direction: int, index: int = 0, *, keep: bool = False) -> None:
        """Let a message arrive; with ``keep`` it stays under way as well and comes twice."""
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
        """Let the timer of a link's end expire."""
        at = link - 1 + direction
        if not 0 <= at < len(self.workers):
            self.links[link][direction].extend(self.sources[direction].end.copies)
            return
        sent: Sent = []
        self.workers[at].resend(1 - direction, sent)
        self._post(at, sent)

    def resize(self, block: int) -> None:
        """Change the block size; blocks under way stay as they are.

        Args:
            block: Tuples of a block, >= 1.
        """
        self.block = _valid(block)
        for at in range(len(self.workers)):
            self._settle(at)

    def add(self, at: int, side: int) -> None:
        """Set a new, empty worker beside another, also while blocks are under way.

        It takes over that link of the other worker, with all copies and numbers, so the neighbour behind it notices
        nothing; between the two begins a new link.

        Args:
            at: Position of the other worker.
            side: 0 to set it on the left, 1 on the right.
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
        """Merge a worker into the one on its left, also while blocks are under way.

        Both pause: what is under way between them is taken in first. Then tuples of R on the left have yet to meet
        those of S on the right; all others have met, so that those of R may go back without meeting any twice.

        Args:
            at: Position of the worker to the right, >= 1.

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
        """Return the ends that wait for an acknowledgement, as link and direction in which they send."""
        ends = [(i + e, 1 - e) for i, w in enumerate(self.workers) for e in (0, 1) if w.ends[e].owed]
        ends += [(s * len(self.workers), s) for s in (0, 1) if self.sources[s].end.owed]
        return ends

    def quiet(self) -> bool:
        """Say whether nothing is under way and nothing waits for an acknowledgement."""
        return not any(right or left for right, left in self.links) and not self.owed()

    def sizes(self, stream: int) -> list[int]:
        """Return the tuples of a stream that rest at each worker, from left to right."""
        return [len(worker.rests[stream]) for worker in self.workers]

    def copy(self) -> Chain:
        """Return another chain in the same state."""
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
