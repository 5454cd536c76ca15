"""Finds the pipelines that the reconciler must check now, because an ended driver is to be started again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from millrace.drivers.app_drivers import AppDrivers
from millrace.lake.deployments import DeploymentStore
from millrace.lake.store import Lake
from millrace.run_folder import driver_records
from millrace.run_folder.discovery import python_driver
from millrace.run_folder.driver_records import ENDED, DriverState

LOOK = timedelta(seconds=5)
"""Interval at which the lake is queried about an ended driver: its wait may last an hour."""
REPEAT = timedelta(seconds=20)
"""Time after which a pipeline is named again if it has not been started since."""


@dataclass
class Wake:
    """Watches the run folder; queries the lake only about drivers that have ended.

    Attributes:
        run_dir: Folder of records, locks and generations.
        lake: Contains the Deployments.
    """

    run_dir: Path
    lake: Lake
    _next_look: dict[str, datetime] = field(default_factory=dict)

    def due(self, now: datetime) -> tuple[str, ...]:
        """Return the pipelines with a driver to start now; each is named once per :data:`REPEAT`.

        Raises:
            MillraceError: If the lake cannot be read.
        """
        ended: dict[str, list[str]] = {}
        for pipeline, app in self._ended():
            ended.setdefault(pipeline, []).append(app)
        self._next_look = {name: at for name, at in self._next_look.items() if name in ended}
        return tuple(name for name, apps in sorted(ended.items()) if self._is_due(name, apps, now))

    def _ended(self) -> Iterator[tuple[str, str]]:
        """Yield the apps whose newest driver failed, or ended without a report."""
        for folder in sorted({record.parent for record in self.run_dir.glob("*/*/generation-*.json")}):
            newest = driver_records.newest(self.run_dir, folder.parent.name, folder.name)
            if newest is None:
                continue
            process = python_driver(newest)
            gone = newest.state not in ENDED and (process is None or not process.alive())
            if gone or newest.state is DriverState.FAILED:
                yield folder.parent.name, folder.name

    def _is_due(self, pipeline: str, apps: list[str], now: datetime) -> bool:
        if now < self._next_look.get(pipeline, now):
            return False
        deployments = DeploymentStore(self.lake)
        latest = deployments.latest(pipeline)
        drivers = (AppDrivers(self.run_dir, pipeline, app, deployments) for app in apps)
        tries = [at for one in drivers if latest is not None and (at := one.next_try(latest, now)) is not None]
        due = any(at <= now for at in tries)
        self._next_look[pipeline] = now + REPEAT if due else min([now + LOOK, *tries])
        return due
