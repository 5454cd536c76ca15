"""Trigger the reconciler when an ended driver is due for a restart, instead of at the next minute."""

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
    """Fire when a driver's back-off after its end is over, or when its end was not recorded yet.

    It reads the run folder and the process table, so it works only on the host that runs the drivers. On other hosts
    the reconciler's schedule finds ended drivers.

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
        # a literal: Airflow also has plugins/ itself on sys.path, where __module__ could be another name
        return "millrace.plugins.driver_end.DriverEndTrigger", {"run_dir": self.run_dir, "lake": self.lake}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event whenever drivers are due for a restart."""
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
        # imported only when the trigger runs: parsing DAGs must not import pyarrow
        from millrace.drivers.wake import Wake
        from millrace.lake.store import Lake

        return Wake(Path(self.run_dir), Lake(self.lake))
