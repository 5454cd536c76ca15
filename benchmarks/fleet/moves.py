"""Moves of streams between running nodes: what they cost the stream, and the other streams of both nodes.

A node ends a stream's query between two batches, and another one starts it. So a move lies between two consecutive
batches of the stream that two nodes ran.

The *gap* of a move is the time by which it delays the stream: from the moment at which the first batch on the new node
would have ended on the old one, until it ended. It would have started at the first trigger after the end of the last
batch on the old node, or after the commit of the first row that this batch did not read, if that came later. It would
have taken as long as the stream's batches usually take, the median. Spark's triggers are multiples of their interval
since 1970. A move between two triggers has no gap.

*Other streams* are those that ran on either node. A move lasts from the version that orders it to the end of the
stream's first batch on the new node. The longest batch of other streams that ran in this time is divided by the usual
one: the median of the longest batches in five times of the same length before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from benchmarks.fleet.assignments import Ints
from benchmarks.graph.lag import Steps
from millrace.model.deployment import Deployment, node_name
from millrace.model.telemetry import BatchMetrics


@dataclass(frozen=True)
class Batch:
    """A micro-batch of a stream. Times are seconds since 1970.

    Attributes:
        node: The app that ran it.
        begin: When it started.
        end: When it ended.
        rows: Rows that it read.
        trigger_s: Interval of the stream's trigger, seconds; 0 without one.
    """

    node: str
    begin: float
    end: float
    rows: int
    trigger_s: float = 0.0

    @property
    def duration_s(self) -> float:
        """Its length, seconds."""
        return self.end - self.begin


SPANS = 5
"""Times before a move in which the usual longest batch is looked for."""
Batches = Mapping[str, Sequence[Batch]]
"""The batches of each stream in the order in which they ran."""


@dataclass(frozen=True)
class Move:
    """A stream that two nodes ran one after the other.

    Attributes:
        stream: The stream.
        last: Its last batch on the old node.
        first: Its first batch on the new one.
    """

    stream: str
    last: Batch
    first: Batch


def by_stream(batches: Iterable[BatchMetrics], streams: Iterable[str]) -> dict[str, list[Batch]]:
    """Return the batches of each stream; a stream without any has an empty list.

    Args:
        batches: Committed batches of all nodes.
        streams: Names of the streams.
    """
    found: dict[str, list[Batch]] = {stream: [] for stream in streams}
    for batch in batches:
        if batch.query in found:
            end, trigger_s = batch.time.timestamp(), batch.trigger_s or 0.0
            found[batch.query].append(Batch(batch.app, end - batch.duration_s, end, batch.rows_in, trigger_s))
    for of_stream in found.values():
        of_stream.sort(key=lambda batch: batch.end)
    return found


def ordered(versions: Sequence[Deployment]) -> int:
    """Return how many moves some consecutive versions order; a stream's first node is none."""
    pairs = [(before.ingest, now.ingest) for before, now in pairwise(versions)]
    return sum(node != before[stream] for before, now in pairs for stream, node in now.items() if stream in before)


def moves(batches: Batches) -> list[Move]:
    """Return the moves of all streams."""
    return [
        Move(stream, last, first)
        for stream, ran in batches.items()
        for last, first in pairwise(ran)
        if last.node != first.node
    ]


def gap_s(move: Move, ran: Sequence[Batch], arrived: Steps) -> float:
    """Return the gap of a move; see the module.

    Args:
        move: The move.
        ran: All batches of its stream.
        arrived: Rows committed to its table.
    """
    read = sum(batch.rows for batch in ran if batch.end <= move.last.end)
    unread = np.searchsorted(arrived.rows, read, side="right")
    came = float(arrived.at_s[unread]) if unread < arrived.at_s.size else move.last.end
    due = next_trigger(max(move.last.end, came), move.last.trigger_s)
    return max(0.0, move.first.end - due - median(batch.duration_s for batch in ran))


def next_trigger(at: float, interval_s: float) -> float:
    """Return the first multiple of an interval after a time; the time itself without an interval."""
    return at if interval_s <= 0 else (math.floor(at / interval_s) + 1) * interval_s


def others_ratio(move: Move, ordered_at: float, batches: Batches) -> float | None:
    """Return the longest batch of the other streams during a move relative to the usual; None without such batches.

    Args:
        move: The move.
        ordered_at: When the version was made that moves it, seconds since 1970.
        batches: The batches of all streams.
    """
    nodes, length_s = (move.last.node, move.first.node), move.first.end - ordered_at
    others = [b for stream, ran in batches.items() if stream != move.stream for b in ran if b.node in nodes]

    def longest_s(begin: float) -> float:
        return max((b.duration_s for b in others if b.end > begin and b.begin < begin + length_s), default=0.0)

    before = [longest_s(ordered_at - number * length_s) for number in range(1, SPANS + 1)]
    usual, during = median(before), longest_s(ordered_at)
    return during / usual if usual > 0 and during > 0 else None


def ordered_at(move: Move, versions: Sequence[tuple[float, Deployment]]) -> float:
    """Return when the version was made that moves a stream, seconds since 1970: the last that changed its node by then.

    Args:
        move: The move.
        versions: All versions with their times, oldest first.
    """
    made = move.last.end
    for (_, before), (at, now) in pairwise(versions):
        changed = before.ingest.get(move.stream) != now.ingest.get(move.stream)
        if changed and at < move.first.end and node_name(now.ingest.get(move.stream, -1)) == move.first.node:
            made = at
    return made


def nodes_by_period(batches: Batches, streams: Sequence[str], begin: float, periods: int, period_s: float) -> Ints:
    """Return the node that ran each stream in the middle of each period, shape (T, S).

    It is the node of the stream's last batch that had started by then, or of its first one; 0 without any.

    Args:
        batches: The batches of all streams.
        streams: The S streams.
        begin: Begin of the first period, seconds since 1970.
        periods: T.
        period_s: Length of a period, seconds.
    """
    at = begin + (np.arange(periods) + 0.5) * period_s
    found = np.zeros((periods, len(streams)), dtype=np.intp)
    for column, stream in enumerate(streams):
        ran = batches[stream]
        if not ran:
            continue  # nothing ever arrived
        numbers = np.array([int(batch.node.removeprefix("node")) for batch in ran], dtype=np.intp)
        last = np.searchsorted([batch.begin for batch in ran], at, side="right") - 1
        found[:, column] = numbers[np.maximum(last, 0)]
    return found
