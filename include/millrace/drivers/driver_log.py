"""The drivers' log files: their paths, last errors and deletion."""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from millrace.model.failure import reason_of

KEPT_LOGS = 20
MOST_BYTES = 32 * 1024 * 1024
"""Size at which a log is rotated; one old copy is kept next to it."""
TAIL_BYTES = 32_768
FORMER = ".1"
_ERROR_LINE = re.compile(r"^(?!\s)(?!.*\bWARN\b).*(?:\b\w*(?:Error|Exception)\b|^Error: )")
_NAME = re.compile(r"(driver-.+)-(\d+)\.log(?:\.1)?")


def path(log_dir: Path, pipeline: str, app: str, generation: int) -> Path:
    """Return the log file of one driver."""
    return log_dir / f"driver-{pipeline}-{app}-{generation}.log"


def last_error(log: Path) -> str | None:
    """Return the reason of the last error in a log; None if there is none."""
    text = _tail(log)
    if len(text) < TAIL_BYTES:
        text = _tail(former(log)) + text
    lines = text.decode("utf-8", errors="replace").splitlines()
    error = next((line for line in reversed(lines) if _ERROR_LINE.match(line)), None)
    return reason_of(error) if error else None


def former(log: Path) -> Path:
    """Return the file of a log's former part."""
    return log.with_name(log.name + FORMER)


def bound(log: Path, most_bytes: int = MOST_BYTES) -> bool:
    """Start a log again if it has grown too large, and return whether it did. Its writers continue undisturbed.

    Text written between the copy and the cut is lost, as with logrotate's ``copytruncate``.

    Args:
        log: A file to which all writers append (``O_APPEND``); it need not exist.
        most_bytes: Maximum size, bytes.
    """
    with suppress(OSError):
        if log.stat().st_size > most_bytes:
            with suppress(OSError):  # on a full disk, the log has to go
                shutil.copyfile(log, former(log))
            os.truncate(log, 0)
            return True
    return False


def bound_all(log_dir: Path, pipeline: str) -> None:
    """Limit the size of a pipeline's driver logs."""
    for log in log_dir.glob(f"driver-{pipeline}-*.log"):
        bound(log)


def prune(log_dir: Path, pipeline: str, app: str, newest: int) -> None:
    """Delete an app's logs except those of the newest few generations."""
    for file, number in _generations(log_dir).get(f"driver-{pipeline}-{app}", {}).items():
        if number <= newest - KEPT_LOGS:
            file.unlink(missing_ok=True)


def expire(log_dir: Path, before: datetime) -> int:
    """Delete logs last written before a time (UTC), except for each app's newest generation; return how many files."""
    deleted = 0
    for files in _generations(log_dir).values():
        newest = max(files.values())
        for file, number in files.items():
            with suppress(FileNotFoundError):
                if number < newest and file.stat().st_mtime < before.timestamp():
                    file.unlink()
                    deleted += 1
    return deleted


def _generations(log_dir: Path) -> dict[str, dict[Path, int]]:
    """Return each app's logs with their generations, by the start of their names."""
    found: dict[str, dict[Path, int]] = defaultdict(dict)
    for file in log_dir.glob("driver-*.log*"):
        if name := _NAME.fullmatch(file.name):
            found[name[1]][file] = int(name[2])
    return found


def _tail(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read()
    except OSError:
        return b""
