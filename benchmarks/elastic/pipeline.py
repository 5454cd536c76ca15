"""One pipeline under test in its own home: started, resized, controlled by a separate process, and ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from signal import SIGKILL

from benchmarks.elastic.cluster import Cluster
from benchmarks.elastic.measure import Interval
from millrace.control.batch_history import read_batches, sound
from millrace.drivers.reconciler import Reconciler
from millrace.environment.home import Home
from millrace.environment.spark_env import MASTER_VARIABLE
from millrace.lake.control_tables import ControlTables
from millrace.lake.store import Lake
from millrace.model.decision import Outcome
from millrace.model.deployment import Deployment
from millrace.model.spec import PipelineSpec
from millrace.model.telemetry import BatchMetrics
from millrace.places import REPO, SOURCES
from millrace.run_folder import discovery, driver_records
from millrace.run_folder.driver_records import DriverRecord

LIMIT_S = 300.0
"""Longest wait for anything; after that the attempt is given up and its method reported as failed."""
POLL_S = 0.1
READ_S = 1.0
"""Seconds between two reads of a table: each read takes processor time from the app."""
END_S = 10.0


def wait_until(condition: Callable[[], object], what: str, limit_s: float = LIMIT_S, every_s: float = POLL_S) -> None:
    """Wait for a condition.

    Args:
        condition: Must become true.
        what: The same in words.
        limit_s: Longest wait.
        every_s: Time between two checks.

    Raises:
        RuntimeError: If it does not become true in time.
    """
    give_up = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > give_up:
            raise RuntimeError(f"not within {limit_s:g} s: {what}")
        time.sleep(every_s)


@dataclass
class Clock:
    """The time that its reconciler uses (UTC): the machine's, unless someone sets it.

    Attributes:
        ahead_s: How far it is ahead of the machine's, seconds.
    """

    ahead_s: float = 0.0

    def __call__(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC) + timedelta(seconds=self.ahead_s)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline on the cluster.

    Attributes:
        cluster: The cluster.
        home: Its own home.
        spec: Its spec for the control loop.
        first: Its initial Deployment.
        clock: The clock of its reconciler.
    """

    cluster: Cluster
    home: Home
    spec: PipelineSpec
    first: Deployment
    clock: Clock = field(default_factory=Clock)

    @property
    def tables(self) -> ControlTables:
        """Its control tables."""
        return ControlTables(Lake(self.home.lake))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and leave nothing of it behind.

        Raises:
            RuntimeError: If it does not become ready.
        """
        self.tables.deployments.commit(self.first, None)
        reconciler = self.reconciler()
        try:
            changes = reconciler.reconcile()
            if not any(change.outcome is Outcome.READY for change in changes):
                raise RuntimeError(f"it does not start: {[change.error for change in changes]}; {self.log()}")
            yield
        finally:
            self.stop(reconciler)

    @contextmanager
    def controlled(self, *policy: str) -> Iterator[subprocess.Popen[bytes]]:
        """Let a controller process decide while the context lasts; see :mod:`benchmarks.elastic.controller`."""
        path = self.home.root / "spec.json"
        path.write_text(self.spec.model_dump_json(), encoding="utf-8")
        env = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
        env |= {"MILLRACE_HOME": str(self.home.root), MASTER_VARIABLE: self.cluster.address, "PYTHONPATH": str(SOURCES)}
        argv = [sys.executable, "-m", "benchmarks.elastic.controller", str(path), *policy]
        with (self.home.logs / "controller.log").open("ab") as log:
            process = subprocess.Popen(argv, cwd=REPO, env=env, stdout=subprocess.PIPE, stderr=log)
        try:
            if process.stdout:
                process.stdout.readline()  # now it has imported everything, like Airflow's scheduler
            yield process
            if process.poll():
                raise RuntimeError(f"the controller ended with {process.returncode}: {self.log('controller.log')}")
        finally:
            process.kill()  # the next reconcile finishes its unfinished work
            process.wait()

    def resize(self, slots: int) -> Deployment:
        """Commit a version with other slots, which the driver's agent carries out."""
        latest = self.latest()
        app = replace(latest.apps[self.spec.app], slots=slots)
        return self._commit(replace(latest, apps={self.spec.app: app}))

    def place(self, placement: Mapping[str, tuple[int, ...]]) -> Deployment:
        """Commit a version that places state partitions on other executors; the driver's agent moves them."""
        latest = self.latest()
        app = replace(latest.apps[self.spec.app], placement=placement)
        return self._commit(replace(latest, apps={self.spec.app: app}))

    def resize_and_record(self, slots: int) -> None:
        """Commit a version with other slots, wait until it is carried out, and record the change like `apply`."""
        self.carry_out(self.resize(slots).version)

    def carry_out(self, version: int) -> None:
        """Wait until a version is carried out, and record the change."""
        self.await_version(version)
        self.reconciler().reconcile()

    def await_version(self, version: int) -> None:
        """Wait until the driver has carried out a version."""
        wait_until(lambda: (r := self.record()) is not None and r.version >= version, f"version {version} carried out")

    def latest(self) -> Deployment:
        """Return its newest version."""
        latest = self.tables.deployments.latest(self.spec.name)
        if latest is None:
            raise RuntimeError("it was never started")
        return latest

    def record(self) -> DriverRecord | None:
        """Return the record of its newest driver."""
        records = driver_records.all_of(self.home.run / "drivers", self.spec.name, self.spec.app)
        return next(iter(records), None)

    def batches(self) -> list[BatchMetrics]:
        """Return the batches of the last half hour in telemetry, in the order in which they ran."""
        return sound(read_batches(Lake(self.home.lake), self.spec.name, self.spec.app, datetime.now(UTC)))

    def intervals(self) -> list[Interval]:
        """Return start and end of each of these batches, seconds since 1970."""
        return [(b.time.timestamp() - b.duration_s, b.time.timestamp()) for b in self.batches()]

    def await_batches(self, least: int, since: datetime, limit_s: float = LIMIT_S) -> Sequence[BatchMetrics]:
        """Return the batches that started after a time, once there are at least ``least``."""
        chosen: list[BatchMetrics] = []

        def enough() -> bool:
            chosen[:] = [b for b in self.batches() if b.time.timestamp() - b.duration_s > since.timestamp()]
            return len(chosen) >= least

        wait_until(enough, f"{least} batches", limit_s, READ_S)
        return chosen

    def log(self, name: str = "drivers/*") -> str:
        """Return the end of a log."""
        files = sorted((f for f in self.home.logs.glob(name) if f.is_file()), key=lambda f: f.stat().st_mtime)
        return files[-1].read_text(encoding="utf-8", errors="replace")[-1500:] if files else "no log"

    def stop(self, reconciler: Reconciler) -> None:
        """Stop it, and wait until the cluster has no executor left: no other pipeline of the cluster may run on."""
        self._commit(replace(self.latest(), running=False))
        reconciler.reconcile()
        for driver in discovery.find(self.home.run / "drivers", self.spec.name):  # also drivers without a record
            for process in driver.processes:
                process.signal(SIGKILL)
        wait_until(lambda: not self.cluster.executors.alive(), "executors that end with their driver", END_S)

    def _commit(self, content: Deployment) -> Deployment:
        # a Decision can only become one version
        return self.tables.deployments.commit(replace(content, decision_id=None), content.version)

    def reconciler(self) -> Reconciler:
        """Return the reconciler of its drivers."""
        options = self.cluster.submit_options(self.home)
        run, logs = self.home.run / "drivers", self.home.logs / "drivers"
        return Reconciler(self.spec, self.tables, run, logs, options, clock=self.clock)
