"""Data files that a range of a table's commits appended, from its log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from include.lake.store import Lake
from include.model.errors import MillraceError


@dataclass(frozen=True)
class Appended:
    """What the commits of the range (after, through] appended.

    Attributes:
        through: Last version of the range.
        files: Its data files; those of compactions are left out, as they append nothing.
    """

    through: int
    files: tuple[Path, ...]


def newest_version(source: Path) -> int:
    """Return the newest version of a Delta table.

    Raises:
        MillraceError: If there is none, or one whose files cannot be read by their columns' names.
    """
    try:
        table = DeltaTable(str(source))
        mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    except (OSError, DeltaError) as error:
        raise MillraceError("source", str(source), "a Delta table", "Start the feed, or name another table.") from error
    if mapping != "none":
        remedy = "Its files do not have the columns' names: profile a table without column mapping."
        raise MillraceError("delta.columnMapping.mode", mapping, "none", remedy)
    return int(table.version())


def appended(source: Path, after: int, through: int) -> Appended:
    """Return the files that were appended after a version; after -1, all there are where the log begins later.

    Raises:
        MillraceError: If commits of the range were cleaned from the log.
    """
    log = source / "_delta_log"
    if after < 0 and not (log / f"{0:020d}.json").exists():
        files = DeltaTable(str(source), version=through).file_uris()
        return Appended(through, tuple(Path(unquote(f.removeprefix("file://"))) for f in files))
    found: list[Path] = []
    for version in range(after + 1, through + 1):
        try:
            text = (log / f"{version:020d}.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            remedy = f"Version {version} was cleaned from the log: go on with --since-version {version}."
            raise MillraceError("--since-version", after, f">= {version}", remedy) from None
        adds = [json.loads(line)["add"] for line in text.splitlines() if line.startswith('{"add"')]
        found += [source / unquote(add["path"]) for add in adds if add.get("dataChange", True)]
    return Appended(through, tuple(found))


def committed(lake: Lake, table: str, transaction: str) -> int:
    """Return the last number committed to a lake table under a transaction id, -1 before the first.

    Raises:
        MillraceError: If the table cannot be read.
    """
    path = lake.path(table)
    try:
        if not DeltaTable.is_deltatable(str(path)):
            return -1
        number = DeltaTable(str(path)).transaction_version(transaction)
    except (OSError, DeltaError) as error:
        raise MillraceError(table, str(path), "a readable Delta table", "Check its files.") from error
    return -1 if number is None else int(number)
