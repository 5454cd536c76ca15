"""Where each stream's rows enter, tick by tick: the five commands that a feed obeys, and their log.

    connect    a stream that joins enters at a table
    suspend    its rows wait in the buffer from this tick on
    redirect   a suspended stream is to enter at another table
    resume     what waited and what comes enters there, from this tick on
    drop       a stream that has left is forgotten

A stream is suspended for at least one tick: all that it brought before is committed to its old table when the first row
enters the new one, so its rows keep their order. A feed that was killed commits a tick again where it is missing; a row
must then go where the first attempt would have put it, or it would come twice or not at all. So the log is on disk
before the first row of a tick is committed.

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
    """Where rows go in one tick. Each command returns a new routing.

    Attributes:
        tick: Number of the tick, >= 0.
        entry: Number of the table that each connected stream enters at.
        waiting: First tick whose rows wait in the buffer, of each suspended stream.
        resumed: The same of those whose buffer is emptied in this tick.

    Raises:
        MillraceError: Of commands: if a stream is not in the state that the command asks for; it says what to do first.
    """

    tick: int
    entry: Mapping[str, int] = field(default_factory=dict)
    waiting: Ticks = field(default_factory=dict)
    resumed: Ticks = field(default_factory=dict)

    def at(self, tick: int) -> Routing:
        """Return the routing of a later tick before any command."""
        if tick <= self.tick:
            raise MillraceError("tick", tick, f"> {self.tick}", "A routing goes forward only.")
        return replace(self, tick=tick, resumed={})

    def connect(self, stream: str, table: int) -> Routing:
        """Let a stream that joins enter at a table."""
        if stream in self.entry:
            raise _out_of_turn(stream, "connected", "not connected", "Redirect it.")
        return replace(self, entry={**self.entry, stream: table})

    def suspend(self, stream: str) -> Routing:
        """Let a stream's rows wait from this tick on."""
        self._require_running(stream, "Wait for the next tick.")
        return replace(self, waiting={**self.waiting, stream: self.tick})

    def redirect(self, stream: str, table: int) -> Routing:
        """Let a stream that was suspended in an earlier tick enter at another table once it is resumed."""
        self._require_suspended(stream)
        return replace(self, entry={**self.entry, stream: table})

    def resume(self, stream: str) -> Routing:
        """Let what waited since an earlier tick and what comes enter, in this tick."""
        self._require_suspended(stream)
        waiting = {s: since for s, since in self.waiting.items() if s != stream}
        return replace(self, waiting=waiting, resumed={**self.resumed, stream: self.waiting[stream]})

    def drop(self, stream: str) -> Routing:
        """Forget a stream."""
        self._require_running(stream, "Resume it first: rows may wait.")
        return replace(self, entry={s: table for s, table in self.entry.items() if s != stream})

    def _require_running(self, stream: str, remedy: str) -> None:
        if stream not in self.entry:
            raise _out_of_turn(stream, "not connected", "connected", "Connect it first.")
        if stream in self.waiting or stream in self.resumed:
            raise _out_of_turn(stream, "suspended or just resumed", "running", remedy)

    def _require_suspended(self, stream: str) -> None:
        if self.waiting.get(stream, self.tick) >= self.tick:
            raise _out_of_turn(stream, "not suspended before this tick", "suspended", "Suspend it a tick before.")


def steer(routing: Routing, tick: int, present: Ticks, wanted: Mapping[str, int], tables: int) -> Routing:
    """Return a tick's routing: streams go towards where they are wanted, one suspended tick each.

    Args:
        routing: That of the tick before.
        tick: The tick that begins.
        present: Last tick in which each stream brought rows, of those that are to be kept.
        wanted: Number of the table that each stream is to enter at; what names no table is left out.
        tables: Number of tables, >= 1. A stream that nobody has placed enters where the fewest do.
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
    """One routing a line, appended and synced; held by one feed at a time.

    Args:
        path: The file; its folder is made.
        now: When the first tick begins, if the log is new (UTC).

    Raises:
        MillraceError: If another feed holds it, or it cannot be read or written.
    """

    def __init__(self, path: Path, now: datetime) -> None:
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            whole = path.read_bytes().rpartition(b"\n")[0].decode() if path.exists() else ""
            self._file = path.open("ab")
            self._file.truncate(len(whole.encode()) + 1 if whole else 0)  # a line that a kill cut was never acted upon
        except Timeout:
            remedy = "Stop the other feed, or name another log."
            raise MillraceError("routing log", str(path), "a log that no other feed holds", remedy) from None
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
        """Return the routing that holds in a tick, as far as the log goes."""
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
        """Write a routing down; one that only goes on as before needs no line.

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
