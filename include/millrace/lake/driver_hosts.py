"""Which host runs the drivers of a pipeline, by their own telemetry: no other host may start them too."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError

TABLE = "telemetry/apps"
SEEN = timedelta(seconds=60)
"""How long a driver counts as alive after its last row; with a period of one minute, it writes every 20 s."""
MOST_ROWS = 100


def this_host() -> str:
    """Return the name of this host."""
    return socket.gethostname()


def elsewhere(lake: Lake, pipeline: str, now: datetime) -> tuple[str, float] | None:
    """Return another host that runs a driver and how many seconds ago it last reported; None if there is none.

    Args:
        lake: The lake.
        pipeline: The pipeline.
        now: Current time (UTC).
    """
    try:
        rows = read_recent(lake, RowQuery(TABLE, pipeline, MOST_ROWS, not_before=now - SEEN)).rows.to_pylist()
    except MillraceError:  # unreadable telemetry does not keep a driver from starting
        return None
    others = [row for row in rows if row["time"] >= now - SEEN and row["host"] not in (None, this_host())]
    if not others:
        return None
    last = max(others, key=lambda row: row["time"])
    return str(last["host"]), max(0.0, (now - last["time"]).total_seconds())
