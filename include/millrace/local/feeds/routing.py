"""Assign each stream's rows to a table, tick by tick: a feed's five commands and their log.

    connect    a new stream enters at a table
    suspend    its rows wait in the buffer from this tick on
    redirect   a suspended stream will enter at another table
    resume     its waiting and new rows enter there, from this tick on
    drop       a stream that has left is forgotten

A stream is suspended for at least one tick. So its earlier rows are committed to the old table before the first row
enters the new table, and its rows keep their order. A killed feed commits a missing tick again, and each row must go to
the table of the first attempt, or it would be duplicated or lost. So the log is on disk before the first row of a tick
is committed.

Reference: [DRFM] Section 6.1, the feed's interface.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from millrace.model.codec import from_json, to_json
from millrace.model.errors import MillraceError

Ticks = Mapping[str, int]


@dataclass(frozen=True)
class Routing:
    """Routing of rows in one tick. Each command returns a new routing.

    Attributes:
        tick: Number of the tick, >= 0.
        entry: Number of the table that each connected stream enters at.
        waiting: First tick whose rows wait in the buffer, by suspended stream.
        resumed: The same for streams whose buffer is emptied in this tick.

    Raises:
        MillraceError: By commands, if a stream is not in the required state; the message says what to do first.
    """

    tick: int
    entry: Mapping[str, int] = field(default_factory=dict)
    waiting: Ticks = field(default_factory=dict)
    resumed: Ticks = field(default_factory=dict)

    def at(self, tick: int) -> Routing:
        """Return the routing of a later tick, before any command."""
        if tick <= self.tick:
            raise MillraceError("tick", tick, f"> {self.tick}", "Use a later tick.")
        return replace(self, tick=tick, resumed={})

    def connect(self, stream: str, table: int) -> Routing:
        """Let a new stream enter at a table."""
        if stream in self.entry:
            raise _out_of_turn(stream, "connected", "not connected", "Redirect it.")
        return replace(self, entry={**self.entry, stream: table})

    def suspend(self, stream: str) -> Routing:
        """Hold a stream's rows in the buffer from this tick on."""
        self._require_running(stream, "Wait for the next tick.")
        return replace(self, waiting={**self.waiting, stream: self.tick})

    def redirect(self, stream: str, table: int) -> Routing:
        """Change the entry table of a stream suspended in an earlier tick, for when it is resumed."""
        self._require_suspended(stream)
        return replace(self, entry={**self.entry, stream: table})

    def resume(self, stream: str) -> Routing:
        """Let a stream's buffered and new rows enter in this tick."""
        self._require_suspended(stream)
        waiting = {s: since for s, since in self.waiting.items() if s != stream}
        return replace(self, waiting=waiting, resumed={**self.resumed, stream: self.waiting[stream]})

    def drop(self, stream: str) -> Routing:
        """Forget a stream."""
        self._require_running(stream, "Resume it first: rows may be waiting.")
        return replace(self, entry={s: table for s, table in self.entry.items() if s != stream})

    def _require_running(self, stream: str, remedy: str) -> None:
        if stream not in self.entry:
            raise _out_of_turn(stream, "not connected", "connected", "Connect it first.")
        if stream in self.waiting or stream in self.resumed:
            raise _out_of_turn(stream, "suspended or just resumed", "running", remedy)

    def _require_suspended(self, stream: str) -> None:
        if self.waiting.get(stream, self.tick) >= self.tick:
            raise _out_of_turn(stream, "not suspended before this tick", "suspended", "Suspend it one tick earlier.")


def steer(routing: Routing, tick: int, present: Ticks, wanted: Mapping[str, int], tables: int) -> Routing:
    """Return a tick's routing: it moves streams to their wanted tables, with one suspended tick each.

    Args:
        routing: Routing of the previous tick.
        tick: The new tick.
        present: Last tick with rows of each stream that is kept.
        wanted: Number of each stream's wanted table; invalid numbers are ignored.
        tables: Number of tables, >= 1. A stream without a wanted table enters at the table with the fewest streams.
    """
    routing = routing.at(tick)
    wanted = {stream: table for stream, table in wanted.items() if 0 <= table < tables}
    for stream in sorted(routing.waiting):
        routing = routing.redirect(stream, wanted.get(stream, routing.entry[stream])).resume(stream)
    for stream in sorted(routing.entry):
        if stream in routing.resumed:
            continue
        if stream not in present:
            routing = routing.drop(stream)
        elif wanted.get(stream, routing.entry[stream]) != routing.entry[stream]:
            routing = routing.suspend(stream)
    for stream in sorted(set(present) - set(routing.entry)):
        entered = list(routing.entry.values())
        routing = routing.connect(stream, wanted.get(stream, min(range(tables), key=lambda t: (entered.count(t), t))))
    return routing


def _out_of_turn(stream: str, state: str, allowed: str, remedy: str) -> MillraceError:
    return MillraceError(f"stream {stream}", state, allowed, remedy)


class RoutingLog:
    """Log with one routing per line, appended and synced; locked by one feed at a time.

    Args:
        path: The file; its folder is created.
        now: Start of the first tick, if the log is new (UTC).

    Raises:
        MillraceError: If another feed holds the lock, or the file cannot be read or written.
    """

    def __init__(self, path: Path, now: datetime) -> None:
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            whole = path.read_bytes().rpartition(b"\n")[0].decode() if path.exists() else ""
            self._file = path.open("ab")
            self._file.truncate(len(whole.encode()) + 1 if whole else 0)  # a line cut off by a kill was never used
        except Timeout:
            remedy = "Stop the other feed, or name another log."
            raise MillraceError("routing log", str(path), "a log that no other feed uses", remedy) from None
        except OSError as error:
            raise MillraceError("routing log", str(path), "a writable file", f"Fix it ({error}).") from error
        begun, *lines = whole.splitlines() or [""]
        self.routings = [from_json(Routing, line) for line in lines]
        if begun:
            self.begun = datetime.fromisoformat(json.loads(begun)["begun"])
        else:
            self.begun = now
            self._write(json.dumps({"begun": now.isoformat()}))

    def at(self, tick: int) -> Routing:
        """Return the routing of a tick, as far as the log goes."""
        count = bisect_right([c.tick for c in self.routings], tick)
        if not count:
            return Routing(-1)
        routing = self.routings[count - 1]
        return routing if routing.tick == tick else routing.at(tick)

    @property
    def last(self) -> int:
        """Newest tick in the log, -1 before the first."""
        return self.routings[-1].tick if self.routings else -1

    def add(self, routing: Routing) -> None:
        """Write a routing to the log, unless it equals the previous one.

        Raises:
            MillraceError: If it cannot be written.
        """
        before = self.routings[-1] if self.routings else Routing(-1)
        if routing.resumed or before.resumed or (routing.entry, routing.waiting) != (before.entry, before.waiting):
            self.routings.append(routing)
            self._write(to_json(routing))

    def _write(self, line: str) -> None:
        try:
            self._file.write(f"{line}\n".encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            allowed = "a writable file with free space"
            raise MillraceError("routing log", self._file.name, allowed, str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._lock.release()
