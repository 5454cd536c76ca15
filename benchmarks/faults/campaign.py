"""The results of a campaign of faults, as records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.elastic.pipeline import READ_S, wait_until
from benchmarks.record import Record, at_most, median
from millrace.local.demo.comparison import Comparison, settled
from millrace.local.stack.progress import say
from millrace.run_folder.driver_records import DriverRecord

BENCH, ALL = "faults", "all"
RECOVERED_LIMIT_S = 120.0
TICK_S = 3.0
"""Seconds between two commits of rows. A batch takes eight of them, so a slow machine also finishes in the end."""


@dataclass
class Campaign:
    """The results.

    Attributes:
        recovered_s: Time from each fault's end until full recovery, by fault name.
        failures: Faults without recovery; `end` if the results never had all rows.
        doubled: Most surplus drivers seen after a fault.
        errors: Exceptions that ended a task or a healing without a readable message.
        repeated: Decisions that were recorded more than once.
        lost: Rows missing from the results.
        doubled_rows: Rows that the results contain twice.
    """

    recovered_s: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    doubled: int = 0
    errors: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    lost: int = 0
    doubled_rows: int = 0

    def await_end(
        self, source: Path, results: Path, record: Callable[[], DriverRecord | None], state: Callable[[], object]
    ) -> None:
        """Wait until the results have all rows.

        Args:
            source: Delta table of the flights.
            results: Delta table of the delays.
            record: Reads the newest driver's record: while batches continue, a backlog may take its time.
            state: Describes a pipeline that does not finish.
        """

        def last_commit() -> datetime | None:
            newest = record()
            return None if newest is None else newest.last_commit_at

        def committed(before: datetime | None) -> bool:
            return last_commit() != before

        seen = last_commit()
        try:
            while not settled(source, results):
                wait_until(partial(committed, seen), "the batch after the last", every_s=READ_S)
                seen = last_commit()
        except RuntimeError as error:
            say(f"    {error}: {state()}")
            self.failures.append("end")

    def add(self, compared: Comparison) -> None:
        """Add missing and doubled rows."""
        self.lost += compared.lost
        self.doubled_rows += compared.doubled


def campaign_records(found: Campaign) -> Iterator[Record]:
    """Yield the figures of a campaign."""
    for name, values in found.recovered_s.items():
        yield median(BENCH, name, "millrace", "recovered_s", values, "s")
    every: Sequence[float] = [value for values in found.recovered_s.values() for value in values]
    if every:
        p95 = float(np.quantile(every, 0.95))
        target, holds = at_most(p95, RECOVERED_LIMIT_S)
        yield Record(BENCH, ALL, "millrace", "recovered_p95_s", p95, "s", n=len(every), target=target, holds=holds)
    for error in sorted({*found.errors, *found.repeated}):
        say(f"    {error}")
    figures: Mapping[str, int] = {
        "not_recovered": len(found.failures),
        "tracebacks": len(found.errors),
        "decisions_repeated": len(found.repeated),
        "doubled_drivers": found.doubled,
        "rows_lost": found.lost,
        "rows_doubled": found.doubled_rows,
    }
    for figure, value in figures.items():
        target, holds = at_most(value, 0)
        yield Record(BENCH, ALL, "millrace", figure, value, "", target=target, holds=holds)
