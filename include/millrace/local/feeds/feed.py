"""What the feeds share: their options, when a tick is due, the loop that commits ticks, and error handling."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import click
import pyarrow as pa

from millrace.local.feeds.replay_clock import Clock, Replay
from millrace.model.errors import Conflict, MillraceError

TRANSACTION = "feed/flights"


class Target(Protocol):
    """Destination of a replay's rows."""

    def last(self, transaction: str) -> int:
        """Return the last number committed under a transaction id, -1 before the first."""

    def append(self, rows: pa.Table, parts: int, transaction: str, number: int) -> int | None:
        """Append a tick's rows, unless its number was committed before."""


OPTIONS = (
    click.option("--fold-days", default=28, show_default=True, help="Days of flights merged into one replayed day."),
    click.option("--days", default=1.0, show_default=True, help="Days to replay; fractions allowed."),
    click.option("--day-s", default=240.0, show_default=True, help="Seconds per replayed day."),
    click.option("--start-hour", default=0, show_default=True, help="Hour of the day to start at."),
    click.option("--rate-scale", default=1.0, show_default=True, help="Rows per flight."),
    click.option("--tick-s", default=1.0, show_default=True, help="Seconds between two commits."),
    click.option("--parts", type=click.IntRange(1), default=8, show_default=True, help="Files per commit."),
    click.option("--with-parent", is_flag=True, help="Stop when the parent process ends."),
)


def clock_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a replay to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def table_option(name: str, argument: str, *, multiple: bool = False) -> Callable[..., Callable[..., None]]:
    """Return the option for the table, or tables, to fill."""
    kind = click.Path(path_type=Path)
    return click.option(name, argument, type=kind, required=True, multiple=multiple, help="Folder of a Delta table.")


@contextmanager
def filling(*tables: Path) -> Iterator[None]:
    """End the process with one line if the tables cannot be written or another feed writes to them."""
    try:
        yield
    except Conflict:
        sys.exit(f"error: another replay writes to {' or '.join(map(str, tables))}: stop one of the two")
    except MillraceError as error:
        sys.exit(f"error: {error}")


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, flush=True)


def stoppable(with_parent: bool) -> Callable[[float], bool]:
    """Return a wait function that returns early, with True, when the process is asked to stop.

    Args:
        with_parent: Also stop when the parent process has ended.
    """
    stop, parent = threading.Event(), os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return lambda seconds: stop.wait(seconds) or (with_parent and os.getppid() != parent)


def due(clock: Clock, first: int, wait: Callable[[float], bool], say: Callable[[str], None]) -> Iterator[int]:
    """Yield the number of each tick when it is due, up to the closing one, ``clock.ticks``.

    Args:
        clock: The replay's settings.
        first: The first tick; the ticks before it count as done.
        wait: Waits the given seconds and returns True if the replay must stop; no more ticks follow.
        say: Prints one line of progress.
    """
    begun = time.monotonic() - first * clock.tick_s
    for number in range(first, clock.ticks + 1):
        if wait(max(0.0, begun + number * clock.tick_s - time.monotonic())):
            say(f"stopped before tick {number} of {clock.ticks}; run the same command to continue from there")
            return
        yield number


def run(
    feeds: Sequence[tuple[Replay, Target]],
    first: int,
    parts: int,
    wait: Callable[[float], bool],
    say: Callable[[str], None] = say,
) -> bool:
    """Commit the ticks of several replays to their tables, each when it is due.

    Args:
        feeds: Replays with one clock, at least one, each with its target.
        first: The first tick.
        parts: Files per commit, >= 1.
        wait: Waits the given seconds and returns True if the replay must stop.
        say: Prints one line of progress.

    Returns:
        True if the replay finished, False if it was stopped.
    """
    clock, number = feeds[0][0].clock, first - 1
    for number in due(clock, first, wait, say):
        rates = []
        for replay, table in feeds:
            rows = replay.tick(number)
            if rows.num_rows:  # a tick without rows needs no commit: repeating it after a kill changes nothing
                table.append(rows, parts, TRANSACTION, number)
            rates.append(f"{rows.num_rows / clock.tick_s:.0f}")
        if int(clock.hour(number)) != int(clock.hour(number - 1)) or number == first:
            say(f"{int(clock.hour(number)):02d}:00, {' and '.join(rates)} rows/s")
    if number < clock.ticks:
        return False
    say(f"done: {' and '.join(str(replay.rows) for replay, _ in feeds)} rows")
    return True
