"""Replay the flights of 2013 into several ingest tables.

Usage: ``python -m include.local.feeds.streams --ingest A --ingest B ...``.

Each stream, by default an airport's flights of one carrier, enters at the table that the pipeline's newest Deployment
names. What streams brought goes to ``telemetry/streams``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from include.lake.deployments import DeploymentFollower
from include.lake.source import SourceTable
from include.lake.store import Lake
from include.local.feeds.course import Course, steer
from include.local.feeds.course_log import CourseLog
from include.local.feeds.flights import TRANSACTION, clock_options
from include.local.feeds.intake import Intake
from include.local.feeds.nycflights import flights
from include.local.feeds.pace import due, stoppable
from include.local.feeds.replay import SCHEMA, Clock, Replay
from include.model.errors import Conflict, MillraceError

TELEMETRY = "telemetry/streams"
KEPT_S = 60.0
"""A stream without rows for so long has left."""


@dataclass(frozen=True)
class Reporter:
    """Tells a pipeline what its streams bring.

    Attributes:
        lake: Where.
        pipeline: Whose.
        ticks: Ticks of a period, >= 1.
    """

    lake: Lake
    pipeline: str
    ticks: int

    def tell(self, intake: Intake, log: CourseLog, tick: int) -> None:
        """Report the periods that have ended with a tick and were not reported yet.

        Raises:
            MillraceError: If the lake cannot be written.
        """
        transaction = f"{self.pipeline}/streams"
        for period in range(self.lake.committed(TELEMETRY, transaction) + 1, (tick + 1) // self.ticks):
            span = range(period * self.ticks, (period + 1) * self.ticks)
            rows = [{"pipeline": self.pipeline, **row} for row in intake.report(log, span)]
            self.lake.append(TELEMETRY, rows, {transaction: period})


def run(
    intake: Intake,
    tables: Sequence[SourceTable],
    log: CourseLog,
    wished: Callable[[], Mapping[str, int]],
    reporter: Reporter,
    parts: int,
    wait: Callable[[float], bool],
    say: Callable[[str], None],
) -> bool:
    """Commit tick after tick to all tables, each when it is due, going on after the last one that all have.

    Args:
        intake: The streams.
        tables: Where they enter.
        log: Courses taken so far.
        wished: Where a Deployment wants streams to enter.
        reporter: Is told of each tick.
        parts: Files a commit, >= 1.
        wait: Waits the seconds given, and returns True if the replay is to stop.
        say: Takes one line of progress.

    Returns:
        True if the replay came to its end, False if it was stopped.
    """
    clock, last = intake.replay.clock, [table.last(TRANSACTION) for table in tables]
    first, taken = min(last) + 1, max(*last, log.last)
    course = log.at(first - 1) if first else Course(-1)
    present = dict.fromkeys(course.entry, first - 1)
    number = first - 1
    for number in due(clock, first, wait, say):
        present |= dict.fromkeys(intake.streams(number).unique().to_pylist(), number)
        here = {s: t for s, t in present.items() if (number - t) * clock.tick_s < KEPT_S}
        before = course
        if number <= taken:  # rows of it may be in a table: the others get theirs by the same course
            course = log.at(number)
        else:
            # the last tick leaves nothing waiting
            course = steer(course, number, here, wished() if number < clock.ticks else {}, len(tables))
            log.add(course)
        for table, rows in zip(tables, intake.shares(course), strict=True):
            if rows.num_rows:
                table.append(rows, parts, TRANSACTION, number)
        reporter.tell(intake, log, number)
        for stream in course.resumed:
            at = intake.tables[course.entry[stream]]
            if course.entry[stream] != before.entry[stream]:
                say(f"{stream} was redirected to {at} in {(number - course.resumed[stream]) * clock.tick_s:g} s")
    if number < clock.ticks:
        return False
    say(f"done: {intake.replay.rows} rows")
    return True


def _wished(followed: DeploymentFollower) -> Mapping[str, int]:
    newest = followed.read()
    return newest.ingest if newest else {}


@click.command()
@click.option("--ingest", type=click.Path(path_type=Path), multiple=True, required=True, help="Folder of a table.")
@click.option("--pipeline", required=True, help="Whose Deployment says which stream enters where.")
@click.option("--lake", type=click.Path(path_type=Path), required=True, help="Folder of Millrace's lake.")
@click.option("--stream", default="origin,carrier", show_default=True, help="Columns that name a stream.")
@click.option("--report-s", default=4.0, show_default=True, help="Seconds that a report of the streams covers.")
@click.option("--log", type=click.Path(path_type=Path), help="Courses taken; beside the first table by default.")
@clock_options
def main(
    ingest: tuple[Path, ...], pipeline: str, lake: Path, stream: str, report_s: float, log: Path | None, parts: int,
    with_parent: bool, **settings: Any,
) -> None:  # fmt: skip
    """Replay the flights of 2013 into ingest tables; a replay that was interrupted goes on where it stopped."""
    wait = stoppable(with_parent)
    try:
        clock = Clock(**settings)
        replay, found = Replay(clock, flights()), Lake(lake)
        intake = Intake(replay, tuple(stream.split(",")), tuple(folder.name for folder in ingest))
        unknown = sorted(set(intake.columns) - set(SCHEMA.names))
        if unknown:
            raise MillraceError("--stream", stream, ", ".join(SCHEMA.names), f"Leave {', '.join(unknown)} out.")
        with CourseLog(log or ingest[0].parent / f"{pipeline}.courses.jsonl", datetime.now(UTC)) as courses:
            tables = [SourceTable(folder, SCHEMA, f"{clock.content}, a share of it") for folder in ingest]
            reporter = Reporter(found, pipeline, max(1, round(report_s / clock.tick_s)))
            followed = DeploymentFollower(found, pipeline)
            run(intake, tables, courses, lambda: _wished(followed), reporter, parts, wait, partial(print, flush=True))
    except Conflict:
        sys.exit(f"error: another replay is filling {', '.join(map(str, ingest))}: stop one of the two")
    except MillraceError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
