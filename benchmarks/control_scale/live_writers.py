"""What live writers leave in a lake, written in bulk: data files, log entries, and the newest checkpoint.

A live writer makes one commit with one data file at a time through ``deltalake``. Doing the same here would take hours,
because every append replays the log, so the same files and log entries (adds with statistics, transaction ids) are
written directly. ``deltalake`` itself writes the first commit, with the table's metadata, and the newest checkpoint. A
live writer makes a checkpoint every 50 commits; readers open only the newest.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from millrace.lake.row_codec import app_row, batch_row, decision_row, observation_row
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake, to_arrow
from millrace.model.codec import to_json
from millrace.model.decision import Action, Decision, Proposal
from millrace.model.objective import Bounds, Objective
from millrace.model.signals import AppSignals, Capacity, Observation, OperatorSignals, Signals
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import AppMetrics, BatchMetrics, OperatorBatch

COMMIT_S, BATCH_S, EVALUATION_S = 20, 5, 60
CHECKPOINT_EVERY = 50
TUNER = "flow"
LEVELS = (1, 2, 4)
CHUNK = 500
"""Commits whose rows are built as one Arrow table, for speed; each commit still gets its own file."""

LONGEST_TEXT = 64
SINCE, UNTIL, VERSION = "1999-01-01T00:00:00+00:00", "1999-01-02T00:00:00+00:00", "987654321"
"""Placeholders in a Decision's signals for values that differ between evaluations."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Commit:
    """One commit of one row group.

    Attributes:
        time: When it was made (UTC).
        rows: Its rows, all of one pipeline and one day.
        transactions: Application transactions.
    """

    time: datetime
    rows: list[Row]
    transactions: Mapping[str, int]


def spec(pipeline: str) -> PipelineSpec:
    """Return the spec of one of the lake's pipelines."""
    return PipelineSpec.model_validate({"name": pipeline, "script": "app.py", "mode": "auto"})


def names(count: int) -> list[str]:
    """Return the names of the lake's pipelines."""
    return [f"pipeline_{n:02d}" for n in range(count)]


def write(lake: Lake, table: str, commits: Iterable[Commit], version: int) -> None:
    """Append commits to a table at a version: their files, their log entries and the newest checkpoint."""
    path, schema = lake.path(table), TABLES[table]
    for chunk in _chunks(commits):
        data = to_arrow([row for commit in chunk for row in commit.rows], schema)
        start = 0
        for commit in chunk:
            version += 1
            rows = data.slice(start, len(commit.rows))
            start += len(commit.rows)
            parts = {name: str(rows[name][0]) for name in schema.partition_by}
            file, size = write_file(path, rows, parts)
            entry = _entry(commit, file, parts, size)
            (path / "_delta_log" / f"{version:020d}.json").write_text(entry, encoding="utf-8")
    newest = (version + 1) // CHECKPOINT_EVERY * CHECKPOINT_EVERY - 1
    if newest >= 0:
        DeltaTable(str(path), version=newest).create_checkpoint()


def _chunks(commits: Iterable[Commit]) -> Iterator[list[Commit]]:
    rest = iter(commits)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def write_file(path: Path, rows: pa.Table, parts: Mapping[str, str]) -> tuple[str, int]:
    """Write one data file and return its path within the table and its size."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows.drop_columns(list(parts)), sink, store_schema=False)
    content = sink.getvalue()
    folder = path.joinpath(*(f"{name}={value}" for name, value in parts.items()))
    file = folder / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    try:
        file.write_bytes(content)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return str(file.relative_to(path)), content.size


def _entry(commit: Commit, file: str, parts: Mapping[str, str], size: int) -> str:
    at_ms = int(commit.time.timestamp() * 1000)
    add = add_action(file, parts, size, at_ms, _statistics(commit.rows, set(parts)))
    info = {
        "timestamp": at_ms, "operation": "WRITE", "engineInfo": "delta-rs:py",
        "operationParameters": {"mode": "Append", "partitionBy": json.dumps(list(parts))},
    }  # fmt: skip
    marks = [
        {"txn": {"appId": app, "version": number, "lastUpdated": at_ms}} for app, number in commit.transactions.items()
    ]
    actions: list[Mapping[str, Any]] = [{"commitInfo": info}, {"add": add}, *marks]
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)


def add_action(
    file: str, parts: Mapping[str, str], size: int, at_ms: int, statistics: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the log entry of an added file."""
    return {
        "path": file, "partitionValues": dict(parts), "size": size, "modificationTime": at_ms, "dataChange": True,
        "stats": json.dumps(statistics, separators=(",", ":")), "tags": None,
        "baseRowId": None, "defaultRowCommitVersion": None, "clusteringProvider": None,
    }  # fmt: skip


