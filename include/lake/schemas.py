"""The lake's tables: columns with type, unit and meaning, partitioning, retention, and who writes and reads them.

``python -m include.lake.schemas`` writes docs/tables.md after a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
TIME = pa.timestamp("us", "UTC")
TEXT, WHOLE, SMALL, REAL = pa.string(), pa.int64(), pa.int32(), pa.float64()
OPERATOR = pa.struct(
    [
        ("id", TEXT),
        ("name", TEXT),
        ("tasks", SMALL),
        ("p", SMALL),
        ("rows_in", WHOLE),
        ("rows_out", WHOLE),
        ("useful_s", REAL),
    ]
)
TYPES = {
    TIME: "timestamp (UTC)",
    TEXT: "string",
    WHOLE: "long",
    SMALL: "int",
    REAL: "double",
    pa.date32(): "date",
    pa.map_(TEXT, WHOLE): "map of string to long",
    pa.list_(OPERATOR): "list of struct",
    pa.list_(SMALL): "list of int",
}
LOG_HOURS = 2
"""Every append lists the log's entries and reads of the files that compaction replaced; readers take minutes."""
CONFIGURATION = {
    "delta.logRetentionDuration": f"interval {LOG_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {LOG_HOURS} hours",
    "delta.checkpointInterval": "50",
}
TELEMETRY_DAYS = 30
CONTROL_DAYS = 400
"""A year can be compared with the one before."""
IDS_HOURS = 6
"""A task that is repeated later finds the row that it wrote."""


@dataclass(frozen=True)
class TableSchema:
    """Shape of one table.

    Attributes:
        columns: Arrow schema, ``pipeline`` and ``time`` first; ``date`` last where the table is partitioned.
        growing: True for tables that grow with time.
        row: What a row is.
        writer: Who writes it.
        readers: Who reads it.
        units: Unit of each column that has one, or its range.
        meanings: Meaning of each column.
        keep_days: Days that rows are kept, unless something goes on from them; None for good.
        ids_hours: Hours that a commit's transaction ids are remembered, where each is used once; None for good.
    """

    columns: pa.Schema
    growing: bool
    row: str
    writer: str
    readers: str
    units: Mapping[str, str]
    meanings: Mapping[str, str]
    keep_days: int | None
    ids_hours: int | None

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Columns that the table is partitioned by: a read of one pipeline's days opens no other files."""
        return ("pipeline", "date") if self.growing else ()

    @property
    def configuration(self) -> dict[str, str]:
        """The table's properties; Delta cleans its log by them."""
        ids = {"delta.setTransactionRetentionDuration": f"interval {self.ids_hours} hours"} if self.ids_hours else {}
        return {**CONFIGURATION, **ids}


def _table(
    row: str,
    writer: str,
    readers: str,
    time: str,
    *columns: tuple[str, pa.DataType, str, str],
    growing: bool = True,
    keep_days: int | None = None,
    ids_hours: int | None = None,
) -> TableSchema:
    """Return a table.

    Args:
        row: What a row is.
        writer: Who writes it.
        readers: Who reads it.
        time: Meaning of its ``time``.
        columns: Name, type, unit (empty for none) and meaning of each column beside pipeline, time and date.
        growing: True if it grows with time.
        keep_days: Days that rows are kept; None for good.
        ids_hours: Hours that transaction ids are remembered; None for good.
    """
    every = [("pipeline", TEXT, "", "name of the pipeline"), ("time", TIME, "", time), *columns]
    if growing:
        every.append(("date", pa.date32(), "", "day of `time`; the table is partitioned by pipeline and date"))
    return TableSchema(
        pa.schema([(name, kind) for name, kind, _, _ in every]),
        growing,
        row,
        writer,
        readers,
        {name: unit for name, _, unit, _ in every if unit},
        {name: meaning for name, _, _, meaning in every},
        keep_days,
        ids_hours,
    )


APP = ("app", TEXT, "", "name of the app inside the pipeline")
GENERATION = ("generation", WHOLE, ">= 1", "start number of the driver; it only goes up")
DECISION = ("decision_id", TEXT, "", "the Decision behind it; null where a person or the reconciler acted")
PERIOD = "begin of the period, in the event time of the rows counted"

