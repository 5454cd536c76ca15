"""Small files that several processes read: each sees the complete old or new content, even after a kill.

Uses only the standard library: set-up writes such files before the environment exists.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from millrace.model.errors import MillraceError


def write_atomically(
    path: Path, content: str | bytes, mode: int | None = 0o600, *, key: str = "folder", sync_folder: bool = False
) -> None:
    """Write a temporary file next to the target, sync it to disk, and rename it.

    Args:
        path: The file; its folder is created if it does not exist.
        content: The new content; text is written as UTF-8.
        mode: Permissions, set before anything is written; None follows the process's umask.
        key: Name of the folder in the error message.
        sync_folder: Sync the rename to disk too: then not even a crash of the machine restores the old content.

    Raises:
        MillraceError: If the folder cannot be written.
    """
    scratch = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
            with os.fdopen(descriptor, "wb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
        if sync_folder:
            _sync(path.parent)
    except OSError as error:
        raise MillraceError(key, str(path.parent), "a writable folder with free space", str(error)) from error


def read_if_there(path: Path, *, key: str = "folder") -> bytes | None:
    """Return a file's content; None if there is no such file.

    Args:
        path: The file.
        key: Name of the folder in the error message.

    Raises:
        MillraceError: If the file cannot be read, for example on a network drive that does not respond.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise MillraceError(key, str(path), "a file that can be read", f"{error}.") from error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