def _statistics(rows: Sequence[Row], partition_by: set[str]) -> Mapping[str, Any]:
    """Return a file's statistics: minimum and maximum of each column of numbers, times and short texts."""
    told: dict[str, Any] = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name, first in rows[0].items():
        if name in partition_by or isinstance(first, list | dict):
            continue
        values = [row[name] for row in rows if row[name] is not None]
        told["nullCount"][name] = len(rows) - len(values)
        if values and not (isinstance(first, str) and len(first) > LONGEST_TEXT):
            told["minValues"][name], told["maxValues"][name] = _text(min(values)), _text(max(values))
    return told


def _text(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z" if isinstance(value, datetime) else value


def _moments(begin: datetime, end: datetime, every_s: int, pipelines: list[str]) -> Iterator[tuple[datetime, str]]:
    """Return when each pipeline commits; the pipelines take turns within each interval."""
    for number in range(1, int((end - begin).total_seconds()) // every_s + 1):
        for place, name in enumerate(pipelines, 1):
            after_s = (number - 1 + place / len(pipelines)) * every_s
            yield begin + timedelta(seconds=after_s), name


def _batches(pipelines: list[str], begin: datetime, end: datetime) -> Iterator[Commit]:
    each = COMMIT_S // BATCH_S
    for time, name in _moments(begin, end, COMMIT_S, pipelines):
        first = each * int((time - begin - timedelta(milliseconds=1)).total_seconds() // COMMIT_S)
        ends = (time - timedelta(seconds=BATCH_S * (each - 1 - n)) for n in range(each))
        rows = [_batch(name, first + n, at) for n, at in enumerate(ends) if at.date() == time.date()]
        yield Commit(time, rows, {f"{name}/{name}/generation": 1, f"{name}/{name}/q/0": first + each - 1})


def _batch(pipeline: str, number: int, time: datetime) -> Row:
    load = 1000 + int(400 * math.sin(number / 200)) + number * 7919 % 97
    useful_s = load / 500.0
    operators = (
        OperatorBatch("0.Scan", "Scan", 2, 2, load, load, 0.1 * useful_s),
        OperatorBatch("1.MapInPandas", "MapInPandas", 2, 2, load, load, 0.9 * useful_s),
    )
    durations = {"triggerExecution": 400 + load, "addBatch": 300 + load, "walCommit": 40, "latestOffset": 30}
    return batch_row(
        BatchMetrics(
            pipeline, pipeline, "q", time, 1, 0, number, 2, load, load, durations, 0, 1000 * (number + 1), None, None,
            0.1, operators,
        )
    )  # fmt: skip


def _apps(pipelines: list[str], begin: datetime, end: datetime) -> Iterator[Commit]:
    for time, name in _moments(begin, end, COMMIT_S, pipelines):
        row = app_row(AppMetrics(name, name, time, 1, 0.7, 650_000_000, (time - begin).total_seconds()))
        yield Commit(time, [row], {f"{name}/{name}/apps/1": int(time.timestamp() * 1000)})


def _observations(pipelines: list[str], begin: datetime, end: datetime) -> Iterator[Commit]:
    for time, name in _evaluations(begin, end, pipelines):
        point = Observation(name, LEVELS[time.hour % 3], 950.0 + time.minute, 12.0, 30, time)
        transaction = {f"observations/{name}/evaluations": int(time.timestamp())}
        yield Commit(time, [observation_row(name, point)], transaction)


def _memories(pipelines: list[str], begin: datetime, end: datetime) -> Iterator[Commit]:
    for time, name in _evaluations(begin, end, pipelines):
        value = {"levels": [1000.0 + n for n in range(40)], "drift": 0.1, "at": time.isoformat()}
        row = {
            "pipeline": name, "time": time, "optimizer": TUNER, "decision_id": _id(name, time), "value": to_json(value),
        }  # fmt: skip
        yield Commit(time, [row], {f"memory/{TUNER}/{_id(name, time)}": 1})


def _decisions(pipelines: list[str], begin: datetime, end: datetime) -> Iterator[Commit]:
    holds = {name: decision_row(_hold(name, begin)) for name in pipelines}
    for time, name in _evaluations(begin, end, pipelines):
        version = int((time - begin).total_seconds() * len(pipelines) / COMMIT_S)
        until, since = time - timedelta(seconds=1), time - timedelta(seconds=1 + EVALUATION_S)
        signals = str(holds[name]["signals"])
        for mark, value in {UNTIL: until.isoformat(), SINCE: since.isoformat(), VERSION: str(version)}.items():
            signals = signals.replace(mark, value)
        row = {
            **holds[name], "time": time, "decision_id": _id(name, time), "signals": signals,
            "cursor_version": version, "cursor_until": until,
        }  # fmt: skip
        yield Commit(time, [row], {f"decision/{_id(name, time)}": 1})


def _evaluations(begin: datetime, end: datetime, pipelines: list[str]) -> Iterator[tuple[datetime, str]]:
    return _moments(begin, end - timedelta(seconds=EVALUATION_S), EVALUATION_S, pipelines)


def _id(pipeline: str, time: datetime) -> str:
    return f"{time:%Y%m%dT%H%M%S}-{pipeline}"


def _hold(pipeline: str, begin: datetime) -> Decision:
    proposal = Proposal(TUNER, (), "fits", "The slots fit the load: 2 slots bear 1000 rows a second")
    return Decision(
        "", pipeline, begin, Action.HOLD, "fits", proposal.sentence, _signals(pipeline, begin), 1, (proposal,)
    )


def _signals(pipeline: str, begin: datetime) -> Signals:
    """Return an evaluation's signals, with placeholders for values that differ between evaluations."""
    operators = tuple(
        OperatorSignals(f"{pipeline}/{key}", key, 2, 200.0, 0.002, 1000.0) for key in ("0.Scan", "1.MapInPandas")
    )
    app = AppSignals(
        pipeline, 2, 2, False, 200.0, 200.0, 0, 0.0, 12, 12, 0.3, 0.0, 0.25, Capacity(2, 0.4, 1000.0, 12.0, 300),
        operators=operators,
    )  # fmt: skip
    known = tuple(
        Observation(pipeline, p, 950.0 * p, 12.0, 30, begin + timedelta(hours=6 * n, minutes=m))
        for n, p in enumerate(LEVELS)
        for m in range(20)
    )
    return Signals(
        pipeline, _MARKS[SINCE], _MARKS[UNTIL], int(VERSION), 1, (app,), known, Objective(), Bounds(1, 8)
    )  # fmt: skip


_MARKS = {mark: datetime.fromisoformat(mark) for mark in (SINCE, UNTIL)}
COMMITS = {
    "telemetry/batches": _batches,
    "telemetry/apps": _apps,
    "control/observations": _observations,
    "control/memory": _memories,
    "control/decisions": _decisions,
}
