"""Append random sentences to a table at a fixed rate, for the example ``wordcount``.

Usage: ``python -m millrace.local.feeds.sentences --table DIR``.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

from millrace.lake.source_tables import SourceTable
from millrace.local.feeds.feed import filling, say, stoppable, table_option

SCHEMA = pa.schema([("row_id", pa.int64()), ("text", pa.string())])
CONTENT = "sentences"
TRANSACTION = "feed/sentences"
WORDS = tuple(
    """
    the water a mill wheel of and to river turns stone in grain flour slow fast old new from day night rain every for
    more less it is was be with by on at when stream gate up down miller sack barn field wind year town bridge
    """.split()  # noqa: SIM905 - a list of quoted words would be five times as long
)
FEWEST_WORDS, MOST_WORDS = 2, 6
MEAN_WORDS = (FEWEST_WORDS + MOST_WORDS) / 2
SKEW = 0.8
"""Exponent of Zipf's law: the n-th word of :data:`WORDS` is as frequent as n to the power of minus this."""


def sentences(first: int, count: int, seed: int = 0) -> pa.Table:
    """Return consecutive sentences; the same numbers always give the same text.

    Args:
        first: Number of the first one.
        count: How many.
        seed: Seed of the text.
    """
    frequency = np.arange(1, len(WORDS) + 1) ** -SKEW
    frequency /= frequency.sum()

    def text(number: int) -> str:
        chance = np.random.default_rng([seed, number])
        words = chance.choice(WORDS, chance.integers(FEWEST_WORDS, MOST_WORDS + 1), p=frequency)
        return f"{', '.join(words)}.".capitalize()

    numbers = range(first, first + count)
    return pa.table({"row_id": numbers, "text": [text(n) for n in numbers]}, schema=SCHEMA)


@click.command()
@table_option("--table", "path")
@click.option("--rows-per-s", type=click.IntRange(1), default=20, show_default=True, help="Sentences per second.")
@click.option("--for-s", type=click.IntRange(1), default=600, show_default=True, help="Seconds until it ends.")
@click.option("--parts", type=click.IntRange(1), default=4, show_default=True, help="Files per commit.")
@click.option("--with-parent", is_flag=True, help="Stop when the parent process ends.")
def main(path: Path, rows_per_s: int, for_s: int, parts: int, with_parent: bool) -> None:
    """Commit sentences once per second; a later run continues where this one ended."""
    wait = stoppable(with_parent)
    with filling(path):
        table = SourceTable(path, SCHEMA, CONTENT)
        # the number of a commit is that of its last row
        first, begun = table.last(TRANSACTION) + 1, time.monotonic()
        for second in range(for_s):
            if wait(max(0.0, begun + second - time.monotonic())):
                break
            table.append(sentences(first, rows_per_s), parts, TRANSACTION, first + rows_per_s - 1)
            first += rows_per_s
    say(f"{first} sentences")


if __name__ == "__main__":
    main()
