"""Brings a table of an earlier version to the present schema, only with entries in its log."""

from __future__ import annotations

from deltalake import Schema
from deltalake.exceptions import DeltaError

from millrace.lake.commits import is_conflict
from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake, check_version
from millrace.lake.table_errors import unwritable


def migrate_all(lake: Lake) -> None:
    """Bring all existing tables to the present schema before anything reads them; cheap if they have it.

    Args:
        lake: The lake.

    Raises:
        MillraceError: If a table cannot be read or written, or belongs to a later version.
    """
    for table in TABLES:
        if not lake.exists(table):
            continue
        try:
            migrate(lake, table)
        except (OSError, DeltaError) as error:
            if not is_conflict(error):  # the other writer has the present schema, or maintenance applies it at night
                raise unwritable(lake.at(table), error) from error


def migrate(lake: Lake, table: str) -> bool:
    """Add the columns and properties that a table lacks; return False if it has them all.

    An append adds columns too. Until then, a query for a new column would not find it in an older table.

    Args:
        lake: The lake.
        table: Name of an existing table.

    Raises:
        CommitFailedError: If another process changed the table at the same moment.
        OSError: If the table cannot be written.
        DeltaError: If the table cannot be read.
        MillraceError: If the table belongs to a later version.
    """
    schema, handle = TABLES[table], lake.at(table).table()
    check_version(handle)
    names, properties = {field.name for field in handle.schema().fields}, handle.metadata().configuration
    columns = [field for field in Schema.from_arrow(schema.columns).fields if field.name not in names]
    missing = {name: value for name, value in schema.configuration.items() if properties.get(name) != value}
    if columns:
        handle.alter.add_columns(columns)
    if missing:
        handle.alter.set_table_properties(missing)
    return bool(columns or missing)
