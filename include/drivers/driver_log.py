"""The drivers' log files: where they are, what they say last, and when they go."""

from __future__ import annotations

import re
from pathlib import Path

KEPT_LOGS = 20
TAIL_BYTES = 32_768
LINE_LIMIT = 500
_ERROR_LINE = re.compile(r"^(?!\s)(?!.*\bWARN\b).*(?:\b\w*(?:Error|Exception)\b|^Error: )")


def path(log_dir: Path, pipeline: str, app: str, generation: int) -> Path:
    """Return the log file of one driver."""
    return log_dir / f"driver-{pipeline}-{app}-{generation}.log"


def last_error(log: Path) -> str | None:
    """Return the last line of a log that names an error, None if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    error = next((line for line in reversed(lines) if _ERROR_LINE.match(line)), None)
    return error.strip()[:LINE_LIMIT] if error else None


def prune(log_dir: Path, pipeline: str, app: str, newest: int) -> None:
    """Delete the logs of all but the newest few generations of an app."""
    for file in log_dir.glob(f"driver-{pipeline}-{app}-*.log"):
        number = file.stem.rsplit("-", 1)[-1]
        if number.isdigit() and int(number) <= newest - KEPT_LOGS:
            file.unlink(missing_ok=True)
