"""Exclusive locks of an app and of a checkpoint: only the holder may run queries; the kernel frees them at its death.

They are POSIX record locks. They belong to a process, so neither a fork nor an exec inherits them, and two bytes of one
file give each of a driver's two processes its own lock. A query commits from the JVM and from Python
(``foreachBatch``), so an app is free only when both processes are gone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

PYTHON_BYTE = 0
JVM_BYTE = 1
APP, CHECKPOINT = "app.lock", ".millrace.lock"
"""Lock files in an app's folder under the run folder, and in a checkpoint, which two homes or specs may share."""
_OURS: set[Path] = set()
"""Lock files that this process holds."""
_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux: type, whence, start, length, pid


class AppLock:
    """The Python half of a lock.

    Closing any descriptor of the file frees the process's lock on it. So a process makes only one AppLock per file, and
    nothing else opens the file.

    Args:
        folder: The app's folder under the run folder, or a checkpoint; created if it does not exist.
        name: :data:`APP` or :data:`CHECKPOINT`.
    """

    def __init__(self, folder: Path, name: str = APP) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / name
        self._fd: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free and return whether it is held now."""
        if self._fd is not None:
            return True
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, PYTHON_BYTE)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        self._fd = fd
        _OURS.add(self.path)
        return True

    def release(self) -> None:
        """Free the lock before the process ends; only once no query needs it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _OURS.discard(self.path)


def is_ours(folder: Path, name: str = APP) -> bool:
    """Return whether this process holds the lock of an app or a checkpoint."""
    return folder / name in _OURS


def holders(folder: Path, name: str = APP) -> tuple[int, ...]:
    """Return the processes, other than this one, that hold the lock of an app or a checkpoint.

    Opening and closing the file would free a lock of this process: never call this while it holds an :class:`AppLock`.
    """
    try:
        fd = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return ()
    try:
        pids = [_holder(fd, byte) for byte in (PYTHON_BYTE, JVM_BYTE)]
    finally:
        os.close(fd)
    return tuple(pid for pid in pids if pid is not None)


def _holder(fd: int, byte: int) -> int | None:
    question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else int(pid)