TABLES: dict[str, TableSchema] = {
    "telemetry/batches": _table(
        "one committed micro-batch of one streaming query, or an idle marker where nothing arrives",
        "the driver",
        "quality gate, evaluation (capacity, rates, health), replay, demo",
        "end of the batch",
        APP,
        ("query", TEXT, "", "name or id of the streaming query"),
        GENERATION,
        ("epoch", WHOLE, ">= 0", "checkpoint epoch of the query"),
        ("batch_id", WHOLE, ">= 0", "Spark's batch id; an idle marker has that of the last batch"),
        ("slots", SMALL, "cores", "cores of the app"),
        ("rows_in", WHOLE, "rows", "read from the sources; 0 in an idle marker"),
        ("rows_out", WHOLE, "rows", "written to the sink; null where the sink does not report it"),
        (
            "durations_ms",
            pa.map_(TEXT, WHOLE),
            "ms",
            "Spark's durations by phase; `triggerExecution` is the whole batch, and an idle marker has none",
        ),
        ("backlog_rows", WHOLE, "rows", "committed to the sources and not yet read; null if unknown"),
        ("source_end", WHOLE, "rows", "ever committed to the sources: its change a second is the arrival rate"),
        ("state_rows", WHOLE, "rows", "held in state"),
        ("state_bytes", WHOLE, "bytes", "held in state"),
        ("host_cpu_other", REAL, "0..1", "share of the host's processors that others used; null if unknown"),
        (
            "operators",
            pa.list_(OPERATOR),
            "",
            "of each operator: `id`, `name` of the plan node, `tasks` of its stage, `p` tasks that ran at once, "
            "`rows_in`, `rows_out`, and `useful_s`, seconds of all its tasks together, waits included",
        ),
        (
            "arrival_basis",
            TEXT,
            "",
            "how arrival is known: `counted` by the source, `planned` (the same as of the batch's start), `taken` (the "
            "batch took all there was when it started), `listed` (`backlog_rows` is estimated from unread files), "
            "`read` (the batch was limited); null if unknown",
        ),
        (
            "lag",
            pa.map_(TEXT, WHOLE),
            "rows",
            "waiting in the source partitions (`topic/partition`) where most wait, up to 8; empty if not told",
        ),
        keep_days=TELEMETRY_DAYS,
    ),
    "telemetry/apps": _table(
        "one app between two flushes of its telemetry",
        "the driver",
        "quality gate",
        "when it was measured",
        APP,
        GENERATION,
        ("cpu_ratio", REAL, "0..cores", "processor seconds per second of the driver's process tree"),
        ("rss_bytes", WHOLE, "bytes", "resident memory of the process tree"),
        ("up_s", REAL, "s", "time since the driver started"),
        keep_days=TELEMETRY_DAYS,
        ids_hours=IDS_HOURS,
    ),
    "telemetry/executors": _table(
        "one executor of a driver; a later row of the same driver and executor replaces an earlier one",
        "the driver",
        "evaluation (deaths of memory), benchmarks",
        "when it ended, or registered while it runs",
        APP,
        GENERATION,
        ("executor", TEXT, "", "Spark's id of it"),
        ("host", TEXT, "", "where it runs"),
        ("cores", SMALL, "cores", "its cores"),
        ("memory_mb", WHOLE, "MiB", "its heap"),
        ("started", TIME, "", "when it registered"),
        ("ended", TIME, "", "when it was lost or let go; null while it runs"),
        ("reason", TEXT, "", "what the cluster manager said of its end"),
        ("worker", SMALL, ">= 0", "its number among the app's executors, which placements name it by"),
        keep_days=TELEMETRY_DAYS,
    ),
    "telemetry/partitions": _table(
        "one state partition of a stage in one sampled micro-batch; all stateful operators of a stage are in it, as "
        "their partitions of one number move together",
        "the driver, where it has executors",
        "evaluation (placement), `./millrace placement`, console",
        "end of the batch",
        APP,
        GENERATION,
        ("version", WHOLE, ">= 1", "the Deployment version that the driver had carried out"),
        ("query", TEXT, "", "name or id of the streaming query"),
        ("batch_id", WHOLE, ">= 0", "Spark's batch id"),
        ("operator", SMALL, ">= 0", "lowest id of the stage's stateful operators, as in the checkpoint's `state`"),
        ("operators", pa.list_(SMALL), "", "ids of all of them"),
        ("partition", SMALL, ">= 0", "number of the partition"),
        ("executor", TEXT, "", "Spark's id of the executor that ran it"),
        ("worker", SMALL, ">= 0", "its number among the app's executors; null where it was not known"),
        ("host", TEXT, "", "where that executor is; null in rows of former versions"),
        ("rows_in", WHOLE, "rows", "read by its task"),
        ("run_s", REAL, "s", "time that its task ran, Python workers and waits included"),
        ("local_bytes", WHOLE, "bytes", "read from its own executor"),
        ("remote_bytes", WHOLE, "bytes", "read from other executors"),
        (
            "state_bytes",
            WHOLE,
            "bytes",
            "what an executor would load if it moved there: newest snapshot in the checkpoint and what changed since; "
            "measured once a minute, else null",
        ),
        keep_days=TELEMETRY_DAYS,
    ),
    "telemetry/flows": _table(
        "what one state partition passed to another in one sampled micro-batch, at most one a minute",
        "the driver, where it has executors",
        "evaluation (placement)",
        "end of the batch",
        APP,
        GENERATION,
        ("query", TEXT, "", "name or id of the streaming query"),
        ("batch_id", WHOLE, ">= 0", "Spark's batch id"),
        ("from_operator", TEXT, "", "operator that emits, as `operator` of `telemetry/partitions`"),
        ("from_group", SMALL, ">= 0", "its state partition"),
        ("to_operator", TEXT, "", "operator that receives"),
        ("to_group", SMALL, ">= 0", "its state partition"),
        ("bytes", WHOLE, "bytes", "as written for the shuffle, right to 10 %"),
        keep_days=TELEMETRY_DAYS,
    ),
    "telemetry/streams": _table(
        "one input stream in one period, or in one micro-batch of a join",
        "the profile job, a feed that redirects its streams, or the join's driver",
        "evaluation (admission, joins)",
        f"{PERIOD}; of a join, when its batch was reported",
        ("stream", TEXT, "", "id of the stream"),
        ("app", TEXT, "", "the app that reads it; of a feed, the ingest table that it enters"),
        ("rows", WHOLE, "rows", "arrived, shed ones included"),
        ("bytes", WHOLE, "bytes", "their size"),
        ("queue_rows", WHOLE, "rows", "held back by the feed while the stream is redirected"),
        ("latency_ms", REAL, "ms", "longest time that a redirection of the stream in the period held rows back"),
        ("shed_rows", WHOLE, "rows", "dropped by the join"),
        keep_days=TELEMETRY_DAYS,
    ),
    "telemetry/workers": _table(
        "one worker of a stream join in one micro-batch",
        "the join's driver",
        "evaluation (joins)",
        "when its batch was reported",
        APP,
        GENERATION,
        ("batch_id", WHOLE, ">= 0", "Spark's batch id"),
        ("worker", SMALL, ">= 0", "number of the worker"),
        ("window_tuples", WHOLE, "tuples", "kept at the end of the batch"),
        ("capacity", WHOLE, "tuples", "W, to be kept at most"),
        ("offered", WHOLE, "tuples", "it would keep had nothing been shed"),
        ("messages", WHOLE, "blocks", "received"),
        ("bytes", WHOLE, "bytes", "size of the blocks received"),
        ("shed", WHOLE, "tuples", "dropped to save work"),
        ("late", WHOLE, "tuples", "dropped because they came too late"),
        ("workers", SMALL, ">= 1", "m in force"),
        ("block", WHOLE, "tuples", "block size in force"),
        ("shed_ratio", REAL, "0..1", "shed ratio in force"),
        keep_days=TELEMETRY_DAYS,
    ),
    "control/deployments": _table(
        "one version of a pipeline's desired state; never changed",
        "launch, apply, the reconciler's roll-back",
        "evaluation, reconciler, jobs and feeds that follow it, commands, console",
        "when it was made",
        ("version", WHOLE, ">= 1", "number of the version; it only goes up"),
        ("content", TEXT, "JSON", "the whole Deployment"),
        DECISION,
        (
            "author",
            TEXT,
            "",
            "`decision`, `verification` (it rolled a change back), `reconciler`, or the person who made it",
        ),
        growing=False,
    ),
    "control/decisions": _table(
        "one evaluation and what became of it, holds included",
        "evaluation, apply, approval (vetoes)",
        "the next evaluation, apply, replay, commands, console, demo",
        "when it was decided",
        ("decision_id", TEXT, "", "unique id; it sorts by time"),
        ("action", TEXT, "", "`apply`, `advise`, `await`, `hold`, `veto` or `roll back`"),
        ("reason_code", TEXT, "", "reason in snake case"),
        ("sentence", TEXT, "", "reason for a person"),
        ("signals", TEXT, "JSON", "the Signals that were measured; null if it did not get that far"),
        ("base_version", WHOLE, ">= 1", "the Deployment version it was decided on; null without one"),
        ("proposals", TEXT, "JSON", "every optimizer's Proposal"),
        ("predicted", TEXT, "JSON", "predicted effect of the accepted proposals, by name with unit suffix"),
        ("guards", TEXT, "JSON", "trace of the guards in their order"),
        ("target", TEXT, "JSON", "the Deployment to apply; null unless the action is apply, await or roll back"),
        ("models", TEXT, "JSON", "registered models used: version by name; newer ones are in `control/runs`"),
        ("config_hash", TEXT, "", "hash of the spec it ran under"),
        ("mlflow_run_id", TEXT, "", "its MLflow run; newer ones are in `control/runs`"),
        ("cursor_version", WHOLE, ">= -1", "version of `telemetry/batches` read up to; null if it was no evaluation"),
        ("cursor_until", TIME, "", "time read up to"),
        ("cursor_table", TEXT, "", "id of the table that `cursor_version` belongs to; null if it was not noted"),
        keep_days=CONTROL_DAYS,
        ids_hours=IDS_HOURS,
    ),
    "control/runs": _table(
        "the MLflow run of one Decision, logged once its change is on its way",
        "apply, evaluation (what a person is asked, advice)",
        "the evaluation that verifies a change, console",
        "when the Decision was made",
        ("decision_id", TEXT, "", "the Decision"),
        ("run_id", TEXT, "", "id of the run"),
        ("models", TEXT, "JSON", "registered models used: version by name"),
        keep_days=CONTROL_DAYS,
        ids_hours=IDS_HOURS,
    ),
    "control/alerts": _table(
        "something that people were told of",
        "the DAG `reconcile`",
        "the same: of a kind and subject people are told once",
        "when it was noticed",
        ("kind", TEXT, "", "what happened, one of a spec's `alerts.events`"),
        ("subject", TEXT, "", "what it happened to, such as a Decision's id; empty for the pipeline itself"),
        ("sentence", TEXT, "", "what happened, and why"),
        keep_days=CONTROL_DAYS,
    ),
    "control/reconfigurations": _table(
        "a start, stop or change that happened; a later row of the same app and start replaces an earlier one",
        "the reconciler, the evaluation that verifies it (`achieved`)",
        "evaluation (guards, verification), reconciler, replay, commands, console, demo",
        "its end, or its start while it is open",
        APP,
        DECISION,
        ("tier", TEXT, "", "`T0`, `T1` or `T2`: obeyed between batches, live, by a restart"),
        ("from_version", WHOLE, ">= 1", "the Deployment version before; null for a first start"),
        ("to_version", WHOLE, ">= 1", "the version after; null for a stop"),
        ("generation", WHOLE, ">= 1", "generation of the driver that was started; null for a stop"),
        ("started", TIME, "", "when it began"),
        ("ended", TIME, "", "when it was ready or had failed; null while open"),
        ("downtime_s", REAL, "s", "predecessor's last commit to successor's first; null without a predecessor"),
        ("outcome", TEXT, "", "`open`, `ready`, `failed`, `rolled back`, `stopped`, `finished` or `circuit open`"),
        ("error", TEXT, "", "the exception's last line where it failed"),
        ("achieved", TEXT, "JSON", "what the next evaluations measured, keys as in the Decision's `predicted`"),
        growing=False,
    ),
    "control/observations": _table(
        "one measured point of processing ability: the Gaussian process's training data",
        "evaluation",
        "evaluation (first one after a start without Decisions)",
        "when it was measured",
        ("operator", TEXT, "", "the app, or `app/operator`"),
        ("parallelism", SMALL, ">= 1", "p that really ran"),
        ("processing_ability", REAL, "rows/s", "what p can process"),
        ("noise", REAL, "rows/s", "standard error of it"),
        ("batches", WHOLE, ">= 1", "healthy batches behind it"),
        keep_days=CONTROL_DAYS,
    ),
    "control/memory": _table(
        "what an optimizer keeps after one Decision",
        "evaluation",
        "the next evaluation, replay",
        "when it was decided",
        ("optimizer", TEXT, "", "registry name of the optimizer"),
        ("decision_id", TEXT, "", "the Decision it was stored with"),
        ("value", TEXT, "JSON", "the memory; its content is the optimizer's own"),
        keep_days=CONTROL_DAYS,
        ids_hours=IDS_HOURS,
    ),
}

_HEAD = """# The tables of the lake

What each table holds, who writes it and who reads it. Written from `include/lake/schemas.py` by
`python -m include.lake.schemas`; [lake.md](lake.md) says how the tables are read and kept small.
Missing is null, never 0. Columns that an older table lacks are null in its rows.
"""


def document() -> str:
    """Return the page that describes every table and column."""
    return "\n".join([_HEAD, *(_section(name, table) for name, table in TABLES.items())])


def _section(name: str, table: TableSchema) -> str:
    rows = [
        f"| `{field.name}` | {TYPES[field.type]} | {table.units.get(field.name, '')} | {table.meanings[field.name]} |"
        for field in table.columns
    ]
    kept = f"for {table.keep_days} days" if table.keep_days else "for good"
    users = f"Written by: {table.writer}. Read by: {table.readers}. Kept {kept}."
    head = [f"## {name}", "", f"A row is {table.row}.", "", users]
    return "\n".join([*head, "", "| column | type | unit or range | meaning |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
