"""Fires an Asset when a driver that has ended is to be started: the reconciler need not wait for its next minute."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from millrace.model.errors import MillraceError

if TYPE_CHECKING:
    from millrace.drivers.wake import Wake

POLL_S = 1.0


class DriverEndTrigger(BaseEventTrigger):
    """Fires when a driver's wait after its end is over, or nobody has noted its end yet.

    It reads the run folder and the process table, so it is of use only on the host that runs the drivers; elsewhere
    the reconciler's schedule finds what has ended.

    Args:
        run_dir: Folder of the drivers' records.
        lake: Folder or URI of the lake.
    """

    def __init__(self, run_dir: str, lake: str) -> None:
        super().__init__()
        self.run_dir = run_dir
        self.lake = lake

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments."""
        # spelled out: Airflow also has plugins/ itself on sys.path, where __module__ could be another name
        return "millrace.plugins.driver_end.DriverEndTrigger", {"run_dir": self.run_dir, "lake": self.lake}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event whenever drivers are to be started."""
        wake = await asyncio.to_thread(self._wake)
        while True:
            try:
                if due := await asyncio.to_thread(wake.due, datetime.now(UTC)):
                    yield TriggerEvent({"pipelines": list(due)})
            # an unreadable folder may become readable; a dead trigger stays dead
            except (OSError, MillraceError) as error:
                self.log.warning("%s", error)
            await asyncio.sleep(POLL_S)

    def _wake(self) -> Wake:
        # imported where the trigger runs: whoever parses DAGs must not pay for pyarrow
        from millrace.drivers.wake import Wake
        from millrace.lake.store import Lake

        return Wake(Path(self.run_dir), Lake(self.lake))
