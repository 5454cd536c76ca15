"""Appends to and reads from the lake's Delta tables without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import CommitFailedError, DeltaError

from millrace.lake.commits import append_rows, dated, is_committed, is_conflict, is_stale
from millrace.lake.data_files import KEPT_FILES, DataFiles
from millrace.lake.kept import Kept
from millrace.lake.location import ESCAPE, Location
from millrace.lake.log import NOTHING, DeltaLog, Stamp
from millrace.lake.schemas import TABLES
from millrace.lake.table_errors import unreadable, unwritable
from millrace.lake.table_schema import TableSchema
from millrace.model.errors import Conflict, MillraceError

VERSION, VERSION_PROPERTY = 1, "millrace.version"
"""Version of what the columns mean. A version that changes that sets the property of its tables; none has so far."""
KEPT_RESULTS, LARGEST_RESULT = 256, 2**18
"""Results of queries to keep for as long as no table changes, and the most bytes of one: a few hundred rows."""
Position = tuple[int, int]
"""How often a table's log has restarted while it was read (:class:`DeltaLog`), and its version; -1 without a table."""
STALE_TRIES = 50
"""Attempts at an append, each with a fresh handle, if maintenance changes the table or deletes rows."""


class Lake:
    """The tables of one folder or bucket. Handles stay open: reopening would replay the log at every append.

    Args:
        root: The lake's folder, created with its first table, or ``s3://BUCKET/PREFIX``.
        most_files: Data files to keep in memory.

    Attributes:
        location: The same, as a location.
        files: Data files that were read.
        unreadable: Data files that could not be read, relative to the lake, with the reason. Their rows are missing
            from what was read.

    Raises:
        MillraceError: If ``root`` is not a possible place for a lake.
    """

    def __init__(self, root: str | Path | Location, most_files: int = KEPT_FILES) -> None:
        self.location = Location.of(root)
        if self.location.folder is not None and (escape := ESCAPE.search(self.location.uri)):
            allowed = f"a folder without {escape[0]} in its path, which deltalake decodes"
            raise MillraceError(
                "lake", self.location.uri, allowed, "Set MILLRACE_HOME or MILLRACE_LAKE to another folder."
            )
        self.files = DataFiles(self.location, most_files)
        self.unreadable: dict[str, str] = {}
        self._handles: dict[str, DeltaTable] = {}
        self._entries: dict[str, tuple[int, Stamp | None]] = {}
        """An entry of each handle's log, by its version: it differs if the table was recreated."""
        self._logs: dict[str, DeltaLog] = {}
        self._results = Kept[tuple[object, ...], pa.Table](KEPT_RESULTS)

    def at(self, table: str) -> Location:
        """Return the location of ``table``.

        Raises:
            MillraceError: If the lake has no table of that name.
        """
        _schema(table)
        return self.location / table

    def path(self, table: str) -> Path:
        """Return the folder of ``table``.

        Raises:
            MillraceError: If the lake has no table of that name, or is not a folder.
        """
        folder = self.at(table).folder
        if folder is None:
            raise MillraceError("lake", str(self.location), "a folder", "This works only for a lake on disk.")
        return folder

    def exists(self, table: str) -> bool:
        """Return whether ``table`` has been created.

        Raises:
            MillraceError: If that cannot be determined.
        """
        # deltalake would also block this process's other threads for as long as a bucket hangs
        return self.version(table) >= 0

    def log(self, table: str) -> DeltaLog:
        """Return the log of ``table``."""
        if table not in self._logs:
            self._logs[table] = DeltaLog(self.at(table))
        return self._logs[table]

    def create(self, *tables: str) -> None:
        """Create tables that do not exist yet, by default all of them; safe to repeat and to race."""
        for table in tables or TABLES:
            self._created(table)

    def version(self, table: str) -> int:
        """Return the newest version of ``table``; -1 if it does not exist."""
        return self.log(table).newest()

    def position(self, table: str) -> Position:
        """Return how far ``table`` has grown: an equal position means that it has not changed."""
        version = self.log(table).newest()
        return self.log(table).restarts, version

    def committed_at(self, table: str) -> datetime | None:
        """Return when the newest version of ``table`` was committed (UTC); None if it does not exist."""
        newest = self.log(table).newest()
        commit = self.log(table).commit(newest) if newest >= 0 else None
        return None if commit is None else commit.time

    def committed(self, table: str, transaction: str) -> int:
        """Return the number last committed for an application transaction; -1 if there is none.

        Raises:
            MillraceError: If the table cannot be read.
        """
        handle = self._existing(table)
        number = None if handle is None else handle.transaction_version(transaction)
        return -1 if number is None else int(number)

    def append(
        self,
        table: str,
        rows: Sequence[Mapping[str, Any]] | pa.Table,
        transactions: Mapping[str, int] | None = None,
        *,
        lasting: bool = False,
    ) -> int | None:
        """Append rows as one commit and return its version.

        Args:
            table: The table's name, for example ``telemetry/batches``.
            rows: Rows as mappings or an Arrow table. Missing columns are null; ``date`` is added from ``time``.
            transactions: Application transactions by id. If any id was already committed with this number or a higher
                one, nothing is written and None is returned: replayed writes are skipped.
            lasting: Whether to remember their ids permanently, even if the table forgets ids after a while.

        Raises:
            Conflict: If another writer committed one of ``transactions`` at the same moment.
            MillraceError: If the lake cannot be written.
        """
        data, marks = to_arrow(rows, _schema(table)), dated(transactions or {}, lasting=lasting)
        tries = 0
        while True:
            handle, tries = self._created(table), tries + 1
            if is_committed(handle, transactions or {}):
                return None
            try:
                return append_rows(handle, data, marks)
            except (OSError, DeltaError) as error:
                self._handles.pop(table, None)
                if transactions and is_conflict(error):
                    raise Conflict(f"{table}: {transactions} was committed by another writer") from error
                if not is_stale(error) or tries == STALE_TRIES:
                    raise unwritable(self.at(table), error) from error

    def query(self, sql: str, *tables: str) -> pa.Table:
        """Run a SELECT (DataFusion SQL) over tables; ``telemetry/batches`` is called ``batches`` in the query.

        If one of the tables does not exist yet, the result is empty. Never put values that a person can influence
        into the text of a query: use :func:`literal`.

        Raises:
            MillraceError: If a table cannot be read.
        """
        handles: dict[str, DeltaTable] = {}
        for table in tables:
            handle = self._existing(table)
            if handle is None:
                return pa.table({})
            handles[table] = handle
        # an evaluation asks the same of control tables several times, and they change a few times per hour
        asked = (sql, *((table, handle.version()) for table, handle in handles.items()))
        result = self._results.get(asked)
        if result is None:
            result = self._run(sql, handles)
            if result.nbytes <= LARGEST_RESULT:
                self._results.put(asked, result)
        return result

    def _run(self, sql: str, handles: Mapping[str, DeltaTable]) -> pa.Table:
        builder, tables = QueryBuilder(), ", ".join(handles)
        for table, handle in handles.items():
            builder.register(table.rsplit("/", 1)[-1], handle)
        try:
            return pa.table(builder.execute(sql).read_all())
        except (OSError, DeltaError) as error:
            raise unreadable(f"{self.location}: {tables}", error) from error
        except Exception as error:
            if type(error) is Exception:  # how the query engine reports an unreadable data file
                raise unreadable(f"{self.location}: {tables}", error) from error
            raise

    def rows(self, sql: str, *tables: str) -> list[dict[str, Any]]:
        """Run :meth:`query` and return its rows."""
        rows: list[dict[str, Any]] = self.query(sql, *tables).to_pylist()
        return rows

    def _existing(self, table: str) -> DeltaTable | None:
        """Return a table's handle at its newest version; None if it does not exist."""
        handle, log = self._handles.get(table), self.log(table)
        entry, seen = self._entries.get(table, (NOTHING, None))
        try:
            # if the entry has gone or changed, the table was recreated: a kept handle would use files that are gone
            if handle is not None and seen is not None and log.stamp(entry) == seen:
                following = handle.version() + 1
                if (stamp := log.stamp(following)) is not None:  # deltalake would list the log to find out
                    self._entries[table] = following, stamp
                    handle.update_incremental()
                return handle
            newest = log.newest()
            if newest < 0:  # deltalake would list the whole log to find out
                return None
            self._entries[table] = newest, log.stamp(newest)
            handle = self.at(table).table()
        except (OSError, DeltaError) as error:
            raise unreadable(f"{self.location}: {table}", error) from error
        check_version(handle)
        self._handles[table] = handle
        self._results.clear()  # a table that was recreated counts its versions from 0 again
        return handle

    def _created(self, table: str) -> DeltaTable:
        """Return a table's handle at its newest version; create the table if it does not exist."""
        schema, location, handle = _schema(table), self.at(table), self._existing(table)
        if handle is None:
            partitions = list(schema.partition_by) or None
            try:
                handle = DeltaTable.create(
                    location.uri,
                    schema=schema.columns,
                    mode="ignore",
                    partition_by=partitions,
                    configuration=schema.configuration,
                    storage_options=location.storage_options,
                )
            except CommitFailedError:  # another writer created it first
                handle = location.table()
            except (OSError, DeltaError) as error:
                raise unwritable(location, error) from error
            self._handles[table] = handle
        return handle


