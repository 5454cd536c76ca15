"""Append the events of the Nexmark benchmark to a Delta table.

Usage: ``python -m millrace.local.feeds.nexmark --table DIR --rates 100:60,400:120``.

The rate changes in steps. After the last step, closing events ten years later move the watermark past every window with
a real event, which completes the results. Events, their times and the ticks that bring them depend only on the options.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import click
import numpy as np
import pyarrow as pa

from millrace.lake.source_tables import SourceTable
from millrace.local.feeds import feed
from millrace.local.feeds.nexmark_events import ROUND, SCHEMA, NexmarkEvents, Numbers
from millrace.local.feeds.replay_clock import Clock
from millrace.model.errors import MillraceError

TRANSACTION = "feed/nexmark"
BEGINS = datetime(2024, 1, 1, tzinfo=UTC)
CLOSES = datetime(2034, 1, 1, tzinfo=UTC)
"""Event time of the first event, and of the first closing event. All real events are earlier."""
CLOSING_ROUNDS, CLOSING_GAP_S = 8, 86_400
"""Rounds of closing events, a day apart: each stage that waits for a watermark needs one more than the stage before."""
FORMAT = "ROWS_PER_S:SECONDS,..., such as 100:60,400:120"


@dataclass(frozen=True)
class Steps:
    """A rate that changes in steps.

    Attributes:
        steps: Rows per second, >= 0, and duration in seconds, > 0, of each step.
    """

    steps: tuple[tuple[float, float], ...]

    @classmethod
    def parse(cls, text: str) -> Steps:
        """Read ``ROWS_PER_S:SECONDS`` steps, separated by commas.

        Raises:
            MillraceError: If the text has another form or a number is out of range.
        """
        try:
            steps = tuple((float(rate), float(seconds)) for rate, seconds in (s.split(":") for s in text.split(",")))
        except ValueError:
            raise MillraceError("--rates", text, FORMAT, "Correct the steps.") from None
        if not all(0 <= rate < math.inf and 0 < seconds < math.inf for rate, seconds in steps):
            raise MillraceError("--rates", text, "rates >= 0 and seconds > 0", "Correct the steps.")
        return cls(steps)

    @cached_property
    def _starts_s(self) -> list[float]:
        return list(accumulate((seconds for _, seconds in self.steps), initial=0.0))

    @cached_property
    def _rows_before(self) -> list[float]:
        return list(accumulate((rate * seconds for rate, seconds in self.steps), initial=0.0))

    @property
    def duration_s(self) -> float:
        """Return the length of all steps together."""
        return self._starts_s[-1]

    def step(self, time_s: float) -> int:
        """Return the step at a time since the start; the last one if all are over."""
        return min(bisect_right(self._starts_s, time_s), len(self.steps)) - 1

    def rows(self, time_s: float) -> int:
        """Return the number of events before a time since the start."""
        step, time_s = self.step(time_s), min(time_s, self.duration_s)
        rows = self._rows_before[step] + self.steps[step][0] * (time_s - self._starts_s[step])
        return math.ceil(rows - 1e-6)  # an event on the boundary belongs to what follows, whatever the rounding

    def times_us(self, numbers: Numbers) -> Numbers:
        """Return the times of events since the start, microseconds; events of a step are equally far apart."""
        step = np.minimum(np.searchsorted(self._rows_before, numbers, side="right"), len(self.steps)) - 1
        rates = np.array([rate for rate, _ in self.steps])[step]
        times_s = np.array(self._starts_s)[step] + (numbers - np.array(self._rows_before)[step]) / rates
        times_us: Numbers = np.rint(times_s * 1e6).astype(np.int64)
        return times_us


@dataclass(frozen=True)
class NexmarkFeed:
    """The events of every tick.

    Attributes:
        events: The events.
        steps: Their rate.
        tick_s: Seconds between two commits, > 0.
    """

    events: NexmarkEvents
    steps: Steps
    tick_s: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.tick_s < math.inf:
            raise MillraceError("--tick-s", self.tick_s, "> 0", "Give a positive number.")

    @property
    def clock(self) -> Clock:
        """Return when ticks are due: as in a replay of one day that lasts as long as all steps."""
        return Clock(days=1, day_s=self.steps.duration_s, tick_s=self.tick_s)

    @property
    def content(self) -> str:
        """Content of a table filled by this feed, as text."""
        settings = {"seed": self.events.seed, "rates": self.steps.steps, "tick_s": float(self.tick_s)}
        return f"Nexmark events: {json.dumps(settings)}"

    @property
    def rows(self) -> int:
        """Number of events, including closing ones."""
        return self._real + CLOSING_ROUNDS * ROUND

    @property
    def _real(self) -> int:
        return self.steps.rows(self.steps.duration_s)

    def tick(self, number: int) -> pa.Table:
        """Return the events of one tick, 0..``clock.ticks``, in order of event time; the last tick closes the feed."""
        if number == self.clock.ticks:
            return closing(self.events, self._real)
        first, end = (self.steps.rows(n * self.tick_s) for n in (number, number + 1))
        return self.events.take(first, _micros(BEGINS) + self.steps.times_us(np.arange(first, end)))


def closing(events: NexmarkEvents, first: int) -> pa.Table:
    """Return the events that complete the results.

    Args:
        events: The events.
        first: Number of the first closing event: the number of all real ones.
    """
    gaps_s = np.arange(CLOSING_ROUNDS).repeat(ROUND) * CLOSING_GAP_S
    return events.take(first, _micros(CLOSES) + gaps_s * 1_000_000)


def _micros(time: datetime) -> int:
    return round(time.timestamp()) * 1_000_000


def run(
    source: NexmarkFeed,
    table: feed.Target,
    parts: int,
    wait: Callable[[float], bool],
    say: Callable[[str], None] = feed.say,
) -> bool:
    """Commit the ticks that a table does not have yet, each when it is due.

    Args:
        source: The events.
        table: The table.
        parts: Files per commit, >= 1. The closing events are one file.
        wait: Waits the given seconds and returns True if the feed must stop.
        say: Prints one line of progress.

    Returns:
        True if the feed finished, False if it was stopped.
    """
    ticks, step, last = source.clock.ticks, -1, table.last(TRANSACTION)
    for number in feed.due(source.clock, last + 1, wait, say):
        last = number
        rows = source.tick(number)
        if rows.num_rows:
            # readers must not get a part of the closing events first: the watermark would drop the rest
            table.append(rows, parts if number < ticks else 1, TRANSACTION, number)
        if number < ticks and source.steps.step(number * source.tick_s) != step:
            step = source.steps.step(number * source.tick_s)
            rate, seconds = source.steps.steps[step]
            say(f"step {step + 1} of {len(source.steps.steps)}: {rate:g} rows/s for {seconds:g} s")
    if last < ticks:
        return False
    say(f"done: {source.rows} rows")
    return True


@click.command()
@feed.table_option("--table", "table")
@click.option("--rates", required=True, help=f"Steps of the rate: {FORMAT}.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Another seed gives other events.")
@click.option("--tick-s", default=1.0, show_default=True, help="Seconds between two commits.")
@click.option("--parts", type=click.IntRange(1), default=8, show_default=True, help="Files per commit.")
@click.option("--with-parent", is_flag=True, help="Stop when the parent process ends.")
def main(table: Path, rates: str, seed: int, tick_s: float, parts: int, with_parent: bool) -> None:
    """Append Nexmark's events to a Delta table; an interrupted feed continues where it stopped."""
    wait = feed.stoppable(with_parent)
    with feed.filling(table):
        source = NexmarkFeed(NexmarkEvents(seed), Steps.parse(rates), tick_s)
        run(source, SourceTable(table, SCHEMA, source.content), parts, wait)


if __name__ == "__main__":
    main()
