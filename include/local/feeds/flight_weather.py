"""Replay flights and weather of 2013 into two Delta tables.

Usage: ``python -m include.local.feeds.flight_weather --flights A ...``.

Both run on one clock: the weather of an hour comes with the flights that depart in it. Where many days are laid over
one, the weather of all of them is, so each origin has a row for each of the days; ``flight_date`` says which it is of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from include.lake.source import SourceTable
from include.local.feeds.flights import TRANSACTION, clock_options
from include.local.feeds.nycflights import flights, weather
from include.local.feeds.pace import due, stoppable
from include.local.feeds.replay import FLIGHTS, WEATHER, Clock, Kind, Replay
from include.model.errors import Conflict, MillraceError


def run(
    feeds: Sequence[tuple[Replay, SourceTable]],
    parts: int,
    wait: Callable[[float], bool],
    say: Callable[[str], None],
) -> bool:
    """Commit tick after tick of several replays to their tables, going on with the first that a table lacks.

    Args:
        feeds: Replays of one clock, at least one, each with its table.
        parts: Files a commit, >= 1.
        wait: Waits the seconds given, and returns True if the replay is to stop.
        say: Takes one line of progress.

    Returns:
        True if the replay came to its end, False if it was stopped.
    """
    clock = feeds[0][0].clock
    # the weather of an hour is one tick of many: the last one committed says nothing of those after it
    first = min(replay.next(table.last(TRANSACTION)) for replay, table in feeds)
    number = first - 1
    for number in due(clock, first, wait, say):
        brought = []
        for replay, table in feeds:
            rows = replay.tick(number)
            if rows.num_rows:
                table.append(rows, parts, TRANSACTION, number)
            brought.append(f"{rows.num_rows / clock.tick_s:.0f}")
        if int(clock.hour(number)) != int(clock.hour(number - 1)) or number == first:
            say(f"{int(clock.hour(number)):02d}:00, {' and '.join(brought)} rows/s")
    if number < clock.ticks:
        return False
    say(f"done: {' and '.join(str(replay.rows) for replay, _ in feeds)} rows")
    return True


@click.command()
@click.option("--flights", "to_flights", type=click.Path(path_type=Path), required=True, help="Folder of a table.")
@click.option("--weather", "to_weather", type=click.Path(path_type=Path), required=True, help="Folder of a table.")
@clock_options
def main(to_flights: Path, to_weather: Path, parts: int, with_parent: bool, **settings: Any) -> None:
    """Replay flights and weather of 2013 into two tables; a replay that was interrupted goes on where it stopped."""
    wait = stoppable(with_parent)
    try:
        clock = Clock(**settings)

        def feed(rows: Any, kind: Kind, folder: Path, content: str) -> tuple[Replay, SourceTable]:
            return Replay(clock, rows, kind), SourceTable(folder, kind.schema, content)

        feeds = [
            feed(flights(), FLIGHTS, to_flights, clock.content),
            feed(weather(), WEATHER, to_weather, f"weather for {clock.content}"),
        ]
        run(feeds, parts, wait, partial(print, flush=True))
    except Conflict:
        sys.exit(f"error: another replay is filling {to_flights} or {to_weather}: stop one of the two")
    except MillraceError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