def literal(value: str | int | float | datetime) -> str:
    """Return ``value`` as a SQL literal for :meth:`Lake.query`."""
    if isinstance(value, datetime):
        return f"arrow_cast('{value.astimezone(UTC).isoformat()}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)


def check_version(handle: DeltaTable) -> None:
    """Refuse a table whose columns have a meaning that only a later version knows; more columns alone are fine.

    Args:
        handle: The table.

    Raises:
        MillraceError: If it is such a table.
    """
    version = handle.metadata().configuration.get(VERSION_PROPERTY, str(VERSION))
    if version != str(VERSION):
        remedy = "A newer Millrace wrote it: upgrade Millrace, or set MILLRACE_HOME to another folder."
        raise MillraceError("version of the lake", f"{version} ({handle.table_uri})", f"{VERSION}", remedy)


def _schema(table: str) -> TableSchema:
    try:
        return TABLES[table]
    except KeyError:
        raise MillraceError("table", table, ", ".join(TABLES), "Name a table of the lake.") from None


def to_arrow(rows: Iterable[Mapping[str, Any]] | pa.Table, schema: TableSchema) -> pa.Table:
    """Return rows with exactly a table's columns: missing ones are null, ``date`` comes from ``time``."""
    if isinstance(rows, pa.Table):
        if schema.growing and "date" not in rows.column_names:
            rows = rows.append_column("date", pc.cast(rows["time"], pa.date32()))
        for column in schema.columns:
            if column.name not in rows.column_names:
                rows = rows.append_column(column, pa.nulls(len(rows), column.type))
        return rows.select(schema.columns.names).cast(schema.columns)
    complete = [_with_date(row) if schema.growing else row for row in rows]
    return pa.Table.from_pylist(complete, schema=schema.columns)


def _with_date(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "date": row["time"].astimezone(UTC).date()}
