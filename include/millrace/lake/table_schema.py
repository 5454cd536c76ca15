"""The description of a table of the lake: its columns with type, unit and meaning, how long rows stay, who uses it."""

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
HOT_KEY = pa.struct([("key", WHOLE), ("label", TEXT), ("rows", WHOLE)])
TYPES = {
    TIME: "timestamp (UTC)",
    TEXT: "string",
    WHOLE: "long",
    SMALL: "int",
    REAL: "double",
    pa.date32(): "date",
    pa.map_(TEXT, WHOLE): "map of string to long",
    pa.list_(OPERATOR): "list of struct",
    pa.list_(HOT_KEY): "list of struct",
    pa.list_(SMALL): "list of int",
    pa.list_(TEXT): "list of string",
}
LOG_HOURS = 2
"""Hours that log entries stay. Every append lists them and reads about compacted files; readers take minutes."""
CONFIGURATION = {
    "delta.logRetentionDuration": f"interval {LOG_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {LOG_HOURS} hours",
    "delta.checkpointInterval": "50",
}
TELEMETRY_DAYS = 30
CONTROL_DAYS = 400
"""Enough to compare a year with the year before."""
IDS_HOURS = 6
"""Long enough for a repeated task to find the row that it wrote."""


@dataclass(frozen=True)
class TableSchema:
    """Shape of one table.

    Attributes:
        columns: Arrow schema, ``pipeline`` and ``time`` first; ``date`` last if the table is partitioned.
        growing: True if the table grows with time.
        row: Description of a row.
        writer: Its writer.
        readers: Its readers.
        units: Unit or range of each column that has one.
        meanings: Meaning of each column.
        keep_days: Days to keep rows, unless something continues from them; None keeps them permanently.
        ids_hours: Hours to remember a commit's transaction ids, if each is used once; None remembers them permanently.
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
        """Columns by which the table is partitioned: a read of one pipeline's days opens no other files."""
        return ("pipeline", "date") if self.growing else ()

    @property
    def configuration(self) -> dict[str, str]:
        """The table's properties. Delta cleans its log by them."""
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
    """Return the schema of a table.

    Args:
        row: Description of a row.
        writer: Its writer.
        readers: Its readers.
        time: Meaning of its ``time``.
        columns: Name, type, unit (empty for none) and meaning of each column other than pipeline, time and date.
        growing: True if it grows with time.
        keep_days: Days to keep rows; None keeps them permanently.
        ids_hours: Hours to remember transaction ids; None remembers them permanently.
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
