"""Writes and reads source and result tables: Delta tables that belong to a pipeline, not to the lake."""

from __future__ import annotations

import json
import time
import uuid
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from millrace.lake.table_errors import unreadable, unwritable
from millrace.lake.table_schema import CONFIGURATION
from millrace.model.errors import Conflict, MillraceError


class SourceTable:
    """A Delta table to which a feed appends, several files of near-equal rows per commit.

    Spark reads a micro-batch with at most one task per file, so a commit with fewer files than slots leaves slots idle.
    ``write_deltalake`` writes one file. Here the parts are written first and then added by one commit.

    Args:
        path: The table's folder; created if it does not exist.
        schema: Its Arrow schema.
        content: Description of the table's content and how it was made. A table with other content is refused.

    Raises:
        MillraceError: If the folder cannot be written, or contains a table with other content.
    """

    def __init__(self, path: str | Path, schema: pa.Schema, content: str) -> None:
        self.path = Path(path)
        self._schema = schema
        try:
            self._table = DeltaTable.create(
                str(self.path), schema=schema, mode="ignore", description=content, configuration=CONFIGURATION
            )
            self._table.update_incremental()
        except (OSError, DeltaError) as error:
            raise unwritable(self.path, error, "source table") from error
        description = self._table.metadata().description
        if description != content:
            remedy = f"It was created as {description!r}: use the same settings, or a new folder."
            raise MillraceError("source table", str(self.path), f"a table of {content!r}", remedy)

    def refresh(self) -> None:
        """Read what other writers have committed; a writer itself does not need to."""
        self._table.update_incremental()

    def last(self, transaction: str) -> int:
        """Return the number last committed under a transaction id; -1 before the first."""
        number = self._table.transaction_version(transaction)
        return -1 if number is None else int(number)

    def append(self, rows: pa.Table, parts: int, transaction: str, number: int) -> int | None:
        """Append rows as one commit of ``parts`` files and return its version.

        Args:
            rows: Rows in the table's schema; fewer rows than parts make as many files as rows.
            parts: Files per commit, >= 1.
            transaction: Application transaction id.
            number: Its number, counted up by the caller. If it was committed before, nothing is written and None is
                returned.

        Raises:
            Conflict: If another writer committed this number at the same moment.
            MillraceError: If the table cannot be written.
        """
        if number <= self.last(transaction):
            return None
        try:
            # A kill between the two steps leaves files that no commit names: readers never see them.
            files = [self._write(part) for part in split(rows, parts)]
            self._table.create_write_transaction(
                files,
                mode="append",
                schema=self._schema,
                commit_properties=CommitProperties(app_transactions=[Transaction(transaction, number)]),
            )
            self._table.update_incremental()
        except CommitFailedError as error:
            raise Conflict(f"{self.path}: {transaction} {number} was committed by another writer") from error
        except (OSError, DeltaError) as error:
            raise unwritable(self.path, error, "source table") from error
        return int(self._table.version())

    def _write(self, part: pa.Table) -> AddAction:
        name = f"part-{uuid.uuid4()}.parquet"
        pq.write_table(part, self.path / name, compression="snappy")
        size = (self.path / name).stat().st_size
        return AddAction(name, size, {}, int(time.time() * 1000), True, json.dumps({"numRecords": part.num_rows}))


def split(rows: pa.Table, parts: int) -> list[pa.Table]:
    """Return ``rows`` in at most ``parts`` slices, none empty, whose lengths differ by at most one row."""
    count = min(parts, rows.num_rows)
    bounds = [rows.num_rows * i // count for i in range(count + 1)] if count else [0]
    return [rows.slice(start, end - start) for start, end in pairwise(bounds)]


def is_table(path: str | Path) -> bool:
    """Return whether there is a Delta table; False while its first commit is being written."""
    return bool(DeltaTable.is_deltatable(str(path)))


def query(sql: str, **tables: str | Path) -> pa.Table:
    """Run a SELECT (DataFusion SQL) over Delta tables anywhere, each under its keyword.

    Raises:
        MillraceError: If a table does not exist or cannot be read.
    """
    builder = QueryBuilder()
    try:
        for name, path in tables.items():
            builder.register(name, DeltaTable(str(path)))
        return pa.table(builder.execute(sql).read_all())
    except (OSError, DeltaError) as error:
        raise unreadable(", ".join(map(str, tables.values())), error, "table") from error


def arrivals(path: str | Path) -> pa.Table:
    """Return what each file added to a table, oldest first: ``time`` (UTC) and ``rows``.

    The time is when the file was written, which is within milliseconds of its commit.

    Raises:
        MillraceError: If the table does not exist or cannot be read.
    """
    try:
        files = pa.table(DeltaTable(str(path)).get_add_actions(flatten=True))
    except (OSError, DeltaError) as error:
        raise unreadable(path, error, "table") from error
    times = files["modification_time"].cast(pa.timestamp("ms", "UTC"))
    return pa.table({"time": times, "rows": files["num_records"]}).sort_by("time")
