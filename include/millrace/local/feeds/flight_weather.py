"""Replay flights and weather of 2013 into two Delta tables.

Usage: ``python -m millrace.local.feeds.flight_weather --flights A ...``.

Both use one clock: the weather of an hour arrives with the flights that depart in it. If many days are merged into
one, each origin has one weather row per day and hour; ``flight_date`` is the day of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from millrace.lake.source_tables import SourceTable
from millrace.local.feeds.feed import TRANSACTION, clock_options, filling, run, stoppable, table_option
from millrace.local.feeds.nycflights import flights, weather
from millrace.local.feeds.replay_clock import FLIGHTS, WEATHER, Clock, Replay


def first_tick(feeds: Sequence[tuple[Replay, SourceTable]]) -> int:
    """Return the first tick that is missing from a table.

    Only one tick per hour has weather rows, so the last committed weather tick does not show later ticks.
    """
    return min(replay.next(table.last(TRANSACTION)) for replay, table in feeds)


@click.command()
@table_option("--flights", "to_flights")
@table_option("--weather", "to_weather")
@clock_options
def main(to_flights: Path, to_weather: Path, parts: int, with_parent: bool, **settings: Any) -> None:
    """Replay flights and weather of 2013 into two tables; an interrupted replay continues where it stopped."""
    wait = stoppable(with_parent)
    with filling(to_flights, to_weather):
        clock = Clock(**settings)
        feeds = [
            (Replay(clock, flights(), FLIGHTS), SourceTable(to_flights, FLIGHTS.schema, clock.content)),
            (
                Replay(clock, weather(), WEATHER),
                SourceTable(to_weather, WEATHER.schema, f"weather for {clock.content}"),
            ),
        ]
        run(feeds, first_tick(feeds), parts, wait)


if __name__ == "__main__":
    main()
