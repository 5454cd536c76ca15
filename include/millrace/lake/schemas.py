"""The lake's tables; run ``python -m millrace.lake.schemas`` after a change to write docs/tables.md."""

from __future__ import annotations

from millrace.lake.control_schemas import CONTROL
from millrace.lake.table_schema import TYPES, TableSchema
from millrace.lake.telemetry_schemas import TELEMETRY
from millrace.places import REPO

DOCUMENT = REPO / "docs" / "tables.md"
TABLES: dict[str, TableSchema] = {**TELEMETRY, **CONTROL}

_HEAD = """# The tables of the lake

Contents, writers and readers of each table. `python -m millrace.lake.schemas` writes this page from
`telemetry_schemas.py` and `control_schemas.py` in `include/millrace/lake`. [lake.md](lake.md) says how the tables are
read and kept small. Missing values are null, never 0. Columns that an older table lacks are null in its rows.
"""


def document() -> str:
    """Return the page that describes every table and column."""
    return "\n".join([_HEAD, *(_section(name, table) for name, table in TABLES.items())])


def _section(name: str, table: TableSchema) -> str:
    rows = [
        f"| `{field.name}` | {TYPES[field.type]} | {table.units.get(field.name, '')} | {table.meanings[field.name]} |"
        for field in table.columns
    ]
    kept = f"for {table.keep_days} days" if table.keep_days else "permanently"
    users = f"Written by: {table.writer}. Read by: {table.readers}. Kept {kept}."
    head = [f"## {name}", "", f"A row is {table.row}.", "", users]
    return "\n".join([*head, "", "| column | type | unit or range | meaning |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
