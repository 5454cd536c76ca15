"""Reads what was committed to a table after a version, whatever the times of its rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema

from millrace.lake.newest_rows import RecentRows, RowQuery, read_recent
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.lake.table_schema import TIME

NEAR = timedelta(minutes=30)
"""Rows up to this long before the new rows are compared with them, if there are any."""

CATCH_UP_ROWS = 2000
"""Maximum number of newest rows that count as new: on the first read, and after a long pause."""


@dataclass(frozen=True)
class NewRows:
    """New rows of a table and the rows before them.

    Attributes:
        version: Version up to which the table was read; -1 if there is no table.
        rows: One pipeline's rows committed after the given version; columns as found.
        before: Its newest rows up to that version; columns as found. Empty if new rows were left out.
        types: Delta's type of each column found; empty if no row was found.
        whole: False if more rows were committed than returned; the newest are returned.
        unreadable: Data files whose rows are missing because they cannot be read.
    """

    version: int
    rows: pa.Table
    before: pa.Table
    types: dict[str, str]
    whole: bool = True
    unreadable: tuple[str, ...] = ()


def expected_types(table: str) -> dict[str, str]:
    """Return Delta's type of each column of a lake table."""
    return _types(TABLES[table].columns)


def read_since(lake: Lake, table: str, pipeline: str, version: int, before_rows: int = 200) -> NewRows:
    """Return a pipeline's rows committed after ``version`` and its newest rows before them.

    Args:
        lake: The lake.
        table: The table's name.
        pipeline: Name of the pipeline.
        version: Version up to which rows were read already; -1 for none.
        before_rows: Number of rows up to ``version`` to return with the new ones.

    Raises:
        MillraceError: If the table's log cannot be read.
    """
    newest = lake.version(table)
    new = read_recent(lake, RowQuery(table, pipeline, CATCH_UP_ROWS, after=version))
    before = RecentRows(pa.table({}), True)
    if new.whole and version >= 0:
        before = _before(lake, RowQuery(table, pipeline, before_rows, through=version), new.rows)
    unreadable = (*new.unreadable, *before.unreadable)
    whole = new.whole or version < 0
    return NewRows(newest, new.rows, before.rows, _columns_of(new.rows, before.rows), whole, unreadable)


def _before(lake: Lake, query: RowQuery, new: pa.Table) -> RecentRows:
    """Return the rows that new ones are compared with; if none is near, the last one, however old it is."""
    begin = _least_time(new)
    if begin is None:
        return read_recent(lake, replace(query, limit=1))
    before = RecentRows(pa.table({}), True)
    for attempt in (replace(query, not_before=begin - NEAR), replace(query, limit=1), query):
        before = read_recent(lake, attempt)
        if not before.by_version and len(before.rows):
            before = replace(before, rows=before.rows.filter(pc.less(before.rows["time"], pa.scalar(begin, TIME))))
        if len(before.rows):
            break
    return before


def _least_time(rows: pa.Table) -> datetime | None:
    if not _has_times(rows):
        return None
    least: datetime | None = pc.min(rows["time"]).as_py()
    return least


def _has_times(rows: pa.Table) -> bool:
    return "time" in rows.column_names and pa.types.is_timestamp(rows.schema.field("time").type)


def read_span(lake: Lake, table: str, pipeline: str, after: datetime | None, until: datetime) -> NewRows:
    """Return a pipeline's rows by their times: new ones within (``after``, ``until``], or else the newest one before.

    Args:
        lake: The lake.
        table: The table's name.
        pipeline: Name of the pipeline.
        after: Start of the span (UTC); None for the newest rows whatever their time.
        until: End of the span (UTC).

    Raises:
        MillraceError: If the table's log cannot be read.
    """
    newest = lake.version(table)
    read = read_recent(lake, RowQuery(table, pipeline, CATCH_UP_ROWS, not_before=after))
    rows, before = _within(read.rows, after, until), read.rows.slice(0, 0)
    unreadable = read.unreadable
    if not len(rows) and after is not None:
        last = read_recent(lake, RowQuery(table, pipeline, 1))
        before, unreadable = last.rows, (*unreadable, *last.unreadable)
    return NewRows(newest, rows, before, _columns_of(read.rows, before), True, unreadable)


def _within(rows: pa.Table, after: datetime | None, until: datetime) -> pa.Table:
    if not _has_times(rows):
        return rows.slice(0, 0)
    kind = rows.schema.field("time").type
    inside = pc.less_equal(rows["time"], pa.scalar(until, kind))
    if after is not None:
        inside = pc.and_(inside, pc.greater(rows["time"], pa.scalar(after, kind)))
    return rows.filter(inside)


def _columns_of(*parts: pa.Table) -> dict[str, str]:
    return {name: kind for part in reversed(parts) for name, kind in _types(part.schema).items()}


def _types(schema: pa.Schema) -> dict[str, str]:
    fields = Schema.from_arrow(schema).fields
    return {field.name: json.dumps(json.loads(field.type.to_json()), sort_keys=True) for field in fields}
