"""Replay the flights of 2013 into several ingest tables.

Usage: ``python -m millrace.local.feeds.streams --ingest A --ingest B ...``.

Each stream, by default an airport's flights of one carrier, enters at the table that the pipeline's newest Deployment
names. The streams' row counts are written to ``telemetry/streams``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from millrace.lake.deployments import DeploymentFollower
from millrace.lake.source_tables import SourceTable
from millrace.lake.store import Lake
from millrace.local.feeds.feed import TRANSACTION, clock_options, due, filling, say, stoppable, table_option
from millrace.local.feeds.nycflights import flights
from millrace.local.feeds.replay_clock import SCHEMA, Clock, Replay
from millrace.local.feeds.routing import Routing, RoutingLog, steer
from millrace.model.errors import MillraceError

TELEMETRY = "telemetry/streams"
KEPT_S = 60.0
"""A stream without rows for this long has left."""


@dataclass(frozen=True)
class Intake:
    """A replay divided into streams.

    Attributes:
        replay: The rows.
        columns: Columns whose combined values name a stream.
        tables: Names of the ingest tables.
    """

    replay: Replay
    columns: tuple[str, ...]
    tables: tuple[str, ...]

    def streams(self, tick: int) -> pa.Array:
        """Return the stream of each row of a tick."""
        rows = self.replay.tick(tick)
        named = [rows.column(c).combine_chunks() for c in self.columns]
        return pc.binary_join_element_wise(*named, "/", null_handling="skip")

    def shares(self, routing: Routing) -> list[pa.Table]:
        """Return each table's rows in a routing's tick, buffered rows first."""
        now = {s: t for s, t in routing.entry.items() if s not in routing.waiting}
        parts = [self._split(tick, self._waited(routing, now, tick)) for tick in self._buffered(routing)]
        parts.append(self._split(routing.tick, now))
        return [pa.concat_tables(share) for share in zip(*parts, strict=True)]

    def report(self, log: RoutingLog, ticks: range) -> Iterator[dict[str, Any]]:
        """Yield the streams' rows in a span of ticks, as rows of ``telemetry/streams`` without the pipeline.

        Args:
            log: The routing of those ticks.
            ticks: The span.
        """
        clock, end = self.replay.clock, log.at(ticks[-1])
        began = log.begun + timedelta(seconds=ticks.start * clock.tick_s)
        rows = _counted(self.streams(tick) for tick in ticks)
        delays: dict[str, int] = {}
        for routing in log.routings:
            if routing.tick in ticks:
                delays |= {s: max(delays.get(s, 0), routing.tick - since) for s, since in routing.resumed.items()}
        for stream, table in sorted(end.entry.items()):
            since = end.waiting.get(stream)
            waiting = () if since is None else (self.streams(tick) for tick in range(since, end.tick + 1))
            yield {
                "time": began,
                "stream": stream,
                "app": self.tables[table],
                "rows": rows.get(stream, 0),
                "queue_rows": _counted(waiting).get(stream, 0),
                "latency_ms": delays[stream] * clock.tick_s * 1000 if stream in delays else None,
            }

    def _split(self, tick: int, entry: dict[str, int]) -> list[pa.Table]:
        """Return each table's rows of a tick, without those of streams that enter nowhere."""
        rows, ids = self.replay.tick(tick), self.streams(tick)
        shares = []
        for table in range(len(self.tables)):
            here = pa.array([s for s, t in entry.items() if t == table], pa.string())
            shares.append(rows.filter(pc.is_in(ids, value_set=here)))
        return shares

    def _buffered(self, routing: Routing) -> range:
        return range(min(routing.resumed.values(), default=routing.tick), routing.tick)

    def _waited(self, routing: Routing, now: dict[str, int], tick: int) -> dict[str, int]:
        return {s: now[s] for s, since in routing.resumed.items() if since <= tick}


def _counted(ids: Iterable[pa.Array]) -> dict[str, int]:
    arrays: Sequence[pa.Array] = list(ids)
    counts = pc.value_counts(pa.chunked_array(arrays, pa.string())) if arrays else []
    return {str(c["values"]): c["counts"].as_py() for c in counts}


