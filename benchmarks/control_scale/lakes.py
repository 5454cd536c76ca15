"""Lakes of pipelines that were evaluated every minute for days, as live writers and maintenance leave them.

The last hour is as written (:mod:`benchmarks.control_scale.live_writers`); everything older is compacted to one file
per pipeline and day. The log names the small files that the compactions of the last hours replaced. It also keeps the
entries of the last hours, which the checkpoint makes redundant but which are still in the folder. All pipelines and
days are copies of one, with their own names and times.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.control_scale.live_writers import COMMITS, Commit, add_action, names, spec, write, write_file
from millrace.lake.deployments import DeploymentStore
from millrace.lake.reconfigurations import ReconfigurationStore
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake, to_arrow
from millrace.lake.table_schema import LOG_HOURS
from millrace.model.decision import Outcome, Reconfiguration

DAY, LOG = timedelta(days=1), timedelta(hours=LOG_HOURS)
UNIQUE = {"control/decisions", "control/memory"}
"""Tables whose commits each have a transaction id."""


def build(root: Path, pipelines: int, days: int, now: datetime) -> None:
    """Write a lake of pipelines that were evaluated every minute, the last time a minute ago.

    Args:
        root: The lake's folder.
        pipelines: Number of pipelines.
        days: Days of evaluations, >= 1.
        now: When the writing ends (UTC).
    """
    store = DeploymentStore(Lake(root))
    for name in names(pipelines):
        deployment = store.commit(spec(name).first_deployment(), None)
        started = now - timedelta(days=days)
        start = Reconfiguration(name, name, None, "T2", None, 1, 1, started, started, None, Outcome.READY)
        ReconfigurationStore(store.lake).record(replace(start, to_version=deployment.version))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        for done in [pool.submit(_fill, str(root), table, pipelines, days, now) for table in COMMITS]:
            done.result()


def later_commits(table: str, pipelines: list[str], now: datetime, end: datetime) -> list[Commit]:
    """Return what is written to a table of a lake after it was built.

    Args:
        table: Name of the table.
        pipelines: All pipelines.
        now: When :func:`build` ended the writing (UTC).
        end: When the last commit is made (UTC).
    """
    return [commit for commit in COMMITS[table](pipelines, now - DAY, end) if commit.time > now]


def _fill(root: str, table: str, pipelines: int, days: int, now: datetime) -> None:
    """Write one table of a lake."""
    lake, every, compacted = Lake(root), names(pipelines), now - timedelta(hours=1)
    lake.create(table)
    template = list(COMMITS[table](every[:1], now - DAY, now))
    version = _history(lake, table, template, every, days, compacted)
    later = (commit for commit in COMMITS[table](every, now - DAY, now) if commit.time > compacted)
    write(lake, table, later, version)


def _history(
    lake: Lake, table: str, template: Sequence[Commit], pipelines: Sequence[str], days: int, compacted: datetime
) -> int:
    """Write everything older than the last compaction to a new table, and return the version that it reaches.

    Args:
        lake: The lake.
        table: Name of the table.
        template: The commits of the first pipeline in the newest day.
        pipelines: All pipelines.
        days: Days of history, >= 1.
        compacted: When the newest day was compacted (UTC).
    """
    path, first = lake.path(table), pipelines[0]
    done = [commit for commit in template if commit.time <= compacted]
    rows = [to_arrow([row for c in commits for row in c.rows], TABLES[table]) for commits in (template, done)]
    recent = [commit for commit in done if commit.time > compacted - LOG]
    version = len(done) * len(pipelines)  # earlier days do not count, neither here nor for the cursor in Decisions
    at_ms = int(compacted.timestamp() * 1000)
    actions = path / "_delta_log" / f"{1:020d}.json"
    with actions.open("w", encoding="utf-8") as log:
        for action in _actions(path, table, rows, done, (first, pipelines), days, at_ms):
            log.write(json.dumps(action, separators=(",", ":")) + "\n")
    DeltaTable(str(path)).create_checkpoint()
    _become(path / "_delta_log", version, len(recent) * len(pipelines), compacted)
    return version


def _actions(
    path: Path,
    table: str,
    rows: Sequence[pa.Table],
    done: Sequence[Commit],
    names: tuple[str, Sequence[str]],
    days: int,
    at_ms: int,
) -> Iterator[Mapping[str, Any]]:
    (whole, newest), (first, pipelines) = rows, names
    yield {"commitInfo": {"timestamp": at_ms, "operation": "OPTIMIZE"}}
    for name in pipelines:
        for day, content in _by_day(whole, newest, first, name, days):
            parts = {"pipeline": name, "date": day.isoformat()}
            file, size = write_file(path, content, parts)
            times = pc.min_max(content["time"]).as_py()
            bounds = {key: f"{times[end]:%Y-%m-%dT%H:%M:%S}.000Z" for key, end in (("least", "min"), ("most", "max"))}
            statistics = {
                "numRecords": content.num_rows,
                "minValues": {"time": bounds["least"]},
                "maxValues": {"time": bounds["most"]},
                "nullCount": {"time": 0},
            }
            yield {"add": add_action(file, parts, size, at_ms, statistics)}
        for commit in done:
            if commit.time <= done[-1].time - LOG:
                continue
            parts = {"pipeline": name, "date": commit.time.date().isoformat()}
            file = f"pipeline={name}/date={parts['date']}/part-00000-{uuid.uuid4()}-c000.snappy.parquet"
            yield {
                "remove": {
                    "path": file, "deletionTimestamp": at_ms, "dataChange": False, "extendedFileMetadata": True,
                    "partitionValues": parts, "size": 4000,
                }
            }  # fmt: skip
        yield from _transactions(table, done, first, name)


def _transactions(table: str, done: Sequence[Commit], first: str, name: str) -> Iterator[Mapping[str, Any]]:
    kept = timedelta(hours=TABLES[table].ids_hours or 0)
    remembered = [commit for commit in done if commit.time > done[-1].time - kept]
    for commit in remembered if table in UNIQUE else done[-1:]:
        for app, number in commit.transactions.items():
            last_ms = int(commit.time.timestamp() * 1000)
            yield {"txn": {"appId": app.replace(first, name), "version": number, "lastUpdated": last_ms}}


def _by_day(whole: pa.Table, newest: pa.Table, first: str, name: str, days: int) -> Iterator[tuple[date, pa.Table]]:
    """Yield the rows of each day of a pipeline."""
    parts: dict[date, list[pa.Table]] = {}
    for shift in reversed(range(days)):
        for day, content in _moved(whole if shift else newest, first, name, shift * DAY):
            parts.setdefault(day, []).append(content)
    for day, contents in sorted(parts.items()):
        yield day, pa.concat_tables(contents)


def _moved(table: pa.Table, first: str, name: str, back: timedelta) -> Iterator[tuple[date, pa.Table]]:
    columns = {}
    for column in table.schema:
        values = table[column.name]
        if pa.types.is_timestamp(column.type):
            values = pc.subtract(values, pa.scalar(back, pa.duration("us")))
        elif pa.types.is_string(column.type):
            values = pc.replace_substring(values, first, name)
        columns[column.name] = values.cast(column.type)
    moved = pa.table(columns, schema=table.schema)
    days = pc.cast(moved["time"], pa.date32())
    moved = moved.set_column(moved.schema.get_field_index("date"), "date", days)
    for day in pc.unique(days).to_pylist():
        yield day, moved.filter(pc.equal(days, pa.scalar(day, pa.date32())))


def _become(log: Path, version: int, kept: int, end: datetime) -> None:
    """Turn the table's version 1 into a later one; log entries that are kept get the usual size and times."""
    (log / f"{1:020d}.checkpoint.parquet").rename(log / f"{version:020d}.checkpoint.parquet")
    newest = log / "_last_checkpoint"
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "version": version}), encoding="utf-8")
    for number in range(version - kept + 1, version + 1):
        info = {"timestamp": int((end - LOG * ((version - number) / kept)).timestamp() * 1000), "operation": "WRITE"}
        entry = json.dumps({"commitInfo": {**info, "engineInfo": " " * 1000}}, separators=(",", ":"))
        (log / f"{number:020d}.json").write_text(entry, encoding="utf-8")
    for number in (0, 1):
        (log / f"{number:020d}.json").unlink()
