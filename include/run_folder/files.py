"""Small files that several processes read: each sees the old content or the new one whole, even after a kill."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from include.model.errors import MillraceError


def write_atomically(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Replace a file, on disk before it returns.

    Args:
        path: The file; its folder is created if it is not there.
        content: The new content; text is written as UTF-8.
        mode: Permissions, set before anything is written.

    Raises:
        MillraceError: If the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            os.fchmod(descriptor, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise MillraceError("run folder", str(path.parent), "a writable folder with free space", str(error)) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
