"""Append positions of cars to a Delta table, for the example ``traffic``: some areas and some seconds have far more.

Usage: ``python -m millrace.local.feeds.fixes --table DIR --rows-per-s 200 --for-s 600``.

Areas are as frequent as Zipf's law says, and after every ``--shift-s`` seconds others are the frequent ones. The rate
of a second is uniform within 10 % of the mean, and five times that with probability 0.1. Rows depend only on the
options.

Reference: Balkesen, Tatbul, Ozsu, DEBS 2013, the workload of Figure 12.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

from millrace.lake.source_tables import SourceTable
from millrace.local.feeds.feed import filling, say, stoppable, table_option
from millrace.model.errors import MillraceError

SCHEMA = pa.schema(
    [
        ("row_id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("area", pa.string()),
        ("car", pa.int64()),
        ("speed", pa.float64()),
    ]
)
TRANSACTION = "feed/fixes"
BEGINS = datetime(2024, 1, 1, tzinfo=UTC)
AREAS, SKEW = 200, 1.1
"""Areas, and the exponent of Zipf's law: the most frequent of 200 has a fifth of the rows."""
STEP = 37
"""How many areas further the frequent ones are after a shift."""
CARS = 5_000
SPREAD, BURST, BURST_SHARE = 0.1, 5, 0.1
MOST_ROWS = 10_000_000
"""Most rows of a second; ids of the next second start there."""
FREE, QUEUED, QUEUED_SHARE = 45.0, 4.0, 0.15
"""Mean speed of cars that drive, of those in a queue, and the share of these in a frequent area."""


@dataclass(frozen=True)
class Fixes:
    """The rows of every second.

    Attributes:
        seed: Seed of the rows, >= 0.
        rows_per_s: Mean rate without bursts, 0 < rate <= 1 million.
        shift_s: Seconds after which other areas are frequent, >= 1.
    """

    seed: int = 0
    rows_per_s: float = 200.0
    shift_s: int = 120

    def __post_init__(self) -> None:
        if not 0 < self.rows_per_s <= MOST_ROWS / 10:
            raise MillraceError("--rows-per-s", self.rows_per_s, f"above 0, at most {MOST_ROWS // 10}", "Change it.")

    @property
    def content(self) -> str:
        """Content of a table filled by this feed, as text."""
        return f"fixes of cars: {json.dumps(asdict(self))}"

    def second(self, number: int) -> pa.Table:
        """Return the rows of one second since the start, >= 0, in order of time."""
        draws = np.random.default_rng([self.seed, number])
        rate = self.rows_per_s * draws.uniform(1 - SPREAD, 1 + SPREAD) * (BURST if draws.random() < BURST_SHARE else 1)
        count = math.ceil(rate)
        frequency = np.arange(1, AREAS + 1) ** -SKEW
        rank = draws.choice(AREAS, count, p=frequency / frequency.sum())
        area = (rank + number // self.shift_s * STEP) % AREAS
        queued = draws.random(count) < QUEUED_SHARE / (1 + rank)
        begin = round(BEGINS.timestamp() + number) * 1_000_000
        columns = [
            pa.array(number * MOST_ROWS + np.arange(count)),
            pa.array(begin + np.sort(draws.integers(0, 1_000_000, count)), pa.timestamp("us", "UTC")),
            pa.array([f"area-{a:03d}" for a in area.tolist()]),
            pa.array(draws.integers(0, CARS, count)),
            pa.array(np.where(queued, QUEUED, FREE) * draws.gamma(20, 1 / 20, count)),
        ]
        return pa.Table.from_arrays(columns, schema=SCHEMA)


@click.command()
@table_option("--table", "path")
@click.option("--rows-per-s", default=200.0, show_default=True, help="Mean rate without bursts.")
@click.option("--for-s", type=click.IntRange(1), default=600, show_default=True, help="Seconds until it ends.")
@click.option("--shift-s", type=click.IntRange(1), default=120, show_default=True, help="Seconds per set of hot areas.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Another seed gives other rows.")
@click.option("--parts", type=click.IntRange(1), default=4, show_default=True, help="Files per commit.")
@click.option("--with-parent", is_flag=True, help="Stop when the parent process ends.")
def main(path: Path, rows_per_s: float, for_s: int, shift_s: int, seed: int, parts: int, with_parent: bool) -> None:
    """Commit the rows of a second once per second; a later run continues where this one ended."""
    wait = stoppable(with_parent)
    with filling(path):
        fixes = Fixes(seed, rows_per_s, shift_s)
        table = SourceTable(path, SCHEMA, fixes.content)
        first, begun = table.last(TRANSACTION) + 1, time.monotonic()
        for number in range(first, first + for_s):
            if wait(max(0.0, begun + number - first - time.monotonic())):
                break
            table.append(fixes.second(number), parts, TRANSACTION, number)
    say(f"{table.last(TRANSACTION) + 1} seconds")


if __name__ == "__main__":
    main()
