"""Start numbers of an app's drivers: they only increase, even if callers race or are killed."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock

from millrace.atomic_file import write_atomically
from millrace.model.errors import MillraceError

FILE = "generation"


def fence(pipeline: str, app: str) -> str:
    """Return the transaction id under which an app's drivers commit their generation to the lake."""
    return f"{pipeline}/{app}/generation"


def allot(folder: Path, above: int = 0) -> int:
    """Return a number higher than any before; it is on disk before it is returned.

    Args:
        folder: The app's folder under the run folder.
        above: Highest number known from elsewhere, as the folder may have been lost.

    Raises:
        MillraceError: If the folder cannot be written or its counter is not a number.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{FILE}.lock"):
            number = max(newest(folder), above) + 1
            write_atomically(folder / FILE, str(number), key="run folder", sync_folder=True)
    except OSError as error:
        raise MillraceError("run folder", str(folder), "a writable folder with free space", str(error)) from error
    return number


def newest(folder: Path) -> int:
    """Return the highest number so far; 0 before the first.

    Raises:
        MillraceError: If the counter is not a number: starting again from 1 would let a stale driver pass its fence.
    """
    path = folder / FILE
    try:
        return int(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0
    except ValueError:
        remedy = "Write the highest number of the generation-*.json files into it."
        raise MillraceError(str(path), path.read_bytes()[:40], "a whole number", remedy) from None
