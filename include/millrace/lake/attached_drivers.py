"""Drivers that Millrace did not start, by the heartbeats that they write to ``telemetry/apps``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from millrace.lake.driver_hosts import SEEN, TABLE
from millrace.lake.newest_rows import RowQuery, read_recent
from millrace.lake.store import Lake
from millrace.model.attached_driver import AttachedDriver
from millrace.model.codec import from_json

MISSED = 3
"""Heartbeats in a row without which a driver counts as gone, if they span more than :data:`SEEN`."""
RECENTLY = timedelta(minutes=10)
LOOK_BACK = timedelta(days=1)
"""Age of the oldest heartbeat that is looked for."""
MOST_ROWS = 200


def claim(pipeline: str, app: str) -> str:
    """Return the transaction id under which drivers claim a generation by their first heartbeat."""
    return f"{pipeline}/{app}/attached"


@dataclass(frozen=True)
class Heartbeat:
    """The newest heartbeat of an attached driver.

    Attributes:
        time: When it was written (UTC).
        generation: Start number of the driver, >= 1.
        driver: What it says of itself.
    """

    time: datetime
    generation: int
    driver: AttachedDriver

    def age_s(self, now: datetime) -> float:
        """Return how long ago it was written, seconds."""
        return max(0.0, (now - self.time).total_seconds())

    @property
    def silence_s(self) -> float:
        """Silence after which the driver counts as gone, seconds."""
        return max(SEEN.total_seconds(), MISSED * self.driver.every_s)

    def is_alive(self, now: datetime) -> bool:
        """Return whether the driver still runs."""
        return not self.driver.ended and self.age_s(now) <= self.silence_s


def newest_heartbeat(lake: Lake, pipeline: str, app: str, now: datetime) -> Heartbeat | None:
    """Return the newest heartbeat of an app's newest attached driver; None if there was none within a day.

    Args:
        lake: The lake.
        pipeline: Name of the pipeline.
        app: Name of the app.
        now: Current time (UTC).

    Raises:
        MillraceError: If the lake cannot be read.
    """
    for look_back in (RECENTLY, LOOK_BACK):  # a driver that is alive has a row in the last minutes
        query = RowQuery(TABLE, pipeline, MOST_ROWS, not_before=now - look_back, equal={"app": app})
        rows = [row for row in read_recent(lake, query).rows.to_pylist() if row.get("attached")]
        if rows:
            last = max(rows, key=lambda row: (row["generation"], row["time"]))
            return Heartbeat(last["time"], int(last["generation"]), from_json(AttachedDriver, last["attached"]))
    return None
