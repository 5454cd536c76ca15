"""Replay the flights of 2013 into a Delta table: ``python -m include.local.feeds.flights --table DIR``.

The rate follows the real hours of the day: nearly nothing by night, two humps by day.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from include.lake.source_tables import SourceTable
from include.local.feeds.feed import TRANSACTION, clock_options, filling, run, stoppable, table_option
from include.local.feeds.nycflights import flights
from include.local.feeds.replay_clock import SCHEMA, Clock, Replay


@click.command()
@table_option("--table", "table")
@clock_options
def main(table: Path, parts: int, with_parent: bool, **settings: Any) -> None:
    """Replay the flights of 2013 into a Delta table; a replay that was interrupted goes on where it stopped."""
    wait = stoppable(with_parent)
    with filling(table):
        clock = Clock(**settings)
        target = SourceTable(table, SCHEMA, clock.content)
        run([(Replay(clock, flights()), target)], target.last(TRANSACTION) + 1, parts, wait)


if __name__ == "__main__":
    main()
