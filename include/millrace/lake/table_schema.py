"""What is said of a table of the lake: its columns with type, unit and meaning, how long rows stay, who uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

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


def table(
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
