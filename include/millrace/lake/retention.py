"""Deletes rows that a table has kept long enough: whole days, by one log entry that reads and rewrites no row.

Rows that something continues from stay, however old: a pipeline may rest for longer than its rows are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from itertools import chain
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from millrace.lake import decisions
from millrace.lake.commits import PROPERTIES
from millrace.lake.decisions import DecisionStore
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake, literal

NEWEST_OF = {"control/memory": "optimizer", "control/observations": "operator, parallelism"}
"""Columns of which each combination's newest rows stay: an evaluation needs them whatever their age."""


def expire(lake: Lake, table: str, before: date) -> int:
    """Delete rows of days before a date and return how many; days that are still read from stay.

    Appends continue. Delta refuses an append with an older handle, and its writer retries with a fresh one.

    Args:
        lake: The lake.
        table: Name of an existing table, partitioned as its schema says.
        before: First day (UTC) to keep.

    Raises:
        CommitFailedError: If another process rewrote or deleted the same files at the same moment.
        MillraceError: If the table cannot be read.
        DeltaError: If it cannot be written.
    """
    handle = lake.at(table).table()
    pipelines, deleted = _pipelines(handle, before), 0
    if pipelines:
        where = [f"date < {_day(before)}"]
        for pipeline, day in sorted(set(_needed(lake, table, pipelines))):
            where.append(f"not (pipeline = {literal(pipeline)} and date = {_day(day)})")
        metrics = handle.delete(" and ".join(where), commit_properties=PROPERTIES)
        deleted = int(metrics["num_deleted_rows"] or 0)
    _remove_empty_days(lake.at(table).folder, before)
    return deleted


def _remove_empty_days(folder: Path | None, before: date) -> None:
    """Remove the folders of days without a file; a bucket has none."""
    for day in folder.glob("pipeline=*/date=*") if folder is not None else ():
        if day.name < f"date={before}":
            with suppress(OSError):  # not empty: its files stay for a day, for readers that already know them
                day.rmdir()


def _pipelines(handle: DeltaTable, before: date) -> set[str]:
    """Return the pipelines with days before a date; none for a table without days."""
    parts = pa.table(handle.get_add_actions(flatten=True)).to_pydict()
    days = zip(parts.get("partition.pipeline", []), parts.get("partition.date", []), strict=True)
    return {str(pipeline) for pipeline, day in days if str(day) < str(before)}


def _needed(lake: Lake, table: str, pipelines: set[str]) -> Iterator[tuple[str, date]]:
    """Yield pipelines and days of rows that something continues from."""
    if table in NEWEST_OF:
        name = table.rsplit("/", 1)[-1]
        sql = f"select pipeline, max(date) as day from {name} group by pipeline, {NEWEST_OF[table]}"  # noqa: S608 - ours
        yield from ((row["pipeline"], row["day"]) for row in lake.rows(sql, table))
    elif table in (decisions.TABLE, decisions.RUNS):
        yield from chain.from_iterable(_days_of_decisions(lake, pipeline) for pipeline in pipelines)


def _days_of_decisions(lake: Lake, pipeline: str) -> Iterator[tuple[str, date]]:
    latest = DeploymentStore(lake).latest(pipeline)
    store = DecisionStore(lake)
    behind = store.get(latest.decision_id) if latest is not None and latest.decision_id is not None else None
    for decision in (behind, *store.resumed_from(pipeline)):
        if decision is not None:
            yield pipeline, decision.time.date()


def _day(day: date) -> str:
    return f"cast({literal(day.isoformat())} as date)"
