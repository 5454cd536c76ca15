"""The drivers of many pipelines in one process: ``python -m benchmarks.many.drivers LAKE PIPELINE...``.

They write what attached drivers write, through the same writer: batches and heartbeats, in one commit of each table per
third of a period. They follow the newest Deployments. The process ends when its parent process ends.

After SIGUSR1, each pipeline is silent for over a period in every cycle: it keeps its batches and commits them when the
silence ends. The evaluation of that commit is due at once, so its latency can be measured.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.many.load import BATCH_S, QUERY, Silences, SyntheticQuery
from millrace.lake.attached_drivers import claim
from millrace.lake.deployments import TABLE as DEPLOYMENTS
from millrace.lake.deployments import DeploymentStore
from millrace.lake.driver_hosts import TABLE as APPS
from millrace.lake.driver_hosts import this_host
from millrace.lake.row_codec import app_row
from millrace.lake.store import Lake
from millrace.model.attached_driver import AttachedDriver
from millrace.model.telemetry import AppMetrics
from millrace.runtime.telemetry.batches import AppIdentity
from millrace.runtime.telemetry.host import HostCpu
from millrace.runtime.telemetry.writer import Entry, Writer

PERIOD_S = 60.0
START_SLOTS = 2
RESIZE_S = 2.0
"""Time from a Deployment until its executors have registered, seconds."""
TICK_S, LOOK_S = 0.1, 1.0
GENERATION = 1


def spread_s(place: int, pipelines: int) -> float:
    """Return by how much a pipeline's commits follow those of the first pipeline, seconds."""
    return place / pipelines * PERIOD_S / 3


class SyntheticDriver:
    """One pipeline's attached driver; it writes from its construction on.

    Args:
        lake: Folder of the lake.
        query: The query that it runs.
        host: CPU time of this process, shared by all drivers.
        first_s: Time of its first batch on the monotonic clock, seconds.
    """

    def __init__(self, lake: Path, query: SyntheticQuery, host: HostCpu, first_s: float) -> None:
        self.name, self._query, self._due_s, self._began_s = query.pipeline, query, first_s, time.monotonic()
        self._slots, self._version = START_SLOTS, 0
        self._resized: datetime | None = None
        self._wanted: tuple[int, int, float] | None = None
        self._kept: list[Entry] = []
        self._silences = Silences()
        own = Lake(lake)
        row = AppMetrics(
            self.name, self.name, datetime.now(UTC), GENERATION, None, None, 0.0, this_host(), self._heartbeat()
        )
        own.append(APPS, [app_row(row)], {claim(self.name, self.name): GENERATION})
        self._writer = Writer(own, AppIdentity(self.name, self.name, GENERATION, 1, START_SLOTS), PERIOD_S, host)
        self._writer.describe = self._heartbeat

    def follow(self, version: int, slots: int) -> None:
        """Start to change to the slots of a version; repeated calls with the same version do nothing."""
        if version > max(self._version, self._wanted[0] if self._wanted else 0):
            self._wanted = version, slots, time.monotonic() + RESIZE_S

    def begin_cycles(self, at_s: float) -> None:
        """Begin the first silence at a time on the monotonic clock, seconds."""
        self._silences.start(at_s)

    def tick(self) -> None:
        """Do what is due: finish a change, end a batch."""
        now_s = time.monotonic()
        if self._wanted is not None and now_s >= self._wanted[2]:
            self._version, self._slots, _ = self._wanted
            self._wanted, self._resized = None, datetime.now(UTC)
            self._writer.hurry()
        if now_s >= self._due_s:
            self._due_s += BATCH_S
            metrics = self._query.batch(now_s - self._began_s, datetime.now(UTC), self._slots)
            self._report(Entry(metrics, QUERY, metrics.batch_id), self._silences.holds(now_s))

    def _report(self, entry: Entry, silent: bool) -> None:
        """Pass a batch on to the writer, or keep it while the pipeline is silent."""
        was_silent = bool(self._kept)
        self._kept.append(entry)
        if not silent:
            for kept in self._kept:
                self._writer.add(kept)
            self._kept.clear()
        if silent != was_silent:
            self._writer.hurry()  # before a silence what is buffered, after it what was kept

    def _heartbeat(self) -> AttachedDriver:
        name = f"synthetic ({self._query.pipeline}) on {this_host()}, process {os.getpid()}"
        return AttachedDriver(name, self._version, self._slots, PERIOD_S / 3, resized=self._resized)


def main(lake: Path, pipelines: Sequence[str]) -> None:
    """Run the drivers until the parent process ends or a signal ends this one."""
    begun: list[float] = []
    signal.signal(signal.SIGUSR1, lambda *_: begun.append(time.monotonic()))
    parent, host, store = os.getppid(), HostCpu(os.getpid()), DeploymentStore(Lake(lake))
    drivers: list[SyntheticDriver] = []
    began_s, read, looked_s = time.monotonic(), -1, 0.0
    while os.getppid() == parent:
        now_s = time.monotonic()
        if len(drivers) < len(pipelines) and now_s >= began_s + spread_s(len(drivers), len(pipelines)):
            query = SyntheticQuery(pipelines[len(drivers)], len(drivers), len(pipelines))
            drivers.append(SyntheticDriver(lake, query, host, now_s))
        if now_s >= looked_s + LOOK_S:
            looked_s, read = now_s, _follow(store, drivers, read, len(pipelines))
        if begun:
            for place, driver in enumerate(drivers):
                driver.begin_cycles(begun[0] + spread_s(place, len(pipelines)))
            begun.clear()
        for driver in drivers:
            driver.tick()
        time.sleep(TICK_S)


def _follow(store: DeploymentStore, drivers: Sequence[SyntheticDriver], read: int, all_of_them: int) -> int:
    """Tell the drivers their newest Deployments if there are new ones, and return the table's version that was read."""
    newest = store.lake.version(DEPLOYMENTS)
    if newest == read:
        return read
    deployments = {d.pipeline: d for d in store.all_latest()}
    for driver in drivers:
        deployment = deployments.get(driver.name)
        if deployment is not None and driver.name in deployment.apps:
            driver.follow(deployment.version, deployment.apps[driver.name].slots)
    return newest if len(drivers) == all_of_them else read


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
