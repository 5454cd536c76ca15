"""Bring a table of an earlier version to the present schema, by entries of its log alone."""

from __future__ import annotations

from deltalake import Schema

from millrace.lake.schemas import TABLES
from millrace.lake.store import Lake


def migrate(lake: Lake, table: str) -> bool:
    """Add the columns and properties that a table lacks; return False if it has them already.

    An append adds columns too. Until then, a query that names one would not find it in an older table.

    Args:
        lake: The lake.
        table: Name of an existing table.

    Raises:
        CommitFailedError: If somebody else changed the table at the same moment.
        OSError: If the table cannot be written.
        DeltaError: If the table cannot be read.
    """
    schema, handle = TABLES[table], lake.at(table).table()
    names, properties = {field.name for field in handle.schema().fields}, handle.metadata().configuration
    columns = [field for field in Schema.from_arrow(schema.columns).fields if field.name not in names]
    missing = {name: value for name, value in schema.configuration.items() if properties.get(name) != value}
    if columns:
        handle.alter.add_columns(columns)
    if missing:
        handle.alter.set_table_properties(missing)
    return bool(columns or missing)