@dataclass(frozen=True)
class Reporter:
    """Report the rows of a pipeline's streams.

    Attributes:
        lake: Lake to write to.
        pipeline: Name of the pipeline.
        ticks: Ticks per period, >= 1.
    """

    lake: Lake
    pipeline: str
    ticks: int

    def report(self, intake: Intake, log: RoutingLog, tick: int) -> None:
        """Report the periods that have ended by a tick and have not been reported yet.

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
    log: RoutingLog,
    followed: DeploymentFollower,
    reporter: Reporter,
    parts: int,
    wait: Callable[[float], bool],
) -> bool:
    """Commit the ticks to all tables, each when it is due, starting after the last tick that all tables have.

    Args:
        intake: The streams.
        tables: The ingest tables.
        log: The routing so far.
        followed: The Deployments that assign streams to tables.
        reporter: Reports the ticks.
        parts: Files per commit, >= 1.
        wait: Waits the given seconds and returns True if the replay must stop.

    Returns:
        True if the replay finished, False if it was stopped.
    """
    clock, last = intake.replay.clock, [table.last(TRANSACTION) for table in tables]
    first, reached = min(last) + 1, max(*last, log.last)
    routing = log.at(first - 1) if first else Routing(-1)
    present = dict.fromkeys(routing.entry, first - 1)
    number = first - 1
    for number in due(clock, first, wait, say):
        present |= dict.fromkeys(intake.streams(number).unique().to_pylist(), number)
        here = {s: t for s, t in present.items() if (number - t) * clock.tick_s < KEPT_S}
        before = routing
        if number <= reached:  # a table may already have its rows: the others get theirs by the same routing
            routing = log.at(number)
        else:
            # the last tick must leave no rows in the buffer
            newest = followed.read() if number < clock.ticks else None
            routing = steer(routing, number, here, newest.ingest if newest else {}, len(tables))
            log.add(routing)
        for table, rows in zip(tables, intake.shares(routing), strict=True):
            if rows.num_rows:
                table.append(rows, parts, TRANSACTION, number)
        reporter.report(intake, log, number)
        for stream in routing.resumed:
            at = intake.tables[routing.entry[stream]]
            if routing.entry[stream] != before.entry[stream]:
                say(f"{stream} was redirected to {at} in {(number - routing.resumed[stream]) * clock.tick_s:g} s")
    if number < clock.ticks:
        return False
    say(f"done: {intake.replay.rows} rows")
    return True


@click.command()
@table_option("--ingest", "ingest", multiple=True)
@click.option("--pipeline", required=True, help="Pipeline whose Deployment assigns each stream to a table.")
@click.option("--lake", required=True, help="Folder or URI of Millrace's lake.")
@click.option("--stream", default="origin,carrier", show_default=True, help="Columns that name a stream.")
@click.option("--report-s", default=4.0, show_default=True, help="Seconds per report of the streams.")
@click.option("--log", type=click.Path(path_type=Path), help="Routing log; default: next to the first table.")
@clock_options
def main(
    ingest: tuple[Path, ...], pipeline: str, lake: str, stream: str, report_s: float, log: Path | None, parts: int,
    with_parent: bool, **settings: Any,
) -> None:  # fmt: skip
    """Replay the flights of 2013 into ingest tables; an interrupted replay continues where it stopped."""
    wait = stoppable(with_parent)
    with filling(*ingest):
        clock = Clock(**settings)
        intake = Intake(Replay(clock, flights()), tuple(stream.split(",")), tuple(folder.name for folder in ingest))
        unknown = sorted(set(intake.columns) - set(SCHEMA.names))
        if unknown:
            raise MillraceError("--stream", stream, ", ".join(SCHEMA.names), f"Leave {', '.join(unknown)} out.")
        with RoutingLog(log or ingest[0].parent / f"{pipeline}.courses.jsonl", datetime.now(UTC)) as routings:
            tables = [SourceTable(folder, SCHEMA, f"{clock.content}, a share of it") for folder in ingest]
            reporter = Reporter(Lake(lake), pipeline, max(1, round(report_s / clock.tick_s)))
            followed = DeploymentFollower(Lake(lake), pipeline)
            run(intake, tables, routings, followed, reporter, parts, wait)


if __name__ == "__main__":
    main()
