"""Moves a table from old partitions to those of its schema, while writers continue.

The rows are first copied to files of the new partitions. One log entry then removes the old files, adds the new ones
and changes the partition columns, so a reader sees either all old files or all new ones. The entry is made only if no
other entry has taken its version. Otherwise, rows appended in the meantime are copied too, and it is tried again. The
table refuses a writer whose handle is older than the entry; that writer retries with a fresh handle. A killed move
leaves files that no version names.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from millrace.lake.data_files import DataFiles
from millrace.lake.location import Location
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake
from millrace.lake.table_schema import TableSchema
from millrace.model.errors import Conflict, MillraceError

TRIES = 200
"""Entries by other writers that may come first; each costs a copy of their rows."""

LONGEST_TEXT = 64
"""Length up to which least and greatest texts are in a file's statistics."""

Action = Mapping[str, Any]


def repartition(lake: Lake, table: str) -> bool:
    """Move a table to the partitions of its schema; return False if it already has them.

    Args:
        lake: The lake.
        table: Name of an existing table.

    Raises:
        Conflict: If another process rewrote the table's files at the same moment.
        MillraceError: If a data file cannot be read; the table stays as it is.
        OSError: If the table cannot be written.
        DeltaError: If the table cannot be read.
    """
    schema, handle = TABLES[table], lake.at(table).table()
    if tuple(handle.metadata().partition_columns) == schema.partition_by:
        return False
    path = lake.path(table)  # lakes in a bucket are younger than these partitions
    copied: dict[str, Action] = {}
    adds: list[Action] = []
    for _ in range(TRIES):
        files = _files(handle)
        if not copied.keys() <= files.keys():
            raise Conflict(f"{table}: another writer rewrote its files")
        new = {name: file for name, file in files.items() if name not in copied}
        for group in _by_partition(new):
            adds += _copied(path, schema, group)
        copied |= new
        if _commit(path, handle, schema, copied, adds):
            return True
        handle.update_incremental()
        if tuple(handle.metadata().partition_columns) == schema.partition_by:
            return False
    raise Conflict(f"{table}: other writers were first {TRIES} times")


def _files(handle: DeltaTable) -> dict[str, Action]:
    """Return the files of a handle's version, by path."""
    return {str(file["path"]): file for file in pa.table(handle.get_add_actions(flatten=False)).to_pylist()}


def _by_partition(files: Mapping[str, Action]) -> list[list[Action]]:
    groups: dict[str, list[Action]] = {}
    for file in files.values():
        groups.setdefault(json.dumps(_values(file)), []).append(file)
    return list(groups.values())


def _values(file: Action) -> dict[str, str | None]:
    partition = file.get("partition") or {}
    return {name: None if value is None else str(value) for name, value in partition.items()}


def _copied(path: Path, schema: TableSchema, group: Sequence[Action]) -> list[Action]:
    """Copy the rows of one partition's files to files of the new partitions; return their log actions."""
    parts = []
    for file in group:
        try:
            parts.append(DataFiles(Location.of(path)).read(file["path"], _values(file), schema.columns))
        except (OSError, pa.ArrowException) as error:
            remedy = f"Restore or remove it; the table is unchanged ({' '.join(str(error).split())[:200]})."
            raise MillraceError("data file", str(path / file["path"]), "a readable file", remedy) from error
    rows = pa.concat_tables(parts, promote_options="permissive")
    values = rows.select(list(schema.partition_by)).group_by(list(schema.partition_by)).aggregate([]).to_pylist()
    return [_written(path, schema, _where(rows, value), value) for value in values]


def _where(rows: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    for name, value in values.items():
        column = rows[name]
        rows = rows.filter(pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type)))
    return rows


def _written(path: Path, schema: TableSchema, rows: pa.Table, values: Mapping[str, Any]) -> Action:
    texts = {name: None if value is None else str(value) for name, value in values.items()}
    folder = "/".join(f"{name}={text or '__HIVE_DEFAULT_PARTITION__'}" for name, text in texts.items())
    name = f"{folder}/part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    (path / folder).mkdir(parents=True, exist_ok=True)
    kept = rows.select([column for column in rows.column_names if column not in schema.partition_by])
    pq.write_table(kept, path / name, compression="snappy", store_schema=False)
    return {
        "path": name,
        "partitionValues": texts,
        "size": (path / name).stat().st_size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": False,
        "stats": json.dumps(_statistics(kept)),
    }


def _statistics(rows: pa.Table) -> dict[str, Any]:
    statistics: dict[str, Any] = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_nested(column.type):
            continue
        statistics["nullCount"][name] = column.null_count
        if pa.types.is_string(column.type) and column.null_count < len(rows):
            least, greatest = pc.min_max(column).as_py().values()
            if max(len(least), len(greatest)) <= LONGEST_TEXT:
                statistics["minValues"][name], statistics["maxValues"][name] = least, greatest
        elif pa.types.is_timestamp(column.type) and column.null_count < len(rows):
            least, greatest = pc.min_max(pc.cast(column, pa.timestamp("us", "UTC")).cast(pa.int64())).as_py().values()
            statistics["minValues"][name] = _iso(least // 1000)
            statistics["maxValues"][name] = _iso(-(-greatest // 1000))
    return statistics


def _iso(at_ms: int) -> str:
    time_, rest = divmod(at_ms, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_)) + f".{rest:03d}Z"


def _commit(
    path: Path, handle: DeltaTable, schema: TableSchema, old: Mapping[str, Action], adds: Sequence[Action]
) -> bool:
    """Make the entry after the handle's version; return False if that version is taken."""
    now, metadata = int(time.time() * 1000), handle.metadata()
    removes = [
        {
            "path": name,
            "deletionTimestamp": now,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": _values(file),
            "size": file["size_bytes"],
        }
        for name, file in old.items()
    ]
    meta = {
        "id": str(metadata.id),
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": handle.schema().to_json(),
        "partitionColumns": list(schema.partition_by),
        "createdTime": metadata.created_time,
        "configuration": metadata.configuration,
    }
    parameters = {"partitionBy": json.dumps(list(schema.partition_by))}
    info = {"timestamp": now, "operation": "REPARTITION", "operationParameters": parameters}
    actions = [{"commitInfo": info}, {"metaData": meta}, *({"remove": r} for r in removes), *({"add": a} for a in adds)]
    text = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)
    return _entered(path / "_delta_log" / f"{handle.version() + 1:020d}.json", text)


def _entered(entry: Path, text: str) -> bool:
    """Put a complete entry in its place, unless another entry is there."""
    draft = entry.with_name(f"_{uuid.uuid4()}.json.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        os.link(draft, entry)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
