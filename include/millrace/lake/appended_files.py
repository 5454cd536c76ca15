"""What was appended to a pipeline's source table since it was last read, whatever maintenance did to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from millrace.lake.log import Commit, DeltaLog
from millrace.model.errors import MillraceError


@dataclass(frozen=True)
class SourceState:
    """The newest state of a source table.

    Attributes:
        table_id: The table's id, which changes only if the table is recreated.
        version: Its newest version.
    """

    table_id: str
    version: int


@dataclass(frozen=True)
class Appended:
    """Data files with the rows that were appended to a table.

    Attributes:
        files: The files.
        problems: One sentence for each group of rows that are in none of them.
    """

    files: tuple[Path, ...]
    problems: tuple[str, ...] = ()


def source_state(source: Path) -> SourceState:
    """Return the newest state of a pipeline's source table.

    Raises:
        MillraceError: If there is no table, or its files cannot be read by their columns' names.
    """
    try:
        table = DeltaTable(str(source))
        metadata = table.metadata()
    except (OSError, DeltaError) as error:
        raise MillraceError("source", str(source), "a Delta table", "Start the feed, or name another table.") from error
    mapping = metadata.configuration.get("delta.columnMapping.mode", "none")
    if mapping != "none":
        remedy = "Its files do not contain the column names: profile a table without column mapping."
        raise MillraceError("delta.columnMapping.mode", mapping, "none", remedy)
    return SourceState(str(metadata.id), int(table.version()))


def appended_files(source: Path, after: int, through: int) -> Appended:
    """Return the data files with the rows that the commits in (after, through] appended.

    After -1, these are the files of version ``through``. Rows that were deleted since then are left out. Of rows that
    were compacted since then, the compacted file is returned if it contains no older rows, and else the original files.
    A commit that removes older files writes most of their rows again, so the files that it adds are left out.

    Args:
        source: Folder of the table.
        after: Version up to which the rows are known; -1 for none.
        through: Version up to which to read.

    Raises:
        MillraceError: If the log cannot be read.
    """
    if after < 0:
        files = DeltaTable(str(source), version=through).file_uris()
        return Appended(tuple(Path(unquote(f.removeprefix("file://"))) for f in files))
    log, problems = DeltaLog(source), []
    found = {version: log.commit(version) for version in range(after + 1, through + 1)}
    if cleaned := [version for version, commit in found.items() if commit is None]:
        span = f"{cleaned[0]} to {cleaned[-1]}"
        problems.append(f"Versions {span} had left the log before they were read: their rows are not counted.")
    paths, mixed = _appended(commit for commit in found.values() if commit is not None)
    if mixed:
        what = f"{len(mixed)} commit{'s' * (len(mixed) > 1)} that changed older rows (UPDATE, DELETE, MERGE, overwrite)"
        problems.append(f"Rows of {what} are not counted, version {mixed[0]} among them.")
    present = [path for path in paths if (source / path).is_file()]
    if lost := sorted({*paths} - {*present}):
        what = f"{len(lost)} file{'s' * (len(lost) > 1)} compacted with older rows and deleted before they were read"
        problems.append(f"Rows of {what} are not counted, {lost[0]} among them.")
    return Appended(tuple(source / path for path in present), tuple(problems))


def _appended(commits: Iterable[Commit]) -> tuple[list[str], list[int]]:
    """Return the files whose rows commits appended and did not delete, without those whose rows moved to another.

    Also return the versions whose files are left out, because they mix new rows with older ones.
    """
    files: dict[str, None] = {}
    mixed: list[int] = []
    for commit in commits:
        older = not commit.removed <= files.keys()
        for path in commit.removed:
            files.pop(path, None)
        if commit.rewritten and all(path in files for path in commit.rewritten):
            for path in commit.rewritten:
                del files[path]
            files.update((file.path, None) for file in commit.moved)
        if not older:
            files.update((file.path, None) for file in commit.added)
        elif commit.added:
            mixed.append(commit.version)
    return list(files), mixed
