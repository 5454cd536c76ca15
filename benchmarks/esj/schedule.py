"""A random course of a chain: the next event, lost, doubled or overtaken messages, and workers that come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise

from millrace.joins.mp2pf.chain import Chain
from millrace.joins.mp2pf.link import AFTER_ALL, Row
from millrace.joins.mp2pf.rules import Rules

Choose = Callable[[int], int]
"""Picks one of the numbers 0..n-1."""
MOST_WORKERS = 5
MOST_STEPS = 20_000
"""A course that has not come to rest after this many events counts as stuck."""


@dataclass(frozen=True)
class Course:
    """Limits of a course, in addition to blocks and deliveries.

    Attributes:
        rows: Tuples of R and of S, in order of arrival; the second item of each is its number.
        workers: Workers at the start.
        block: Block size at the start.
        in_order: Whether links keep the order of messages.
        losses: Most lost messages.
        doubles: Most messages delivered twice.
        changes: Most workers added or removed, and block sizes changed.
        flush: Whether both streams end.
    """

    rows: tuple[tuple[Row, ...], tuple[Row, ...]]
    workers: int
    block: int
    in_order: bool = True
    losses: int = 0
    doubles: int = 0
    changes: int = 0
    flush: bool = True


@dataclass
class Outcome:
    """Result of one or more courses.

    Attributes:
        pairs: Pairs within the windows.
        lost: Pairs within the windows that never met.
        doubled: Meetings beyond a pair's first, and meetings outside the windows.
        over: Highest excess of a workload difference over the block at quiescence, >= 0.
        left: Tuples that never left the chain although both streams ended.
        stuck: Courses whose chain did not come to rest.
        quiescent: Number of checks of the differences.
    """

    pairs: int = 0
    lost: int = 0
    doubled: int = 0
    over: int = 0
    left: int = 0
    stuck: int = 0
    quiescent: int = 0

    def plus(self, other: Outcome) -> Outcome:
        """Return the sums of both, and the higher excess."""
        added = Outcome(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))
        return replace(added, over=max(self.over, other.over))


@dataclass
class _Player:
    chain: Chain
    course: Course
    choose: Choose
    fed: list[int] = field(default_factory=lambda: [0, 0])
    before_change: list[int] = field(default_factory=lambda: [0, 0])
    widest: int = 0
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        self.widest = self.chain.block
        self.losses, self.doubles = self.course.losses, self.course.doubles
        self.changes = self.course.changes
        # no later tuple is older than this, by the number of arrived tuples
        self.clocks = []
        for rows in self.course.rows:
            clocks, clock = [AFTER_ALL], AFTER_ALL
            for row in reversed(rows):
                clock = min(clock, row[0])
                clocks.append(clock)
            clocks[0] = max((row[0] for row in rows), default=0.0)
            self.clocks.append(clocks[::-1])

    def play(self) -> Outcome:
        total = [len(rows) for rows in self.course.rows]
        while self.fed != total and not self.outcome.stuck:
            pick = self.choose(16)
            if pick < 4:
                self._feed(pick & 1)
            elif pick == 4 and self.changes:
                self._change()
            elif pick == 5 and self.choose(4) == 0:
                self._calm()
            else:
                self._step()
        self._calm()
        if self.course.flush and not self.outcome.stuck:
            for stream in (0, 1):
                self.chain.flush(stream)
            self._calm()
            self.outcome.left = sum(sum(self.chain.sizes(stream)) for stream in (0, 1))
        self._compare()
        return self.outcome

    def _feed(self, stream: int) -> None:
        rows, at = self.course.rows[stream], self.fed[stream]
        until = min(len(rows), at + (self.chain.block if self.choose(4) else 1 + self.choose(3)))
        if until > at:
            self.fed[stream] = until
            self.chain.feed(stream, rows[at:until], self.clocks[stream][until])

    def _step(self) -> bool:
        """Deliver, lose or double one message, or let a timer expire; return whether there was anything to do."""
        queues = [(i, d) for i, link in enumerate(self.chain.links) for d in (0, 1) if link[d]]
        if not queues or self.choose(24) == 0:
            owed = self.chain.owed()
            if owed:
                self.chain.resend(*owed[self.choose(len(owed))])
            return bool(owed or queues)
        link, direction = queues[self.choose(len(queues))]
        index = 0 if self.course.in_order else self.choose(len(self.chain.links[link][direction]))
        fate = self.choose(8) if self.losses or self.doubles else 7
        if fate == 0 and self.losses:
            self.losses -= 1
            self.chain.drop(link, direction, index)
        elif fate == 1 and self.doubles:
            self.doubles -= 1
            self.chain.deliver(link, direction, index, keep=True)
        else:
            self.chain.deliver(link, direction, index)
        return True

    def _change(self) -> None:
        self.changes -= 1
        chain, pick = self.chain, self.choose(3)
        if pick == 0 and len(chain.workers) < MOST_WORKERS:
            chain.add(self.choose(len(chain.workers)), self.choose(2))
        elif pick == 1 and len(chain.workers) > 1:
            chain.remove(1 + self.choose(len(chain.workers) - 1))
        else:
            chain.resize(1 + self.choose(4))
            self.widest = max(self.widest, chain.block)
            return
        self.before_change = list(self.fed)

    def _calm(self) -> None:
        steps = 0
        while not self.chain.quiet():
            if not self._step() or steps > MOST_STEPS:
                self.outcome.stuck = 1
                return
            steps += 1
        self.outcome.quiescent += 1
        for stream in (0, 1):
            self.outcome.over = max(self.outcome.over, self._over(stream))

    def _over(self, stream: int) -> int:
        sizes = self.chain.sizes(stream)
        along = sizes if stream == 0 else sizes[::-1]
        pairs = list(pairwise(along))
        over = max((own - successor - self.chain.block for own, successor in pairs), default=0)
        if self._can_be_even(stream):
            over = max(over, *(successor - own - self.widest for own, successor in pairs), 0)
        return max(over, 0)

    def _can_be_even(self, stream: int) -> bool:
        """Return whether a successor must not have more than a block more either.

        Tuples flow one way only. A predecessor may lack tuples after a change of workers, or because late tuples
        expired there before the newer ones ahead of them. Only new tuples can fill that gap.
        """
        rows, since = self.course.rows[stream], self.before_change[stream]
        if any(row[0] > after[0] for row, after in pairwise(rows)):
            return False
        return since == 0 or all(row[1] >= since for worker in self.chain.workers for row in worker.rests[stream])

    def _compare(self) -> None:
        rules, met = self.chain.rules, self.chain.met
        rs, ss = self.course.rows
        expected = {(r, s) for r in rs for s in ss if rules.within(r[0], s[0])}
        found = set(met)
        self.outcome.pairs = len(expected)
        self.outcome.lost = len(expected - found)
        self.outcome.doubled = len(met) - len(found) + len(found - expected)


def play(course: Course, rules: Rules, choose: Choose) -> Outcome:
    """Run a course to its end.

    Args:
        course: Its tuples and limits.
        rules: Rules of the workers.
        choose: Picks the next event; any pick leads to a possible course.
    """
    return _Player(Chain(rules, course.workers, course.block), course, choose).play()


def random_course(choose: Choose, tuples: int, *, disturbed: bool = True) -> Course:
    """Return a small course.

    Args:
        choose: Makes all choices.
        tuples: Most tuples of both streams together.
        disturbed: Whether messages may be lost, doubled and overtaken, and workers may come and go.
    """
    rows = []
    half = tuples // 2
    for _ in range(2):
        time, stream, late = 0, [], choose(3) == 0
        for number in range(1 + choose(half)):
            time += choose(3)
            stream.append((float(max(0, time - (choose(3) if late else 0))), number))
        rows.append(tuple(stream))
    workers, block = 1 + choose(4), 1 + choose(4)
    if not disturbed:
        return Course((rows[0], rows[1]), workers, block)
    return Course((rows[0], rows[1]), workers, block, bool(choose(2)), choose(4), choose(4), choose(4))
