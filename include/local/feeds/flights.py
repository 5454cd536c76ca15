"""Replay the flights of 2013 into a Delta table: ``python -m include.local.feeds.flights --table DIR``.

The rate follows the real hours of the day: nearly nothing by night, two humps by day.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from include.lake.source import SourceTable
from include.local.feeds.nycflights import flights
from include.local.feeds.pace import due, stoppable
from include.local.feeds.replay import SCHEMA, Clock, Replay
from include.model.errors import Conflict, MillraceError

TRANSACTION = "feed/flights"


def run(
    replay: Replay, table: SourceTable, parts: int, wait: Callable[[float], bool], say: Callable[[str], None]
) -> bool:
    """Commit tick after tick, each when it is due, going on after the last one that was committed.

    Args:
        replay: The rows.
        table: Where they go.
        parts: Files a commit, >= 1.
        wait: Waits the seconds given, and returns True if the replay is to stop.
        say: Takes one line of progress.

    Returns:
        True if the replay came to its end, False if it was stopped.
    """
    clock, first = replay.clock, table.last(TRANSACTION) + 1
    number = first - 1
    for number in due(clock, first, wait, say):
        rows = replay.tick(number)
        if rows.num_rows:  # a tick without flights needs no commit: to repeat it after a kill changes nothing
            table.append(rows, parts, TRANSACTION, number)
        if int(clock.hour(number)) != int(clock.hour(number - 1)) or number == first:
            say(f"{int(clock.hour(number)):02d}:00, {rows.num_rows / clock.tick_s:.0f} rows/s")
    if number < clock.ticks:
        return False
    say(f"done: {replay.rows} rows")
    return True


OPTIONS = (
    click.option("--fold-days", default=28, show_default=True, help="Days of flights laid over one replayed day."),
    click.option("--days", default=1.0, show_default=True, help="Replayed days, or a part of one."),
    click.option("--day-s", default=240.0, show_default=True, help="Seconds a replayed day takes."),
    click.option("--start-hour", default=0, show_default=True, help="Hour of the day to start at."),
    click.option("--rate-scale", default=1.0, show_default=True, help="Rows a flight."),
    click.option("--tick-s", default=1.0, show_default=True, help="Seconds between two commits."),
    click.option("--parts", type=click.IntRange(1), default=8, show_default=True, help="Files a commit."),
    click.option("--with-parent", is_flag=True, help="Stop when the process that started this one has ended."),
)


def clock_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a replay."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command()
@click.option("--table", type=click.Path(path_type=Path), required=True, help="Folder of the Delta table.")
@clock_options
def main(table: Path, parts: int, with_parent: bool, **settings: Any) -> None:
    """Replay the flights of 2013 into a Delta table; a replay that was interrupted goes on where it stopped."""
    wait = stoppable(with_parent)
    try:
        clock = Clock(**settings)
        target = SourceTable(table, SCHEMA, clock.content)
        run(Replay(clock, flights()), target, parts, wait, lambda line: print(line, flush=True))
    except Conflict:
        sys.exit(f"error: another replay is filling {table}: stop one of the two")
    except MillraceError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
