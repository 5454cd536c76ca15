"""The drivers' log files: where they are, what they say last, and when they go."""

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
"""Size from which a log begins anew; what it held is kept once, beside it."""
TAIL_BYTES = 32_768
FORMER = ".1"
_ERROR_LINE = re.compile(r"^(?!\s)(?!.*\bWARN\b).*(?:\b\w*(?:Error|Exception)\b|^Error: )")
_NAME = re.compile(r"(driver-.+)-(\d+)\.log(?:\.1)?")


def path(log_dir: Path, pipeline: str, app: str, generation: int) -> Path:
    """Return the log file of one driver."""
    return log_dir / f"driver-{pipeline}-{app}-{generation}.log"


def last_error(log: Path) -> str | None:
    """Return the reason of the last error in a log, None if there is none."""
    text = _tail(log)
    if len(text) < TAIL_BYTES:
        text = _tail(former(log)) + text
    lines = text.decode("utf-8", errors="replace").splitlines()
    error = next((line for line in reversed(lines) if _ERROR_LINE.match(line)), None)
    return reason_of(error) if error else None


def former(log: Path) -> Path:
    """Return where the former part of a log is kept."""
    return log.with_name(log.name + FORMER)


def bound(log: Path, most_bytes: int = MOST_BYTES) -> bool:
    """Let a log that has grown large begin anew, and return whether it did; who appends to it goes on undisturbed.

    What is written between the copy and the cut is lost, as with logrotate's ``copytruncate``.

    Args:
        log: A file that all its writers append to (``O_APPEND``); it need not exist.
        most_bytes: Size that it may have.
    """
    with suppress(OSError):
        if log.stat().st_size > most_bytes:
            with suppress(OSError):  # on a full disk the log is what has to go
                shutil.copyfile(log, former(log))
            os.truncate(log, 0)
            return True
    return False


def bound_all(log_dir: Path, pipeline: str) -> None:
    """Bound the logs of a pipeline's drivers."""
    for log in log_dir.glob(f"driver-{pipeline}-*.log"):
        bound(log)


def prune(log_dir: Path, pipeline: str, app: str, newest: int) -> None:
    """Delete the logs of all but the newest few generations of an app."""
    for file, number in _generations(log_dir).get(f"driver-{pipeline}-{app}", {}).items():
        if number <= newest - KEPT_LOGS:
            file.unlink(missing_ok=True)


def expire(log_dir: Path, before: datetime) -> int:
    """Delete logs last written before a time (UTC), but for each app's newest generation; return how many files."""
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
    """Return each app's logs with their generations, by the beginning of their names."""
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
