"""Pipelines of several apps to measure: the spec, what feeds it, what its rows cost, and the results it should have.

A further graph needs one entry in :data:`WORKLOADS`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol

from benchmarks.graph import nexmark_results
from benchmarks.graph.loads import Load
from millrace.lake.source_tables import SourceTable, is_table, query
from millrace.local.feeds import nexmark, sentences
from millrace.local.feeds.nexmark import Steps
from millrace.local.feeds.nexmark_events import SCHEMA, NexmarkEvents
from millrace.places import PACKAGE

EXAMPLES = PACKAGE / "pipelines" / "examples"
PARTS = 2
"""Files per commit of sentences. The apps repartition their rows, so a few small files are enough."""
NEXMARK_PARTS = 8
"""Files per commit of events: as many as the feed's default, on which the apps' ``--late-s`` depends."""


class Feed(Protocol):
    """The only writer of a workload's source tables."""

    def commit(self, rows: int) -> None:
        """Append the next rows, in one commit per table."""

    def finish(self) -> None:
        """Append what the results need to be complete, such as a row that closes all windows."""


@dataclass(frozen=True)
class Difference:
    """How results differ from those of a batch computation on the same input, rows of the batch computation's input.

    Attributes:
        lost: Rows that are missing.
        doubled: Rows that are counted more than once, or that should not be there.
    """

    lost: int
    doubled: int


@dataclass(frozen=True)
class Workload:
    """A pipeline of several apps to measure.

    Attributes:
        spec: Its YAML file. All tables are in ``${MILLRACE_HOME}/data``, and the argument ``--wait-ms`` of each app
            is its real wait per row, milliseconds.
        rows_per_row: Rows that each app waits for per row that the feed commits, by app.
        unit_rows_per_s: Unit of the feed's rate. At ten units, the busiest app needs half of its most slots or more.
        feed: Creates the source tables in a folder, and returns their feed. Takes a load and a seed.
        compare: Compares the results in that folder with a batch computation.
    """

    spec: Path
    rows_per_row: Mapping[str, float]
    unit_rows_per_s: float
    feed: Callable[[Path, Load, int], Feed]
    compare: Callable[[Path], Difference]


class SentenceFeed:
    """The feed of ``wordcount``."""

    def __init__(self, data: Path, _: Load, seed: int) -> None:
        self._table = SourceTable(data / "sentences", sentences.SCHEMA, sentences.CONTENT)
        self._seed, self._next, self._commits = seed, 0, count()

    def commit(self, rows: int) -> None:
        """Append the next sentences."""
        batch = sentences.sentences(self._next, rows, self._seed)
        self._table.append(batch, PARTS, sentences.TRANSACTION, next(self._commits))
        self._next += rows

    def finish(self) -> None:
        """Do nothing: counts are always complete."""


def compare_counts(data: Path) -> Difference:
    """Compare the counts of ``wordcount`` with the words of its sentences."""
    texts = query("select text from s", s=data / "sentences")["text"].to_pylist()
    expected = Counter(word for text in texts for word in re.findall("[a-z]+", text.lower()))
    rows = query("select word, times from c", c=data / "counts").to_pylist() if is_table(data / "counts") else []
    found: Counter[str] = Counter()
    for row in rows:  # a word must not have two rows
        found[row["word"]] += row["times"]
    return Difference((expected - found).total(), (found - expected).total())


class NexmarkTable:
    """The feed of Nexmark's queries."""

    def __init__(self, data: Path, load: Load, seed: int) -> None:
        steps = Steps(tuple(zip(load.rows_per_s, map(float, load.hold_s), strict=True)))
        self._source = nexmark.NexmarkFeed(NexmarkEvents(seed), steps)
        self._table = SourceTable(data / "nexmark" / "events", SCHEMA, self._source.content)
        self._ticks = count()

    def commit(self, _: int) -> None:
        """Append the events of the next second."""
        self._append(next(self._ticks), NEXMARK_PARTS)

    def finish(self) -> None:
        """Append the events that close all windows."""
        self._append(self._source.clock.ticks, 1)

    def _append(self, tick: int, parts: int) -> None:
        self._table.append(self._source.tick(tick), parts, nexmark.TRANSACTION, tick)


def compare_query(name: str, data: Path) -> Difference:
    """Compare the results of a Nexmark query with its events."""
    expected = nexmark_results.expected(name, data / "nexmark" / "events")
    found = nexmark_results.found(name, data / "nexmark" / name / "results")
    return Difference((expected - found).total(), (found - expected).total())


def nexmark_query(name: str, rows_per_row: Mapping[str, float]) -> Workload:
    """Return a Nexmark query."""
    return Workload(
        spec=EXAMPLES / "nexmark" / f"{name}.yaml",
        rows_per_row=rows_per_row,
        unit_rows_per_s=30.0,
        feed=NexmarkTable,
        compare=partial(compare_query, name),
    )


WORDCOUNT = Workload(
    spec=EXAMPLES / "wordcount" / "wordcount.yaml",
    rows_per_row={"clean": 1.0, "split": 1.0, "count": sentences.MEAN_WORDS},
    unit_rows_per_s=10.0,
    feed=SentenceFeed,
    compare=compare_counts,
)
PERSONS, AUCTIONS, BIDS = 1 / 50, 3 / 50, 46 / 50
"""Share of Nexmark's events."""
WORKLOADS: Mapping[str, Workload] = {
    "wordcount": WORDCOUNT,
    "q1": nexmark_query("q1", {"bids": BIDS, "euros": BIDS}),
    "q2": nexmark_query("q2", {"bids": BIDS, "selected": BIDS}),
    # 7 of 12 cities are in the three states, and one of five categories is selected
    "q3": nexmark_query(
        "q3", {"persons": PERSONS, "auctions": AUCTIONS, "suggestions": PERSONS * 7 / 12 + AUCTIONS / 5}
    ),
    # a count per window and auction: at 300 events per second, about 280 auctions get bids in a window
    "q5": nexmark_query("q5", {"bids": BIDS, "counts": BIDS, "hottest": 0.47}),
    "q8": nexmark_query("q8", {"persons": PERSONS, "auctions": AUCTIONS, "new_users": PERSONS + AUCTIONS}),
}
"""The workloads by name."""
