"""What a node does with each of its streams: start it, stop it, or wait. No Spark, no clock of its own.

Each stream goes through these phases. Only a live stream has a query, and so a lock on its checkpoint:

    queued -> starting -> running -> stopping -> (gone, or queued if it was assigned again)
              starting -> blocked -> starting      another process holds the checkpoint's lock
              starting, running -> failed -> starting      again after a delay that doubles
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 300.0
"""Delay after a stream's first failure. It doubles with each failure until a batch succeeds."""


class Phase(StrEnum):
    """Stage of a stream on a node."""

    QUEUED = "queued"
    STARTING = "starting"
    BLOCKED = "waiting for the lock"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True)
class Stream:
    """One stream of a node. Times are those of the caller's clock, seconds.

    Attributes:
        name: Its name.
        phase: Its phase.
        since: When it entered this phase.
        live: Whether it has a query.
        failures: Failures since its last successful batch.
        error: The last of these failures, in one line.
        retry_at: When a failed stream is started again.
        holder: Who holds the lock that a blocked stream waits for.
    """

    name: str
    phase: Phase
    since: float
    live: bool = False
    failures: int = 0
    error: str = ""
    retry_at: float = 0.0
    holder: str = ""


@dataclass(frozen=True)
class Plan:
    """What is due.

    Attributes:
        starts: Streams to start.
        stops: Streams whose queries to stop.
    """

    starts: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()


class Streams:
    """The streams of one node; its methods are called from one thread.

    Args:
        most_starts: Streams that may start at once, >= 1. Streams that have waited for a lock do not count.
        patience_s: Time after which a slow start no longer keeps others from starting, seconds.
    """

    def __init__(self, most_starts: int = 4, patience_s: float = 30.0) -> None:
        self._most_starts, self._patience_s = most_starts, patience_s
        self._streams: dict[str, Stream] = {}
        self._assigned: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Stream]:
        return iter([self._streams[name] for name in sorted(self._streams)])

    def __getitem__(self, name: str) -> Stream:
        return self._streams[name]

    def wanted(self, name: str) -> bool:
        """Return whether a stream is assigned to this node; any thread may ask."""
        return name in self._assigned

    def leaving(self, elsewhere: Mapping[str, str]) -> Mapping[str, set[str]]:
        """Return the streams that run or have to run here but are another node's now, by that node.

        Args:
            elsewhere: The node of each stream of other nodes.
        """
        found: dict[str, set[str]] = {}
        for stream in self:
            is_here = stream.live or self.wanted(stream.name)
            if is_here and stream.phase is not Phase.STOPPING and stream.name in elsewhere:
                found.setdefault(elsewhere[stream.name], set()).add(stream.name)
        return found

    def stays(self, name: str, there: Phase | None) -> bool:
        """Return whether a stream of another node is still kept running here.

        While it runs, it stays until the other node waits for its lock. If its query has ended, it is started again
        here until the other node has it, as that node may not be able to start.

        Args:
            name: One of :meth:`leaving`.
            there: Its phase on the other node; None if that node does not have it yet.
        """
        return there is not Phase.BLOCKED if self[name].live else there is None

    def plan(self, assigned: Collection[str], now: float) -> Plan:
        """Take over an assignment and return what is due; each step is returned once."""
        self._assigned = frozenset(assigned)
        stops = []
        for stream in list(self):
            if stream.name in self._assigned:
                continue
            if stream.live and stream.phase is not Phase.STOPPING:
                self._set(stream.name, phase=Phase.STOPPING, since=now)
                stops.append(stream.name)
            elif not stream.live and stream.phase is not Phase.STARTING:
                del self._streams[stream.name]
        for name in self._assigned - self._streams.keys():
            self._streams[name] = Stream(name, Phase.QUEUED, now)
        starting = sum(s.phase is Phase.STARTING and now - s.since < self._patience_s for s in self)
        due = [s for s in self if s.phase in (Phase.QUEUED, Phase.FAILED) and s.retry_at <= now]
        due.sort(key=lambda stream: (stream.retry_at, stream.name))
        starts = tuple(stream.name for stream in due[: max(0, self._most_starts - starting)])
        for name in starts:
            self._set(name, phase=Phase.STARTING, since=now)
        return Plan(starts, tuple(stops))

    def blocked(self, name: str, holder: str, now: float) -> None:
        """Note that another process holds the checkpoint's lock."""
        since = self[name].since if self[name].phase is Phase.BLOCKED else now
        self._set(name, phase=Phase.BLOCKED, since=since, holder=holder)

    def unblocked(self, name: str, now: float) -> None:
        """Note that the lock is free, and the stream is being started."""
        self._set(name, phase=Phase.STARTING, since=now, holder="")

    def started(self, name: str, now: float) -> None:
        """Note that a stream has a query; it counts as starting until its first trigger has ended."""
        self._set(name, live=True, since=now)

    def ready(self, name: str, now: float) -> None:
        """Note that a starting stream's first trigger has ended."""
        if self[name].phase is Phase.STARTING:
            self._set(name, phase=Phase.RUNNING, since=now)

    def healthy(self, name: str) -> None:
        """Note that a stream has processed a batch since its last start."""
        self._set(name, failures=0, error="", retry_at=0.0)

    def failed(self, name: str, error: str, now: float) -> None:
        """Note that a stream could not be started, or that its query has ended."""
        failures = self[name].failures + 1
        retry_at = now + backoff_s(failures)
        found = {"failures": failures, "error": error, "retry_at": retry_at}
        self._set(name, phase=Phase.FAILED, since=now, live=False, **found)

    def ended(self, name: str, now: float) -> None:
        """Note that the query of a stopping stream has ended, or that a start was given up in time."""
        self._set(name, phase=Phase.QUEUED, since=now, live=False)

    def _set(self, name: str, **fields: Any) -> None:
        self._streams[name] = replace(self._streams[name], **fields)


def backoff_s(failures: int) -> float:
    """Return the delay after a number of failures in a row (>= 1), seconds."""
    return min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(failures - 1, 30))
