"""Replay flights and weather of 2013 into two Delta tables.

Usage: ``python -m millrace.local.feeds.flight_weather --flights A ...``.

Both run on one clock: the weather of an hour comes with the flights that depart in it. Where many days are laid over
one, the weather of all of them is, so each origin has a row for each of the days; ``flight_date`` says which it is of.
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
    """Return the first tick that a table lacks.

    The weather of an hour is one tick of many: the last one committed says nothing of those after it.
    """
    return min(replay.next(table.last(TRANSACTION)) for replay, table in feeds)


@click.command()
@table_option("--flights", "to_flights")
@table_option("--weather", "to_weather")
@clock_options
def main(to_flights: Path, to_weather: Path, parts: int, with_parent: bool, **settings: Any) -> None:
    """Replay flights and weather of 2013 into two tables; a replay that was interrupted goes on where it stopped."""
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
