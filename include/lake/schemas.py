"""The lake's tables: Arrow schema, partitioning and the design's meaning of a row."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TIME = pa.timestamp("us", "UTC")
MAP_MS = pa.map_(pa.string(), pa.int64())
OPERATOR = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("tasks", pa.int32()),
        ("p", pa.int32()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("useful_s", pa.float64()),
    ]
)


@dataclass(frozen=True)
class TableSchema:
    """Shape of one table.

    Attributes:
        columns: Arrow schema, ``pipeline`` and ``time`` first; ``date`` last where the table is partitioned.
        growing: True for tables that grow with time.
    """

    columns: pa.Schema
    growing: bool

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Columns that the table is partitioned by: a read of one pipeline's days opens no other files."""
        return ("pipeline", "date") if self.growing else ()


def _table(*columns: tuple[str, pa.DataType], growing: bool) -> TableSchema:
    fields = [("pipeline", pa.string()), ("time", TIME), *columns, *([("date", pa.date32())] if growing else [])]
    return TableSchema(pa.schema(fields), growing)


TABLES: dict[str, TableSchema] = {
    "telemetry/batches": _table(
        ("app", pa.string()),
        ("query", pa.string()),
        ("generation", pa.int64()),
        ("epoch", pa.int64()),
        ("batch_id", pa.int64()),
        ("slots", pa.int32()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("durations_ms", MAP_MS),
        ("backlog_rows", pa.int64()),
        ("source_end", pa.int64()),
        ("state_rows", pa.int64()),
        ("state_bytes", pa.int64()),
        ("host_cpu_other", pa.float64()),
        ("operators", pa.list_(OPERATOR)),
        growing=True,
    ),
    "telemetry/apps": _table(
        ("app", pa.string()),
        ("generation", pa.int64()),
        ("cpu_ratio", pa.float64()),
        ("rss_bytes", pa.int64()),
        ("up_s", pa.float64()),
        growing=True,
    ),
    "telemetry/key_groups": _table(
        ("operator", pa.string()),
        ("key_group", pa.int32()),
        ("app", pa.string()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("bytes_in", pa.int64()),
        ("bytes_out", pa.int64()),
        ("cpu_ms", pa.float64()),
        ("state_bytes", pa.int64()),
        growing=True,
    ),
    "telemetry/flows": _table(
        ("from_operator", pa.string()),
        ("from_group", pa.int32()),
        ("to_operator", pa.string()),
        ("to_group", pa.int32()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        growing=True,
    ),
    "telemetry/streams": _table(
        ("stream", pa.string()),
        ("app", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("queue_rows", pa.int64()),
        ("latency_ms", pa.float64()),
        ("shed_rows", pa.int64()),
        growing=True,
    ),
    "telemetry/workers": _table(
        ("app", pa.string()),
        ("generation", pa.int64()),
        ("batch_id", pa.int64()),
        ("worker", pa.int32()),
        ("window_tuples", pa.int64()),
        ("capacity", pa.int64()),
        ("offered", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("shed", pa.int64()),
        ("late", pa.int64()),
        ("workers", pa.int32()),
        ("block", pa.int64()),
        ("shed_ratio", pa.float64()),
        growing=True,
    ),
    "control/deployments": _table(
        ("version", pa.int64()),
        ("content", pa.string()),
        ("decision_id", pa.string()),
        ("author", pa.string()),
        growing=False,
    ),
    "control/decisions": _table(
        ("decision_id", pa.string()),
        ("action", pa.string()),
        ("reason_code", pa.string()),
        ("sentence", pa.string()),
        ("signals", pa.string()),
        ("base_version", pa.int64()),
        ("proposals", pa.string()),
        ("predicted", pa.string()),
        ("guards", pa.string()),
        ("target", pa.string()),
        ("models", pa.string()),
        ("config_hash", pa.string()),
        ("mlflow_run_id", pa.string()),
        ("cursor_version", pa.int64()),
        ("cursor_until", TIME),
        ("cursor_table", pa.string()),
        growing=True,
    ),
    "control/reconfigurations": _table(
        ("app", pa.string()),
        ("decision_id", pa.string()),
        ("tier", pa.string()),
        ("from_version", pa.int64()),
        ("to_version", pa.int64()),
        ("generation", pa.int64()),
        ("started", TIME),
        ("ended", TIME),
        ("downtime_s", pa.float64()),
        ("outcome", pa.string()),
        ("error", pa.string()),
        ("achieved", pa.string()),
        growing=False,
    ),
    "control/observations": _table(
        ("operator", pa.string()),
        ("parallelism", pa.int32()),
        ("processing_ability", pa.float64()),
        ("noise", pa.float64()),
        ("batches", pa.int64()),
        growing=True,
    ),
    "control/memory": _table(
        ("optimizer", pa.string()),
        ("decision_id", pa.string()),
        ("value", pa.string()),
        growing=True,
    ),
}
