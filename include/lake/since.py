"""Read what was committed to a table after a version, whatever times its rows claim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, Schema
from deltalake.exceptions import DeltaError

from include.contracts.errors import MillraceError
from include.lake.schemas import TABLES
from include.lake.store import Lake, literal

FIRST_LOOK_ROWS = 5000
"""Newest rows that count as new where no version was read before."""


@dataclass(frozen=True)
class Since:
    """New rows of a table and their surroundings.

    Attributes:
        version: The version read up to; -1 if there is no table.
        rows: One pipeline's rows committed after the version asked for, columns as found.
        before: Its newest rows up to that version, columns as found.
        types: Type of each column as found, in Delta's words.
    """

    version: int
    rows: pa.Table
    before: pa.Table
    types: dict[str, str]


def expected_types(table: str) -> dict[str, str]:
    """Return the type of each column of a lake table, in Delta's words."""
    return _types(Schema.from_arrow(TABLES[table].columns))


def read_since(lake: Lake, table: str, pipeline: str, version: int, before_rows: int = 200) -> Since:
    """Return a pipeline's rows committed after ``version`` and its newest rows before.

    Args:
        lake: The lake.
        table: The table's name.
        pipeline: Whose rows.
        version: What was read already; -1 for nothing.
        before_rows: How many rows up to ``version`` to return beside the new ones.

    Raises:
        MillraceError: If the table cannot be read.
    """
    path = lake.path(table)
    with _told(table, path):
        if not DeltaTable.is_deltatable(str(path)):
            return Since(-1, pa.table({}), pa.table({}), {})
        handle = DeltaTable(str(path))
        newest = handle.version()
        files = _added(path, version, newest)
        types = _types(handle.schema())
        if files is None:
            return Since(newest, _newest(handle, pipeline, FIRST_LOOK_ROWS), pa.table({}), types)
        rows = _of_pipeline([pq.read_table(f, partitioning=None) for f in files], pipeline)
        before = _newest(DeltaTable(str(path), version=min(version, newest)), pipeline, before_rows)
        return Since(newest, rows, before, types)


def read_span(lake: Lake, table: str, pipeline: str, after: datetime | None, until: datetime) -> Since:
    """Return a pipeline's rows by their times: new ones within (``after``, ``until``], and the newest before.

    Args:
        lake: The lake.
        table: The table's name.
        pipeline: Whose rows.
        after: Where the span begins (UTC); None for the newest rows whatever their time.
        until: Where it ends (UTC).

    Raises:
        MillraceError: If the table cannot be read.
    """
    with _told(table, lake.path(table)):
        path = str(lake.path(table))
        if not DeltaTable.is_deltatable(path):
            return Since(-1, pa.table({}), pa.table({}), {})
        handle = DeltaTable(path)
        types = _types(handle.schema())
        if types.get("time") != expected_types(table)["time"]:
            return Since(handle.version(), pa.table({}), pa.table({}), types)
        end = f"time <= {literal(until)}"
        if after is None:
            return Since(handle.version(), _newest(handle, pipeline, FIRST_LOOK_ROWS, end), pa.table({}), types)
        rows = _newest(handle, pipeline, FIRST_LOOK_ROWS, f"{end} and time > {literal(after)}")
        return Since(handle.version(), rows, _newest(handle, pipeline, 1, f"time <= {literal(after)}"), types)


@contextmanager
def _told(table: str, path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, DeltaError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:300]
        raise MillraceError(table, str(path), "a readable Delta table", f"Check its files ({reason}).") from error


def _added(path: Path, version: int, newest: int) -> list[Path] | None:
    """Return the data files added after ``version``; None if the log or a file of it is gone."""
    if version < 0:
        return None
    files: list[Path] = []
    for number in range(version + 1, newest + 1):
        entry = path / "_delta_log" / f"{number:020d}.json"
        if not entry.exists():
            return None
        for line in entry.read_text(encoding="utf-8").splitlines():
            add = json.loads(line).get("add")
            if add and add.get("dataChange", True):
                files.append(path / unquote(add["path"]))
    return files if all(f.exists() for f in files) else None


def _newest(handle: DeltaTable, pipeline: str, limit: int, where: str = "true") -> pa.Table:
    columns = {field.name for field in handle.schema().fields}
    if not {"pipeline", "time"} <= columns:
        return pa.table({})
    builder = QueryBuilder().register("rows", handle)
    of = f"pipeline = {literal(pipeline)} and {where}"
    sql = f"select * from rows where {of} order by time desc nulls first limit {int(limit)}"  # noqa: S608 - literals
    return pa.table(builder.execute(sql).read_all())


def _of_pipeline(tables: list[pa.Table], pipeline: str) -> pa.Table:
    if not tables:
        return pa.table({})
    table = pa.concat_tables(tables, promote_options="permissive")
    return table.filter(pc.equal(table["pipeline"], pipeline)) if "pipeline" in table.column_names else table


def _types(schema: Schema) -> dict[str, str]:
    return {field.name: json.dumps(json.loads(field.type.to_json()), sort_keys=True) for field in schema.fields}
