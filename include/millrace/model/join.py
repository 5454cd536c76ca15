"""A windowed stream join: its definition, its settings, and what one period measured of it.

The workers of a join share the window of its streams: each keeps a part, and every new tuple meets all parts.
A **task** is one join predicate; all tasks of a join share its streams, which are read and passed on once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from millrace.model.errors import MillraceError

JOIN_OPTIMIZER = "esj"
"""Name of the optimizer that sets joins."""
BROADCAST, MP2PF = "broadcast", "mp2pf"
"""How new tuples reach the workers of a join: all of them at once, or one after another along a chain."""


@dataclass(frozen=True)
class JoinStream:
    """One input stream of a join.

    Attributes:
        name: Its name, for example ``flights``.
        source: Folder of its Delta table.
        time: Column of its event time.
        columns: SQL expression of each column that tasks use or results show, by column name.
        late_s: How much later than newer tuples of the stream a tuple may come, seconds of event time, >= 0. Tuples
            that come even later are dropped and counted.
    """

    name: str
    source: str
    time: str
    columns: Mapping[str, str]
    late_s: float = 0.0


@dataclass(frozen=True)
class JoinTask:
    """One join predicate over two of the streams, or over one stream twice.

    A pair matches if the columns of ``on`` are equal and not null, both sides meet their condition, and
    ``after_s <= time of the right - time of the left <= before_s``.

    Attributes:
        name: Its name, also of its results table.
        left: Name of a stream.
        right: Name of a stream.
        on: Pairs (column of the left, column of the right); may be empty.
        after_s: Smallest distance in event time, seconds; negative if the right may come first.
        before_s: Largest distance.
        left_where: SQL condition on the left's columns; empty for all tuples.
        right_where: The same of the right.
    """

    name: str
    left: str
    right: str
    on: tuple[tuple[str, str], ...]
    after_s: float
    before_s: float
    left_where: str = ""
    right_where: str = ""


@dataclass(frozen=True)
class JoinDefinition:
    """Input of a join's job when it starts.

    Attributes:
        streams: Its streams.
        tasks: Its tasks.
        results: Folder with a results table per task.
        checkpoint: Folder of the query's checkpoint.
        capacity: W, most tuples of the window that a worker should keep, >= 2.
        forwarding: :data:`BROADCAST` or :data:`MP2PF`.
    """

    streams: tuple[JoinStream, ...]
    tasks: tuple[JoinTask, ...]
    results: str
    checkpoint: str
    capacity: int
    forwarding: str = BROADCAST

    def sides(self) -> dict[str, int]:
        """Return the end of the chain where each stream enters: 0 on the left, 1 on the right.

        Tuples meet only if they enter at different ends. The first stream of each group that tasks connect enters on
        the left.

        Raises:
            MillraceError: If the streams cannot be divided in this way, for example if a task joins one with itself.
        """
        found: dict[str, int] = {}
        for stream in self.streams:
            found.setdefault(stream.name, 0)
            for _ in self.tasks:  # each round reaches at least one more stream, or none is left
                for task in self.tasks:
                    for one, other in ((task.left, task.right), (task.right, task.left)):
                        if one in found:
                            found.setdefault(other, 1 - found[one])
        for task in self.tasks:
            if found[task.left] == found[task.right]:
                value = f"task {task.name} joins {task.left} with {task.right}"
                allowed = "tasks whose streams enter the chain at different ends"
                raise MillraceError("join.forwarding", f"{MP2PF}, and {value}", allowed, f"Set {BROADCAST}.")
        return found

    def window_s(self, stream: str) -> float:
        """Return how long a tuple of a stream can still find partners, seconds of event time, >= 0."""
        ahead = [task.before_s for task in self.tasks if task.left == stream]
        behind = [-task.after_s for task in self.tasks if task.right == stream]
        return max(0.0, *ahead, *behind) if ahead or behind else 0.0


@dataclass(frozen=True)
class JoinSettings:
    """Settings that a job applies between two batches (part of a Deployment, tier T0).

    Attributes:
        workers: m, number of workers that keep new tuples, >= 1.
        block: Tuples per block, >= 1.
        shed: Share of the new tuples that is dropped, 0..1.
    """

    workers: int = 1
    block: int = 1
    shed: float = 0.0


@dataclass(frozen=True)
class JoinSignals:
    """Measurements of a join in one period.

    Attributes:
        workers: m in force at the period's end.
        block: Block size in force.
        shed: Shed ratio in force.
        capacity: W.
        window_s: phi, how long the streams' tuples stay in the window at most, seconds of event time.
        window_tuples: Tuples that each worker keeps at the end of the period, including workers that are leaving; None
            if the telemetry lost it.
        offered: Tuples that the whole window would hold without shedding; None if unknown.
        offered_before: The same at the end of the period before; None if unknown.
        arrived: Tuples that came in the period, by stream, including shed ones.
        dropped: Tuples that were shed in the period, by stream.
        messages: Blocks and hand-overs that workers received in the period.
        bytes: Their size.
        partitions: State partitions of the checkpoint, one per worker: the most workers that it can have; None if
            unknown.
        until: End of the period (UTC).
        period_s: Its length, seconds.
    """

    workers: int
    block: int
    shed: float
    capacity: int
    window_s: float
    window_tuples: tuple[int | None, ...]
    offered: int | None
    until: datetime
    period_s: float
    offered_before: int | None = None
    arrived: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    messages: int = 0
    bytes: int = 0
    partitions: int | None = None
