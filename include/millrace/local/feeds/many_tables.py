"""Append rows to many Delta tables whose rates rise by day and fall by night, for the example ``ingest``.

Usage: ``python -m millrace.local.feeds.many_tables --folder DIR``.

Tables differ: the first has twelve times the rows of the last, and their days begin up to six hours apart. Rows, their
times and the ticks that bring them depend only on the options. A row in fifty has no key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millrace.lake.source_tables import SourceTable
from millrace.local.feeds import feed
from millrace.local.feeds.replay_clock import DAY_S, Clock
from millrace.model.errors import MillraceError

SCHEMA = pa.schema(
    [
        ("row_id", pa.int64()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("key", pa.string()),
        ("amount_cents", pa.int64()),
    ]
)
TRANSACTION = "feed/many_tables"
BEGINS = datetime(2024, 1, 1, tzinfo=UTC)
SKEW = 0.7
"""Exponent of Zipf's law: the n-th table gets rows in proportion to n to the power of minus this."""
NIGHT = 0.15
"""A table's rate at its quietest hour relative to its busiest."""
NOON = 13.0
"""Busiest hour of a table whose day is not shifted."""
SHIFT_H = 3.0
"""A table's day begins at most this many hours earlier or later."""
KEYLESS = 0.02
KEYS, MOST_CENTS = 1000, 100_000

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ManyTables:
    """The rows of every tick.

    Attributes:
        tables: Number of tables, >= 1.
        rows_per_s: Rows per second of all tables together in the busiest tick, > 0.
        days: Days to play, > 0.
        day_s: Seconds per day, > 0.
        tick_s: Seconds between two commits, > 0.
        seed: Another seed gives other rows and shifts.
    """

    tables: int = 30
    rows_per_s: float = 320.0
    days: float = 2.0
    day_s: float = 600.0
    tick_s: float = 2.5
    seed: int = 1

    def __post_init__(self) -> None:
        for key, value in asdict(self).items():
            if key != "seed" and not 0 < value < math.inf:
                raise MillraceError(f"--{key.replace('_', '-')}", value, "> 0", "Give a positive number.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(f"table_{number:02d}" for number in range(1, self.tables + 1))

    @property
    def clock(self) -> Clock:
        """Return when ticks are due."""
        return Clock(fold_days=1, days=self.days, day_s=self.day_s, tick_s=self.tick_s)

    @property
    def content(self) -> str:
        """Content of a table filled by this feed, as text."""
        return f"one of many tables: {json.dumps(asdict(self))}"

    @cached_property
    def total(self) -> Numbers:
        """Rows of each table by the start of each tick, shape (ticks + 1, tables)."""
        ticks = self.clock.ticks
        hours = np.array([self.clock.hour(tick) for tick in range(ticks)])
        shift = np.random.default_rng([self.seed, self.tables]).uniform(-SHIFT_H, SHIFT_H, self.tables)
        share = np.arange(1, self.tables + 1) ** -SKEW
        rates = share * busy(hours[:, None] - shift)
        rates *= self.rows_per_s / rates.sum(axis=1).max()
        found: Numbers = np.floor(np.cumsum(rates * self.tick_s, axis=0) + 1e-9).astype(np.int64)
        return np.vstack([np.zeros((1, self.tables), dtype=np.int64), found])

    def rows(self, table: int, tick: int) -> pa.Table:
        """Return the rows of a table in a tick, in order of event time.

        Args:
            table: Number of the table, from 0 on.
            tick: Number of the tick, 0..``clock.ticks - 1``.
        """
        first, end = (int(rows) for rows in self.total[tick : tick + 2, table])
        count, chance = end - first, np.random.default_rng([self.seed, table, tick])
        tick_us = self.tick_s / self.day_s * DAY_S * 1_000_000
        times = round(BEGINS.timestamp()) * 1_000_000 + (tick + np.arange(count) / max(count, 1)) * tick_us
        keys = [f"key-{number}" for number in chance.integers(0, KEYS, count)]
        columns = {
            "row_id": pa.array(range(first, end), pa.int64()),
            "event_time": pa.array(times.astype(np.int64), pa.int64()).cast(pa.timestamp("us", "UTC")),
            "key": pa.array(keys, pa.string(), mask=chance.random(count) < KEYLESS),
            "amount_cents": pa.array(chance.integers(1, MOST_CENTS, count), pa.int64()),
        }
        return pa.table(columns, schema=SCHEMA)


def busy(hours: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rate at some hours of the day relative to the busiest hour, ``NIGHT``..1, any shape."""
    found: npt.NDArray[np.float64] = NIGHT + (1 - NIGHT) * (1 + np.cos((hours - NOON) * 2 * math.pi / 24)) / 2
    return found


def run(
    source: ManyTables,
    tables: Sequence[SourceTable],
    wait: Callable[[float], bool],
    say: Callable[[str], None] = feed.say,
) -> bool:
    """Commit the ticks that the tables do not have yet, each when it is due.

    Args:
        source: The rows.
        tables: The tables, in order.
        wait: Waits the given seconds and returns True if the feed must stop.
        say: Prints one line of progress.

    Returns:
        True if the feed finished, False if it was stopped.
    """
    clock = source.clock
    # a tick without rows leaves no trace, but no table is behind by more than the newest tick
    newest = max(table.last(TRANSACTION) for table in tables)
    number, hour = newest - 1, -1
    for number in feed.due(clock, max(0, newest), wait, say):
        if number == clock.ticks:
            break
        for index, table in enumerate(tables):
            rows = source.rows(index, number)
            if rows.num_rows:
                table.append(rows, 1, TRANSACTION, number)
        if int(clock.hour(number)) != hour:
            hour = int(clock.hour(number))
            rate = (source.total[number + 1] - source.total[number]).sum() / source.tick_s
            say(f"{hour:02d}:00, {rate:.0f} rows/s")
    if number < clock.ticks:
        return False
    say(f"done: {source.total[-1].sum()} rows in {source.tables} tables")
    return True


DEFAULTS = ManyTables()


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="Folder of the Delta tables.")
@click.option("--tables", type=click.IntRange(1), default=DEFAULTS.tables, show_default=True, help="Number of tables.")
@click.option(
    "--rows-per-s", default=DEFAULTS.rows_per_s, show_default=True, help="Rows per second of all tables by day."
)
@click.option("--days", default=DEFAULTS.days, show_default=True, help="Days to play; fractions allowed.")
@click.option("--day-s", default=DEFAULTS.day_s, show_default=True, help="Seconds per day.")
@click.option("--tick-s", default=DEFAULTS.tick_s, show_default=True, help="Seconds between two commits.")
@click.option(
    "--seed", type=click.IntRange(0), default=DEFAULTS.seed, show_default=True, help="Another seed gives other rows."
)
@click.option("--with-parent", is_flag=True, help="Stop when the parent process ends.")
def main(
    folder: Path, tables: int, rows_per_s: float, days: float, day_s: float, tick_s: float, seed: int, with_parent: bool
) -> None:
    """Append rows to many tables, few at night and many by day; an interrupted feed continues where it stopped."""
    wait = feed.stoppable(with_parent)
    with feed.filling(folder):
        source = ManyTables(tables, rows_per_s, days, day_s, tick_s, seed)
        run(source, [SourceTable(folder / name, SCHEMA, source.content) for name in source.names], wait)


if __name__ == "__main__":
    main()
