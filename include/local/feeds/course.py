"""Where the rows of a feed's streams go, tick by tick, and what a feed can be told about a stream.

    connect    a stream that joins enters at a table
    suspend    its rows wait in the buffer from this tick on
    redirect   a suspended stream is to enter at another table
    resume     what waited and what comes enters there, from this tick on
    drop       a stream that has left is forgotten

A stream is suspended for at least one tick: all that it brought before is committed to its old table when the first row
enters the new one, so its rows keep their order.

Reference: [DRFM] Section 6.1, the feed's interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from include.model.errors import MillraceError

Ticks = Mapping[str, int]


@dataclass(frozen=True)
class Course:
    """Where rows go in one tick.

    Attributes:
        tick: Number of the tick, >= 0.
        entry: Number of the table that each connected stream enters at.
        waiting: First tick whose rows wait in the buffer, of each suspended stream.
        resumed: The same of those whose buffer is emptied in this tick.
    """

    tick: int
    entry: Mapping[str, int] = field(default_factory=dict)
    waiting: Ticks = field(default_factory=dict)
    resumed: Ticks = field(default_factory=dict)

    def at(self, tick: int) -> Course:
        """Return the course of a later tick before anything is told.

        Raises:
            MillraceError: If the tick is not later.
        """
        if tick <= self.tick:
            raise MillraceError("tick", tick, f"> {self.tick}", "A course goes forward only.")
        return replace(self, tick=tick, resumed={})

    def connect(self, stream: str, table: int) -> Course:
        """Let a stream that joins enter at a table.

        Raises:
            MillraceError: If it is connected already.
        """
        if stream in self.entry:
            raise _out_of_turn(stream, "connected", "not connected", "Redirect it.")
        return replace(self, entry={**self.entry, stream: table})

    def suspend(self, stream: str) -> Course:
        """Let a stream's rows wait from this tick on.

        Raises:
            MillraceError: If it is not connected, waits already, or was resumed in this very tick.
        """
        self._connected(stream)
        if stream in self.waiting or stream in self.resumed:
            raise _out_of_turn(stream, "suspended or just resumed", "running", "Wait for the next tick.")
        return replace(self, waiting={**self.waiting, stream: self.tick})

    def redirect(self, stream: str, table: int) -> Course:
        """Let a suspended stream enter at another table once it is resumed.

        Raises:
            MillraceError: If it is not suspended, or only since this tick.
        """
        self._suspended(stream)
        return replace(self, entry={**self.entry, stream: table})

    def resume(self, stream: str) -> Course:
        """Let what waited and what comes enter, in this tick.

        Raises:
            MillraceError: If it is not suspended, or only since this tick.
        """
        self._suspended(stream)
        waiting = {s: since for s, since in self.waiting.items() if s != stream}
        return replace(self, waiting=waiting, resumed={**self.resumed, stream: self.waiting[stream]})

    def drop(self, stream: str) -> Course:
        """Forget a stream.

        Raises:
            MillraceError: If it is not connected, or its rows wait.
        """
        self._connected(stream)
        if stream in self.waiting or stream in self.resumed:
            raise _out_of_turn(stream, "suspended or just resumed", "running", "Resume it first: rows may wait.")
        return replace(self, entry={s: table for s, table in self.entry.items() if s != stream})

    def _connected(self, stream: str) -> None:
        if stream not in self.entry:
            raise _out_of_turn(stream, "not connected", "connected", "Connect it first.")

    def _suspended(self, stream: str) -> None:
        if self.waiting.get(stream, self.tick) >= self.tick:
            raise _out_of_turn(stream, "not suspended before this tick", "suspended", "Suspend it a tick before.")


def steer(course: Course, tick: int, present: Ticks, wished: Mapping[str, int], tables: int) -> Course:
    """Return a tick's course: streams go towards where they are wished, one suspended tick each.

    Args:
        course: That of the tick before.
        tick: The tick that begins.
        present: Last tick in which each stream brought rows, of those that are to be kept.
        wished: Number of the table that each stream is to enter at; what names no table is left out.
        tables: Number of tables, >= 1. A stream that nobody has placed enters where the fewest do.
    """
    course = course.at(tick)
    wished = {stream: table for stream, table in wished.items() if 0 <= table < tables}
    for stream in sorted(course.waiting):
        course = course.redirect(stream, wished.get(stream, course.entry[stream])).resume(stream)
    for stream in sorted(course.entry):
        if stream in course.resumed:
            continue
        if stream not in present:
            course = course.drop(stream)
        elif wished.get(stream, course.entry[stream]) != course.entry[stream]:
            course = course.suspend(stream)
    for stream in sorted(set(present) - set(course.entry)):
        entered = list(course.entry.values())
        course = course.connect(stream, wished.get(stream, min(range(tables), key=lambda t: (entered.count(t), t))))
    return course


def _out_of_turn(stream: str, found: str, allowed: str, remedy: str) -> MillraceError:
    return MillraceError(f"stream {stream}", found, allowed, remedy)
