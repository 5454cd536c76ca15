"""Which host runs the drivers of a pipeline, by their own telemetry: no other host may start them too."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta

from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.store import Lake
from millrace.model.errors import MillraceError

TABLE = "telemetry/apps"
SEEN = timedelta(seconds=60)
"""Shortest time for which a driver counts as alive after its last row."""
MOST_ROWS = 100


def this_host() -> str:
    """Return the name of this host."""
    return socket.gethostname()


def gone_after(period_s: float) -> timedelta:
    """Return the silence after which a driver counts as gone: it writes three rows per period."""
    return max(SEEN, timedelta(seconds=period_s))


def elsewhere(lake: Lake, pipeline: str, now: datetime, period_s: float = 0.0) -> tuple[str, float] | None:
    """Return another host that runs a driver and how many seconds ago it last reported; None if there is none.

    Args:
        lake: The lake.
        pipeline: The pipeline.
        now: Current time (UTC).
        period_s: The spec's ``period_s``, seconds; 0 if it is not known.
    """
    since = now - gone_after(period_s)
    try:
        rows = read_recent(lake, RowQuery(TABLE, pipeline, MOST_ROWS, not_before=since)).rows.to_pylist()
    except MillraceError:  # unreadable telemetry does not keep a driver from starting
        return None
    others = [row for row in rows if row["time"] >= since and row["host"] not in (None, this_host())]
    if not others:
        return None
    last = max(others, key=lambda row: row["time"])
    return str(last["host"]), max(0.0, (now - last["time"]).total_seconds())
